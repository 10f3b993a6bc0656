package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// JobState is what the database remembers of one of the leader's jobs.
type JobState struct {
	Name    string
	Enabled bool
	NextDue time.Time
	// The times are nil for what has not happened yet.
	LastStart   *time.Time
	LastSuccess *time.Time
	LastFailure *time.Time
	// LastError is that of the last run, empty after a success.
	LastError string
	LastRows  int64
	RowsDone  int64
	// MinBuild is the lowest system step that a broker has to know to run the job.
	MinBuild int
}

// ErrNoJob says that no leader has ever had a job of that name.
var ErrNoJob = errors.New("no such job")

// ListJobs returns every job that a leader has ever had, by name.
func (d *DB) ListJobs(ctx context.Context) ([]JobState, error) {
	return collect(ctx, d.pool, "job_list", pgx.RowToStructByPos[JobState])
}

// SwitchJob switches a job on or off, whoever leads.
func (d *DB) SwitchJob(ctx context.Context, name string, on bool) error {
	err := d.write(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement("job_switch"), name, on)
		if err == nil && tag.RowsAffected() == 0 {
			return ErrNoJob
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("switch job: %w", err)
	}
	return nil
}

// HurryJob makes a job due at once, and says whether it is switched on.
func (d *DB) HurryJob(ctx context.Context, name string) (on bool, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, statement("job_hurry"), name).Scan(&on)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNoJob
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("hurry job: %w", err)
	}
	return on, nil
}
