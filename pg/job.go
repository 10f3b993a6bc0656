package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// brokerForgottenAfter is long after everybody else has stopped listing a broker that left or died.
	brokerForgottenAfter = 10 * time.Minute
	// leaseForgottenAfter leaves room for acks and extensions that arrive late, so that they get their proper answer.
	leaseForgottenAfter = 5 * time.Minute
	cleanBatch          = 500
)

// Claim takes the run of a job that is due, if the job is enabled and this build knows enough for it, and moves its due time
// on. wait is the time until the next due time; a job that is not to run is worth another look after every.
func (f *Fenced) Claim(ctx context.Context, name string, every time.Duration) (due bool, wait time.Duration, err error) {
	err = f.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var seconds *float64
		err := tx.QueryRow(ctx, statement("job_claim"), name, milliseconds(every), f.db.knows.System).Scan(&seconds)
		due = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			err = tx.QueryRow(ctx, statement("job_wait"), name, f.db.knows.System).Scan(&seconds)
		}
		if err != nil {
			return err
		}
		wait = every
		if seconds != nil {
			wait = time.Duration(*seconds * float64(time.Second))
		}
		return nil
	})
	if err != nil {
		return false, 0, fmt.Errorf("claim job: %w", err)
	}
	return due, wait, nil
}

// Finish records how a run ended; failure is empty after a success.
func (f *Fenced) Finish(ctx context.Context, name string, rows int64, failure string) error {
	var text *string
	if failure != "" {
		text = &failure
	}
	err := f.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("job_finish"), name, rows, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("finish job: %w", err)
	}
	return nil
}

// CleanRegistry forgets brokers that have not been seen for ten minutes, a batch at a time.
func (f *Fenced) CleanRegistry(ctx context.Context) (rows int64, more bool, err error) {
	return f.clean(ctx, "job_clean_registry", brokerForgottenAfter)
}

// CleanLeases forgets multi-partition leases that ended five minutes ago or earlier, a batch at a time.
func (f *Fenced) CleanLeases(ctx context.Context) (rows int64, more bool, err error) {
	return f.clean(ctx, "job_clean_leases", leaseForgottenAfter)
}

func (f *Fenced) clean(ctx context.Context, name string, after time.Duration) (rows int64, more bool, err error) {
	err = f.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement(name), after.Seconds(), cleanBatch)
		rows = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", name, err)
	}
	return rows, rows == cleanBatch, nil
}
