package pg

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Reign is what a job transaction must find in the database to be allowed to commit. The epoch alone is not enough:
// a promoted standby that lost the last bump lets two leaders have the same one.
type Reign struct {
	Timeline string
	Epoch    int64
	StartID  uuid.UUID
}

// Fenced gives the jobs of one reign their transactions. It is safe for concurrent use.
type Fenced struct {
	db    *DB
	reign Reign
	// watch is nil until the server has said whether it can watch the client of a running statement.
	watch atomic.Pointer[string]
}

// FencedError says that a job transaction was refused because another reign has begun, or none is.
type FencedError struct{ Wanted, Found Reign }

// Error shows both reigns.
func (e *FencedError) Error() string {
	return fmt.Sprintf("fenced: the database is at timeline %s, epoch %d, start id %s; this leader is of timeline %s, epoch %d, start id %s",
		e.Found.Timeline, e.Found.Epoch, e.Found.StartID, e.Wanted.Timeline, e.Wanted.Epoch, e.Wanted.StartID)
}

// LeadershipLost marks the error as one that ends the reign.
func (*FencedError) LeadershipLost() bool { return true }

// jobTransactionTimeout bounds a whole job transaction: a quarter of the default lease. The next leader waits for it.
const jobTransactionTimeout = 2500 * time.Millisecond

// Fenced returns the job transactions of a reign.
func (d *DB) Fenced(reign Reign) *Fenced { return &Fenced{db: d, reign: reign} }

// Do runs one short transaction that commits only under its reign. It returns a *FencedError when another reign has
// begun, ErrFloor when a floor was raised above this build, and whatever run returned. The context given to run ends
// with the transaction's time, and after that nothing is committed: the fence alone would still allow it to a leader
// that has been demoted but not yet replaced. run may be run again by the caller: it must have no effects outside the transaction.
func (f *Fenced) Do(ctx context.Context, run func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, jobTransactionTimeout)
	defer cancel()
	watch := f.clientWatch(ctx)
	err := pgx.BeginFunc(ctx, f.db.pool, func(tx pgx.Tx) error {
		if err := f.enter(ctx, tx, watch); err != nil {
			return err
		}
		return run(ctx, tx)
	})
	switch cause := context.Cause(ctx); {
	case floorRaised(err):
		return ErrFloor
	case err != nil && cause != nil && !errors.Is(err, cause):
		// The driver says only that the context has ended; its cause says that leadership has.
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// enter sends the settings and the fence in one trip.
func (f *Fenced) enter(ctx context.Context, tx pgx.Tx, watch string) error {
	batch := &pgx.Batch{}
	batch.Queue(statement("leader_job_settings"), watch, false)
	var found Reign
	var startID *uuid.UUID
	batch.Queue(statement("leader_fence"), f.db.knows.System, f.db.knows.Record).QueryRow(func(row pgx.Row) error {
		return row.Scan(nil, nil, &found.Epoch, &startID, &found.Timeline)
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return &FencedError{Wanted: f.reign}
		}
		return fmt.Errorf("enter fenced transaction: %w", err)
	}
	if startID != nil {
		found.StartID = *startID
	}
	if found != f.reign || startID == nil {
		return &FencedError{Wanted: f.reign, Found: found}
	}
	return nil
}

// look reads without a fence but with the settings of a job: it changes nothing, and what it finds is looked at again
// under the fence.
func (f *Fenced) look(ctx context.Context, run func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, jobTransactionTimeout)
	defer cancel()
	watch := f.clientWatch(ctx)
	return pgx.BeginTxFunc(ctx, f.db.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, statement("leader_job_settings"), watch, true); err != nil {
			return fmt.Errorf("set job settings: %w", err)
		}
		return run(ctx, tx)
	})
}

// clientWatch is the interval of the client check, or "0" on a server that cannot. It asks once, outside any transaction,
// because a refusal would end one.
func (f *Fenced) clientWatch(ctx context.Context) string {
	if known := f.watch.Load(); known != nil {
		return *known
	}
	watch := clientCheck
	_, err := f.db.pool.Exec(ctx, statement("session_check_interval"), watch, true)
	if err != nil {
		watch = "0"
	}
	if err == nil || unsupported(err) {
		f.watch.Store(&watch)
	}
	return watch
}
