package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waggle/pg/schema"
)

// RotationJob is the leader job that advances rotations.
const RotationJob = "mesh_keys"

// ErrRingMoved says that the keyring changed between its reading and the admission of the broker that read it.
var ErrRingMoved = errors.New("the mesh keyring has changed")

// UnrotatableError says why a rotation was refused.
type UnrotatableError struct{ Reasons []string }

func (e *UnrotatableError) Error() string {
	return "the mesh key cannot be rotated by the cluster while brokers do not take it from the database: " +
		strings.Join(e.Reasons, "; ")
}

// Refused marks the error as one that whoever asked has to read.
func (*UnrotatableError) Refused() bool { return true }

// MeshRing reads the keyring and where its rotation stands.
func (d *DB) MeshRing(ctx context.Context) (MeshRing, error) {
	return readRing(ctx, d.pool, "mesh_ring_read")
}

func readRing(ctx context.Context, q querier, name string) (r MeshRing, err error) {
	var step, by *string
	var requested, stepped, rotated *time.Time
	rows, err := q.Query(ctx, statement(name))
	if err == nil {
		r, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (r MeshRing, err error) {
			err = row.Scan(&r.Number, &r.Keys, &step, &by, &requested, &stepped, &rotated)
			return r, err
		})
	}
	if err != nil {
		return MeshRing{}, fmt.Errorf("read mesh keyring: %w", err)
	}
	r.Step, r.RequestedBy = RotationStep(orZero(step)), orZero(by)
	r.RequestedAt, r.StepAt, r.RotatedAt = orZero(requested), orZero(stepped), orZero(rotated)
	return r, nil
}

func orZero[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}

// RequestRotation notes that the mesh key is to be rotated and makes the leader's job due. A rotation that is under way
// already is joined: started is false then. The error is an *UnrotatableError while a live broker has its keys from elsewhere.
func (d *DB) RequestRotation(ctx context.Context, by string) (started bool, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		ring, err := readRing(ctx, tx, "mesh_ring_hold")
		if err != nil {
			return err
		}
		if ring.Step == NoRotation {
			brokers, err := liveBrokers(ctx, tx)
			if err != nil {
				return err
			}
			if reasons := Unrotatable(brokers); len(reasons) > 0 {
				return &UnrotatableError{reasons}
			}
			if _, err := tx.Exec(ctx, statement("mesh_ring_request"), by); err != nil {
				return err
			}
			started = true
		}
		_, err = tx.Exec(ctx, statement("mesh_ring_due"), RotationJob)
		return err
	})
	if err != nil {
		if refused, ok := errors.AsType[*UnrotatableError](err); ok {
			return false, refused
		}
		return false, fmt.Errorf("request rotation: %w", err)
	}
	return started, nil
}

// AdvanceRotation takes the rotation one step on if every live broker has confirmed the step before. It returns the ring
// as it is then, and the brokers that are waited for. While a rotation is under way the job stays due, so that the next
// leader goes on at once.
func (f *Fenced) AdvanceRotation(ctx context.Context) (ring MeshRing, advanced bool, waiting []Broker, err error) {
	fresh := schema.NewKey()
	err = f.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		advanced, waiting = false, nil
		var err error
		if ring, err = readRing(ctx, tx, "mesh_ring_hold"); err != nil || ring.Step == NoRotation {
			return err
		}
		brokers, err := liveBrokers(ctx, tx)
		if err != nil {
			return err
		}
		waiting = Lacking(brokers, ring.Number)
		if ring, advanced = ring.Next(brokers, fresh); advanced {
			_, err := tx.Exec(ctx, statement("mesh_ring_write"), ring.Number, ring.Keys, string(ring.Step))
			if err != nil || ring.Step == NoRotation {
				return err
			}
		}
		_, err = tx.Exec(ctx, statement("mesh_ring_due"), RotationJob)
		return err
	})
	if err != nil {
		return MeshRing{}, false, nil, fmt.Errorf("advance rotation: %w", err)
	}
	return ring, advanced, waiting, nil
}
