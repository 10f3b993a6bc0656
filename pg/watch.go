package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// SafePoint returns a time before which no segment can still appear, by the server's clock.
func (d *DB) SafePoint(ctx context.Context) (at time.Time, err error) {
	at, _, err = d.SafePointAge(ctx)
	return at, err
}

// SafePointAge also tells how long ago the safe point was: more than about a second when a transaction holds it back.
func (d *DB) SafePointAge(ctx context.Context) (at time.Time, age time.Duration, err error) {
	var now time.Time
	if err := d.pool.QueryRow(ctx, statement("safe_point")).Scan(&at, &now); err != nil {
		return at, 0, fmt.Errorf("read safe point: %w", err)
	}
	return at, now.Sub(at), nil
}

// Written is a partition that got segments, up to the offset Newest.
type Written struct {
	Partition int64
	Queue     int64
	Newest    int64
}

// Recheck finds the partitions of the queues written since a safe point, and the generations of the groups; a group
// that is missing was deleted. When it looked at limit partitions there may be more.
func (d *DB) Recheck(ctx context.Context, queues, groups []int64, since time.Time, limit int) ([]Written, map[int64]int64, error) {
	rows, err := d.pool.Query(ctx, statement("recheck"), queues, since, limit, groups)
	if err != nil {
		return nil, nil, fmt.Errorf("recheck: %w", err)
	}
	var written []Written
	generations := make(map[int64]int64, len(groups))
	var kind int
	var id, value, newest int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &id, &value, &newest}, func() error {
		if kind == 0 {
			written = append(written, Written{Partition: id, Queue: value, Newest: newest})
		} else {
			generations[id] = value
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("recheck: %w", err)
	}
	return written, generations, nil
}

// Readiness is what a group has to do in a partition.
type Readiness struct {
	Partition int64
	Name      string
	Behind    bool
	// LeaseRemaining is positive while somebody holds a lease.
	LeaseRemaining time.Duration
}

// ReadyPageSize is how many partitions one page of a ready set holds.
const ReadyPageSize = 10000

// ReadyPage returns up to limit partitions of the queue whose names follow after, in name order.
func (d *DB) ReadyPage(ctx context.Context, queue, group int64, after string, limit int) ([]Readiness, error) {
	return collect(ctx, d.pool, "ready_page", func(row pgx.CollectableRow) (r Readiness, err error) {
		var remaining int64
		err = row.Scan(&r.Partition, &r.Name, &r.Behind, &remaining)
		r.LeaseRemaining = time.Duration(remaining) * time.Millisecond
		return r, err
	}, queue, group, after, limit)
}
