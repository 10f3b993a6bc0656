package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// LeaseCounts are the live leases of queues: how many, over how many partitions, and the messages they cover.
type LeaseCounts struct {
	Active     int64
	Partitions int64
	Batch      int64
}

// CountLeases counts the live leases of the queues.
func (d *DB) CountLeases(ctx context.Context, queues []int64) (c LeaseCounts, err error) {
	err = d.pool.QueryRow(ctx, statement("count_leases"), queues).Scan(&c.Active, &c.Partitions, &c.Batch)
	if err != nil {
		return c, fmt.Errorf("count leases: %w", err)
	}
	return c, nil
}

// DeadLetterSums sum the dead letters of queues up. Errors are the most frequent reasons.
type DeadLetterSums struct {
	Rows       int64
	Partitions int64
	Errors     []ErrorCount
}

// ErrorCount is how often a reason was given.
type ErrorCount struct {
	Text  []byte
	Count int64
}

// errorSample bounds the dead letters whose reasons are compared.
const errorSample = 10_000

// SumDeadLetters sums the dead letters of the queues up.
func (d *DB) SumDeadLetters(ctx context.Context, queues []int64) (s DeadLetterSums, err error) {
	var texts [][]byte
	var counts []int64
	err = d.pool.QueryRow(ctx, statement("sum_dead_letters"), queues, errorSample).Scan(&s.Rows, &s.Partitions, &texts, &counts)
	if err != nil {
		return s, fmt.Errorf("sum dead letters: %w", err)
	}
	for i := range texts {
		s.Errors = append(s.Errors, ErrorCount{texts[i], counts[i]})
	}
	return s, nil
}

// PostgresStats is what the server says of the database, as a JSON object.
func (d *DB) PostgresStats(ctx context.Context) (object []byte, err error) {
	if err := d.pool.QueryRow(ctx, statement("postgres_stats")).Scan(&object); err != nil {
		return nil, fmt.Errorf("read server statistics: %w", err)
	}
	return object, nil
}

// CountDeadLetters counts the dead letters of queues, by queue.
func (d *DB) CountDeadLetters(ctx context.Context, queues []int64) (map[int64]int64, error) {
	rows, err := d.pool.Query(ctx, statement("count_dead_letters"), queues)
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	counts := map[int64]int64{}
	var queue, n int64
	if _, err = pgx.ForEachRow(rows, []any{&queue, &n}, func() error { counts[queue] = n; return nil }); err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	return counts, nil
}
