package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"waggle/pg/schema"
)

// LiveWithin is how old, by the server's clock, the last heartbeat of a live broker may be.
const LiveWithin = 30 * time.Second

// Registration is what a broker tells all others when it starts.
type Registration struct {
	StartID uuid.UUID
	Name    string
	// HTTP and Mesh are the addresses that others reach it under.
	HTTP               string
	Mesh               string
	Build              schema.Build
	FrameMin, FrameMax int
	// Keys are zero where the build does not know of them.
	Keys HeldKeys
}

// HeldKeys is what a broker says of its mesh keys. It is zero for a broker without a mesh.
type HeldKeys struct {
	Source KeySource
	// Fingerprint is of the key that it encrypts with, empty without encryption.
	Fingerprint string
	// Ring is the number of the database's ring that it works with, 0 when its keys come from elsewhere.
	Ring int64
}

// row is how the columns hold it: null for what does not apply.
func (h *HeldKeys) row() (source, fingerprint *string, ring *int64) {
	if h.Source != "" {
		text := string(h.Source)
		source = &text
	}
	if h.Fingerprint != "" {
		fingerprint = &h.Fingerprint
	}
	if h.Ring != 0 {
		ring = &h.Ring
	}
	return source, fingerprint, ring
}

// Broker is a row of the registry.
type Broker struct {
	Registration
	Draining  bool
	StartedAt time.Time
	// SeenAgo is the age of its last heartbeat by the server's clock.
	SeenAgo time.Duration
}

// Admit runs the gate and enters the broker into the registry, in one transaction: a floor cannot be raised in between. A
// broker whose row is gone may be admitted again under the same start id. The error is a *schema.GateError when the build
// and the database do not fit each other, and ErrRingMoved when the broker has to read the mesh keyring again first.
func (d *DB) Admit(ctx context.Context, r Registration) error {
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		state, err := readState(ctx, tx, r.Build)
		if err != nil {
			return err
		}
		if err := schema.Check(r.Build, state); err != nil {
			return err
		}
		if r.Keys.Source == KeysFromDatabase {
			var ring int64
			if err := tx.QueryRow(ctx, statement("registry_ring")).Scan(&ring); err != nil {
				return fmt.Errorf("read number of mesh keyring: %w", err)
			}
			if ring != r.Keys.Ring {
				return ErrRingMoved
			}
		}
		source, fingerprint, ring := r.Keys.row()
		_, err = tx.Exec(ctx, statement("registry_admit"), r.StartID, r.Name, r.Build.Version, r.HTTP, r.Mesh,
			r.Build.Needs, r.Build.Knows, r.Build.RecordKnows, r.FrameMin, r.FrameMax, source, fingerprint, ring)
		return err
	})
	if err != nil {
		return fmt.Errorf("admit broker: %w", err)
	}
	return nil
}

// readState reads the gate only when there is one: a database that is too old may lack the table.
func readState(ctx context.Context, tx pgx.Tx, build schema.Build) (state schema.State, err error) {
	if state.Current, err = schema.Current(ctx, tx); err != nil || state.Current < build.Needs {
		return state, err
	}
	err = tx.QueryRow(ctx, statement("registry_gate"), build.RecordKnows).
		Scan(&state.SystemFloor, &state.RecordFloor, &state.QueuesAbove)
	if err != nil {
		return state, fmt.Errorf("read gate: %w", err)
	}
	return state, nil
}

// Beat is what a broker learns from its heartbeat.
type Beat struct {
	// Registered is false when the row is gone, because the broker was not heard for long; Admit brings it back.
	Registered bool
	// PopsPaused is the switch that DB.PopMaintenance reads.
	PopsPaused bool
	// MeshRing is the number of the mesh keyring, Rotating whether it is being rotated.
	MeshRing int64
	Rotating bool
}

// Heartbeat says that the broker lives and what mesh keys it works with, and runs the whole gate again: the error is a
// *schema.GateError once a floor has passed it.
func (d *DB) Heartbeat(ctx context.Context, startID uuid.UUID, build schema.Build, draining bool, keys HeldKeys) (beat Beat, err error) {
	var state schema.State
	_, fingerprint, ring := keys.row()
	var versions []int
	err = d.pool.QueryRow(ctx, statement("registry_heartbeat"), startID, draining, build.RecordKnows, popMaintenance,
		fingerprint, ring).
		Scan(&beat.Registered, &versions, &state.SystemFloor, &state.RecordFloor, &state.QueuesAbove, &beat.PopsPaused,
			&beat.MeshRing, &beat.Rotating)
	if err != nil {
		return Beat{}, fmt.Errorf("registry heartbeat: %w", err)
	}
	state.Current = schema.Unbroken(versions)
	return beat, schema.Check(build, state)
}

// Leave marks the broker as gone on purpose. Its row stays until the registry is cleaned.
func (d *DB) Leave(ctx context.Context, startID uuid.UUID) error {
	if _, err := d.pool.Exec(ctx, statement("registry_leave"), startID); err != nil {
		return fmt.Errorf("leave registry: %w", err)
	}
	return nil
}

// HasLeft tells whether the broker went on purpose.
func (d *DB) HasLeft(ctx context.Context, startID uuid.UUID) (left bool, err error) {
	if err := d.pool.QueryRow(ctx, statement("registry_left"), startID).Scan(&left); err != nil {
		return false, fmt.Errorf("read registry row: %w", err)
	}
	return left, nil
}

// LiveBrokers lists the brokers that have not left and were heard within LiveWithin, by name.
func (d *DB) LiveBrokers(ctx context.Context) ([]Broker, error) { return liveBrokers(ctx, d.pool) }

func liveBrokers(ctx context.Context, q querier) ([]Broker, error) {
	return collect(ctx, q, "registry_live", func(row pgx.CollectableRow) (b Broker, err error) {
		var seenAgo float64
		var source, fingerprint *string
		var ring *int64
		err = row.Scan(&b.StartID, &b.Name, &b.Build.Version, &b.HTTP, &b.Mesh, &b.Build.Needs, &b.Build.Knows,
			&b.Build.RecordKnows, &b.FrameMin, &b.FrameMax, &b.Draining, &b.StartedAt, &seenAgo, &source, &fingerprint, &ring)
		b.Keys = HeldKeys{Source: KeySource(orZero(source)), Fingerprint: orZero(fingerprint), Ring: orZero(ring)}
		b.SeenAgo = time.Duration(seenAgo * float64(time.Second))
		return b, err
	}, LiveWithin.Seconds())
}
