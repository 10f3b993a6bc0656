package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// NewTrace is what a client says of a message. Data is JSON.
type NewTrace struct {
	ID              uuid.UUID
	Tenant          uuid.UUID
	Partition       int64
	TransactionHash []byte
	TransactionID   string
	Group           string
	EventType       string
	Data            []byte
	// Names differ from each other.
	Names []string
}

// WriteTrace stores a trace; false when the partition is not the tenant's.
func (d *DB) WriteTrace(ctx context.Context, t NewTrace) (owned bool, err error) {
	if t.Names == nil {
		t.Names = []string{}
	}
	err = d.write(ctx, func(tx pgx.Tx) error {
		var written int
		err := tx.QueryRow(ctx, statement("write_trace"), [16]byte(t.ID), t.Partition, [16]byte(t.Tenant), t.TransactionHash,
			t.TransactionID, t.Group, t.EventType, t.Data, t.Names).Scan(&written)
		owned = written > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("write trace: %w", err)
	}
	return owned, nil
}

// ListedTrace is a trace with the names of the message's place.
type ListedTrace struct {
	ID            uuid.UUID
	EventType     string
	Data          []byte
	Group         string
	CreatedAt     time.Time
	Names         []string
	TransactionID string
	PartitionID   int64
	Queue         string
	Partition     string
}

func scanTrace(row pgx.CollectableRow) (t ListedTrace, err error) {
	err = row.Scan((*[16]byte)(&t.ID), &t.EventType, &t.Data, &t.Group, &t.CreatedAt, &t.Names, &t.TransactionID, &t.PartitionID,
		&t.Queue, &t.Partition)
	return t, err
}

// TracesOfMessage returns the newest traces of a message, oldest first: at most limit, with at most maxBytes of data
// unless a single one has more.
func (d *DB) TracesOfMessage(ctx context.Context, tenant uuid.UUID, partition int64, hash []byte, transactionID string,
	limit int, maxBytes int64,
) ([]ListedTrace, error) {
	return collect(ctx, d.pool, "traces_of_message", scanTrace, [16]byte(tenant), partition, hash, transactionID, limit, maxBytes)
}

// TracesByName returns a page of the traces under a name, newest first, bounded as TracesOfMessage is.
func (d *DB) TracesByName(ctx context.Context, tenant uuid.UUID, name string, limit, offset int, maxBytes int64) ([]ListedTrace, error) {
	return collect(ctx, d.pool, "traces_by_name", scanTrace, [16]byte(tenant), name, limit, offset, maxBytes)
}

// CountTraces counts all traces under a name.
func (d *DB) CountTraces(ctx context.Context, tenant uuid.UUID, name string) (total int64, err error) {
	if err = d.pool.QueryRow(ctx, statement("count_traces"), [16]byte(tenant), name).Scan(&total); err != nil {
		return 0, fmt.Errorf("count traces: %w", err)
	}
	return total, nil
}

// TraceName is a name of traces: how many have it, of how many messages, and when the last of them was written.
type TraceName struct {
	Name     string
	Traces   int64
	Messages int64
	LastSeen time.Time
}

// TraceNames returns a page of the tenant's trace names, the one used last first, and how many there are.
func (d *DB) TraceNames(ctx context.Context, tenant uuid.UUID, limit, offset int) (page []TraceName, total int64, err error) {
	rows, err := d.pool.Query(ctx, statement("trace_names"), [16]byte(tenant), limit, offset)
	if err != nil {
		return nil, 0, fmt.Errorf("list trace names: %w", err)
	}
	var name *string
	var traces, messages *int64
	var seen *time.Time
	_, err = pgx.ForEachRow(rows, []any{&total, &name, &traces, &messages, &seen}, func() error {
		if name != nil {
			page = append(page, TraceName{Name: *name, Traces: *traces, Messages: *messages, LastSeen: *seen})
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list trace names: %w", err)
	}
	return page, total, nil
}

// CleanTraces forgets traces older than keep, a batch at a time.
func (f *Fenced) CleanTraces(ctx context.Context, keep time.Duration) (rows int64, more bool, err error) {
	return f.clean(ctx, "job_clean_traces", keep)
}
