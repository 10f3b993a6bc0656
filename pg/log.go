package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Hydrated is a segment without its body, and how old it is by the server's clock.
type Hydrated struct {
	Partition int64
	Segment
	Age time.Duration
}

// Hydrate returns up to limit segments of each partition below the given offsets, newest first.
func (d *DB) Hydrate(ctx context.Context, partitions, below []int64, limit int) ([]Hydrated, error) {
	return collect(ctx, d.pool, "hydrate", func(row pgx.CollectableRow) (h Hydrated, err error) {
		var age int64
		err = row.Scan(&h.Partition, &h.Base, &h.CreatedAt, &h.Count, &h.IDs, &age)
		h.Age = time.Duration(age) * time.Microsecond
		return h, err
	}, partitions, below, limit)
}

// IDQuery asks where a hash stands within [Low, High] of a partition.
type IDQuery struct {
	Partition int64
	Low, High int64
	Hash      []byte
}

// Found answers the query at index Query.
type Found struct {
	Query     int
	Offset    int64
	CreatedAt time.Time
}

// FindIDs returns an answer for each query whose hash stands in a segment no older than window.
func (d *DB) FindIDs(ctx context.Context, queries []IDQuery, window time.Duration) ([]Found, error) {
	return findIDs(ctx, d.pool, queries, window)
}

func findIDs(ctx context.Context, db querier, queries []IDQuery, window time.Duration) ([]Found, error) {
	partitions, low, high := make([]int64, len(queries)), make([]int64, len(queries)), make([]int64, len(queries))
	hashes := make([][]byte, len(queries))
	for i, q := range queries {
		partitions[i], low[i], high[i], hashes[i] = q.Partition, q.Low, q.High, q.Hash
	}
	return collect(ctx, db, "find_ids", func(row pgx.CollectableRow) (f Found, err error) {
		err = row.Scan(&f.Query, &f.Offset, &f.CreatedAt)
		return f, err
	}, partitions, low, high, hashes, window.Seconds())
}

// Place names a segment.
type Place struct {
	Partition int64
	Base      int64
}

// ReadSegments returns the segments at the places, at the same index; the zero Segment where there is none any more.
func (d *DB) ReadSegments(ctx context.Context, places []Place) ([]Segment, error) {
	partitions, bases := make([]int64, len(places)), make([]int64, len(places))
	for i, p := range places {
		partitions[i], bases[i] = p.Partition, p.Base
	}
	rows, err := d.pool.Query(ctx, statement("read_segments"), partitions, bases)
	if err != nil {
		return nil, fmt.Errorf("read segments: %w", err)
	}
	out := make([]Segment, len(places))
	var i int
	var s Segment
	_, err = pgx.ForEachRow(rows, []any{&i, &s.Base, &s.CreatedAt, &s.Count, &s.Format, &s.IDs, &s.Body}, func() error {
		out[i] = s
		s = Segment{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read segments: %w", err)
	}
	return out, nil
}
