package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Resolved is what a queue's and a partition's name stand for; 0 where there is none.
type Resolved struct {
	Queue     int64
	Partition int64
}

// FetchResolve looks the names up, at the same index.
func (d *DB) FetchResolve(ctx context.Context, tenant uuid.UUID, queues, partitions []string) ([]Resolved, error) {
	rows, err := d.pool.Query(ctx, statement("fetch_resolve"), [16]byte(tenant), queues, partitions)
	if err != nil {
		return nil, fmt.Errorf("resolve names: %w", err)
	}
	out := make([]Resolved, len(queues))
	var i int
	var queue int64
	var partition *int64
	_, err = pgx.ForEachRow(rows, []any{&i, &queue, &partition}, func() error {
		out[i].Queue = queue
		if partition != nil {
			out[i].Partition = *partition
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("resolve names: %w", err)
	}
	return out, nil
}

// Marks are the ends of a partition's log: Start is the lowest retained offset, High the one that the next record gets.
type Marks struct {
	Start int64
	High  int64
}

// FetchMarks reads the ends of the partitions, at the same index; both are 0 where nothing was ever written.
func (d *DB) FetchMarks(ctx context.Context, partitions []int64) ([]Marks, error) {
	rows, err := d.pool.Query(ctx, statement("fetch_marks"), partitions)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	out := make([]Marks, len(partitions))
	var i int
	var m Marks
	if _, err = pgx.ForEachRow(rows, []any{&i, &m.Start, &m.High}, func() error { out[i] = m; return nil }); err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return out, nil
}

// FetchSegments returns, at the index of each partition, the segments from its offset on that hold about so many bytes of
// records, without ids and bodies, at most limit of them.
func (d *DB) FetchSegments(ctx context.Context, partitions, offsets, bytes []int64, limit int) ([][]Segment, error) {
	rows, err := d.pool.Query(ctx, statement("fetch_segments"), partitions, offsets, bytes, limit)
	if err != nil {
		return nil, fmt.Errorf("find segments: %w", err)
	}
	out := make([][]Segment, len(partitions))
	var i int
	var s Segment
	_, err = pgx.ForEachRow(rows, []any{&i, &s.Base, &s.CreatedAt, &s.Count}, func() error {
		out[i] = append(out[i], s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find segments: %w", err)
	}
	return out, nil
}

// ChangedPartition is a partition that was written to. Last is its newest offset.
type ChangedPartition struct {
	ID        int64
	Name      string
	Last      int64
	Start     int64
	WrittenAt time.Time
}

// scanBelow is how many segments, of whatever queue, may have been written since for them to be read one by one.
const scanBelow = 20_000

// ChangedPartitions returns the partitions of the queue that were written to at or after since, or all with a zero since,
// by name, at most limit of them. After, unless it is nil, is the name before the first.
func (d *DB) ChangedPartitions(ctx context.Context, queue int64, since time.Time, after *string, limit int) ([]ChangedPartition, error) {
	name := "changed_by_name"
	var from *time.Time
	if !since.IsZero() {
		from = &since
		var written int
		if err := d.pool.QueryRow(ctx, statement("changed_count"), since, scanBelow).Scan(&written); err != nil {
			return nil, fmt.Errorf("count what was written: %w", err)
		}
		if written < scanBelow {
			name = "changed_by_time"
		}
	}
	return collect(ctx, d.pool, name, func(row pgx.CollectableRow) (p ChangedPartition, err error) {
		err = row.Scan(&p.ID, &p.Name, &p.Last, &p.Start, &p.WrittenAt)
		return p, err
	}, queue, from, after, limit)
}
