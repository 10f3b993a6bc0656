package admin

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"waggle/broker/segment"
	"waggle/pg"
)

// Trace is what a client said of a message. Data is JSON as it came.
type Trace struct {
	ID            uuid.UUID
	EventType     string
	Data          []byte
	Group         string
	CreatedAt     time.Time
	Names         []string
	TransactionID string
	PartitionID   uuid.UUID
	Queue         string
	Partition     string
}

// TraceName is a name of traces: how many have it, of how many messages, and when the last of them was written.
type TraceName struct {
	Name     string
	Traces   int64
	Messages int64
	LastSeen time.Time
}

// maxTraces bounds what is shown of one message: its newest traces.
const maxTraces = 1000

// Traces lists what was said of a message, oldest first. A partition that is not the tenant's has nothing.
func (r *Reader) Traces(ctx context.Context, tenant, partition uuid.UUID, transactionID string) ([]Trace, error) {
	id, ok := r.ids.OpenPartition(partition)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	text := storable(transactionID)
	hash := segment.HashOf(text)
	rows, err := r.db.TracesOfMessage(ctx, tenant, id, hash[:], text, maxTraces, maxPageBytes)
	if err != nil {
		return nil, failed("list traces", err)
	}
	return r.traces(rows), nil
}

// TracesNamed lists a page of the traces under a name, newest first, and counts all of them.
func (r *Reader) TracesNamed(ctx context.Context, tenant uuid.UUID, name string, limit, offset int) ([]Trace, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	name = storable(name)
	total, err := r.db.CountTraces(ctx, tenant, name)
	if err != nil {
		return nil, 0, failed("count traces", err)
	}
	rows, err := r.db.TracesByName(ctx, tenant, name, limit, offset, maxPageBytes)
	if err != nil {
		return nil, 0, failed("list traces", err)
	}
	return r.traces(rows), total, nil
}

// TraceNames lists a page of the names that traces have, the one used last first, and counts all of them.
func (r *Reader) TraceNames(ctx context.Context, tenant uuid.UUID, limit, offset int) ([]TraceName, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, total, err := r.db.TraceNames(ctx, tenant, limit, offset)
	if err != nil {
		return nil, 0, failed("list trace names", err)
	}
	names := make([]TraceName, len(rows))
	for i, row := range rows {
		names[i] = TraceName(row)
	}
	return names, total, nil
}

func (r *Reader) traces(rows []pg.ListedTrace) []Trace {
	traces := make([]Trace, len(rows))
	for i := range rows {
		row := &rows[i]
		traces[i] = Trace{
			ID: row.ID, EventType: row.EventType, Data: row.Data, Group: row.Group, CreatedAt: row.CreatedAt, Names: row.Names,
			TransactionID: row.TransactionID, PartitionID: r.ids.Partition(row.PartitionID), Queue: row.Queue, Partition: row.Partition,
		}
	}
	return traces
}

// storable makes any text one that storage could hold, as it was stored: so that it is found again.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}
