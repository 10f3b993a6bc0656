package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// StreamQuery is a registered stream query.
type StreamQuery struct {
	ID          uuid.UUID
	Tenant      uuid.UUID
	Name        string
	SourceQueue string
	SinkQueue   *string
	ConfigHash  string
}

// StreamRegistration is what became of a registration. With Conflict, ConfigHash is the stored one, and nothing was changed.
type StreamRegistration struct {
	ID         uuid.UUID
	ConfigHash string
	Fresh      bool
	Reset      bool
	Conflict   bool
}

// ErrTooManyStreams says that the tenant has as many stream queries as it may have.
var ErrTooManyStreams = errors.New("too many stream queries")

// RegisterStream makes the query, or finds it by its name. Another configuration is a conflict unless reset is set, which
// deletes the query's state in the same transaction.
func (d *DB) RegisterStream(ctx context.Context, q StreamQuery, reset bool, limit int) (r StreamRegistration, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		for range 2 { // somebody else may make it between the look and the insert
			r = StreamRegistration{}
			err := tx.QueryRow(ctx, statement("stream_query_lock"), [16]byte(q.Tenant), q.Name).Scan(&r.ID, &r.ConfigHash)
			switch {
			case err == nil && reset:
				r.Reset, r.ConfigHash = true, q.ConfigHash
				if _, err := tx.Exec(ctx, statement("stream_query_update"), [16]byte(r.ID), q.SourceQueue, q.SinkQueue, q.ConfigHash); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, statement("stream_state_reset"), [16]byte(r.ID))
				return err
			case err == nil:
				r.Conflict = r.ConfigHash != q.ConfigHash
				return nil
			case !errors.Is(err, pgx.ErrNoRows):
				return err
			}
			err = tx.QueryRow(ctx, statement("stream_query_insert"), [16]byte(q.ID), [16]byte(q.Tenant), q.Name, q.SourceQueue, q.SinkQueue,
				q.ConfigHash, limit).Scan(&r.ID)
			if err == nil {
				r.Fresh, r.ConfigHash = true, q.ConfigHash
				return nil
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		return ErrTooManyStreams
	})
	if err != nil {
		return r, fmt.Errorf("register stream: %w", err)
	}
	return r, nil
}

// FindStream tells whether the tenant has the query.
func (d *DB) FindStream(ctx context.Context, query, tenant uuid.UUID) (found bool, err error) {
	err = d.pool.QueryRow(ctx, statement("stream_query_find"), [16]byte(query), [16]byte(tenant)).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("find stream: %w", err)
	}
	return found, nil
}

// StateFilter selects rows of a stream's state; nil fields select all.
type StateFilter struct {
	Query     uuid.UUID
	Partition int64
	Keys      [][]byte
	Prefix    []byte
	RipeUpTo  *float64
	Limit     int
}

// StateRow is one key of a stream's state.
type StateRow struct {
	Key       []byte
	Value     []byte
	UpdatedAt time.Time
}

// StreamState reads rows in the order of their keys.
func (d *DB) StreamState(ctx context.Context, f StateFilter) ([]StateRow, error) {
	return collect(ctx, d.pool, "stream_state_read", func(row pgx.CollectableRow) (s StateRow, err error) {
		err = row.Scan(&s.Key, &s.Value, &s.UpdatedAt)
		return s, err
	}, [16]byte(f.Query), f.Partition, f.Keys, f.Prefix, f.RipeUpTo, f.Limit)
}

// HoldStream keeps the tenant's query as it is until the bundle ends; false when there is none. It comes last of all locks.
func (t *BundleTx) HoldStream(query, tenant uuid.UUID, partition int64) (found bool, err error) {
	rows, err := t.conn.Query(t.ctx, statement("stream_query_hold"), [16]byte(query), [16]byte(tenant), partition)
	if err != nil {
		return false, fmt.Errorf("hold stream: %w", err)
	}
	for rows.Next() {
		found = true
	}
	if err := rows.Err(); err != nil {
		return false, fmt.Errorf("hold stream: %w", err)
	}
	return found, nil
}

// StateWrite is a value of a stream's key. WindowEnd is nil where the value has no such number.
type StateWrite struct {
	Key       []byte
	Value     []byte
	WindowEnd *float64
}

// WriteState stores and deletes when the bundle commits. A key stands in one of the lists at most, and once.
func (t *BundleTx) WriteState(query uuid.UUID, partition int64, writes []StateWrite, deletes [][]byte) {
	if len(writes) > 0 {
		keys, values, ends := make([][]byte, len(writes)), make([][]byte, len(writes)), make([]*float64, len(writes))
		for i, w := range writes {
			keys[i], values[i], ends[i] = w.Key, w.Value, w.WindowEnd
		}
		t.batch.Queue(statement("stream_state_write"), [16]byte(query), partition, keys, values, ends)
	}
	if len(deletes) > 0 {
		t.batch.Queue(statement("stream_state_delete"), [16]byte(query), partition, deletes)
	}
}
