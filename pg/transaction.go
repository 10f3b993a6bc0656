package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// contendedTries bounds how often a transaction is run again after a deadlock or a lock timeout.
const contendedTries = 5

// write runs one writing transaction behind the fence, again when it lost a fight for a lock. The function must have
// no effects outside the transaction.
func (d *DB) write(ctx context.Context, run func(pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, statement("fence"), d.knows.System, d.knows.Record); err != nil {
				return err
			}
			return run(tx)
		})
		switch {
		case err == nil:
			return nil
		case floorRaised(err):
			return ErrFloor
		case try == contendedTries || Classify(err) != Contended:
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(time.Duration(try) * time.Duration(5+rand.IntN(20)) * time.Millisecond):
		}
	}
}

// querier is a pool or a transaction.
type querier interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}

// runner is a transaction, however it was begun.
type runner interface {
	querier
	QueryRow(context.Context, string, ...any) pgx.Row
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}

// collect reads every row of a query in one place.
func collect[T any](ctx context.Context, db querier, name string, scan func(pgx.CollectableRow) (T, error), args ...any) ([]T, error) {
	rows, err := db.Query(ctx, statement(name), args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}
