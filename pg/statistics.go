package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Statistics brings the counters of partitions and queues up to date. A pass costs what has changed since the last one,
// and a look at a few dozen partitions beyond, so that what went unsaid is found in time. Two passes at once, on two
// brokers say, do no harm: each locks the counters that it changes.
type Statistics struct {
	db *DB
	// do runs one short transaction with the settings of a job.
	do func(context.Context, func(context.Context, pgx.Tx) error) error
	// walkedAt is when a pass of these last walked.
	walkedAt time.Time
}

// StatisticsReport is what one pass did.
type StatisticsReport struct {
	// Counted are the partitions whose counters were brought up to date.
	Counted int64
	// More says that something is left that was known when the pass began.
	More bool
}

const (
	// statisticsSegments bounds the index entries looked at for what is new, per call.
	statisticsSegments = 20000
	statisticsTouched  = 1000
	// countPartitions and countSegments bound one transaction.
	countPartitions = 100
	countSegments   = 1000
	// statisticsWalk partitions are looked at by a pass, statisticsFirst by each page of the first walk.
	statisticsWalk  = 48
	statisticsFirst = 1000
	// walkEvery is the least time between two walks: an idle database is to be left alone.
	walkEvery = 30 * time.Second
	// advanceEvery is how far the passes of an idle database may be noted behind what they have seen.
	advanceEvery = time.Minute
	// refreshTime bounds the walk of a pass that somebody waits for.
	refreshTime = 5 * time.Second
)

// Statistics returns the passes of a reign.
func (f *Fenced) Statistics() *Statistics { return &Statistics{db: f.db, do: f.Do} }

// Statistics returns passes that need no reign.
func (d *DB) Statistics() *Statistics {
	return &Statistics{db: d, do: func(ctx context.Context, run func(context.Context, pgx.Tx) error) error {
		return d.write(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, statement("leader_job_settings"), "0", false); err != nil {
				return fmt.Errorf("set job settings: %w", err)
			}
			return run(ctx, tx)
		})
	}}
}

// statisticsState is the row of the pass.
type statisticsState struct {
	appended       *time.Time
	walked, rounds int64
	touched        int64
}

// Pass counts what has changed.
func (s *Statistics) Pass(ctx context.Context) (StatisticsReport, error) {
	var report StatisticsReport
	if err := s.pass(ctx, statisticsWalk, &report); err != nil {
		return report, fmt.Errorf("statistics pass: %w", err)
	}
	return report, nil
}

// Batch is a pass as a job runs it: it walks now and then.
func (s *Statistics) Batch(ctx context.Context) (rows int64, more bool, err error) {
	page := 0
	if time.Since(s.walkedAt) >= walkEvery {
		page = statisticsWalk
	}
	var report StatisticsReport
	if err := s.pass(ctx, page, &report); err != nil {
		return report.Counted, false, fmt.Errorf("statistics pass: %w", err)
	}
	if page > 0 && !report.More {
		s.walkedAt = time.Now()
	}
	return report.Counted, report.More, nil
}

// Refresh is passes until nothing known is left, and a walk over all partitions, as far as the time allows.
func (s *Statistics) Refresh(ctx context.Context) (StatisticsReport, error) {
	var report StatisticsReport
	began := time.Now()
	for more := true; more && time.Since(began) < refreshTime; {
		one := StatisticsReport{}
		if err := s.pass(ctx, 0, &one); err != nil {
			return report, fmt.Errorf("refresh statistics: %w", err)
		}
		report.Counted, more = report.Counted+one.Counted, one.More
	}
	for at, seen := int64(0), statisticsFirst; seen == statisticsFirst && time.Since(began) < refreshTime; {
		var err error
		if at, seen, err = s.walk(ctx, at, statisticsFirst, &report); err != nil {
			return report, fmt.Errorf("refresh statistics: %w", err)
		}
	}
	return report, nil
}

func (s *Statistics) pass(ctx context.Context, page int, report *StatisticsReport) error {
	// The safe point comes before everything that it bounds.
	safe, err := s.db.SafePoint(ctx)
	if err != nil {
		return err
	}
	var state statisticsState
	row := s.db.pool.QueryRow(ctx, statement("statistics_state"))
	if err := row.Scan(&state.appended, &state.walked, &state.rounds, &state.touched); err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	upto, err := s.appended(ctx, state.appended, safe, report)
	if err != nil {
		return err
	}
	if err := s.touched(ctx, state.touched, report); err != nil {
		return err
	}
	if state.rounds == 0 && page > 0 {
		page = statisticsFirst
	}
	walked, ended := state.walked, false
	if page > 0 {
		last, seen, err := s.walk(ctx, state.walked, page, report)
		if err != nil {
			return err
		}
		if walked, ended = last, seen < page; ended {
			walked = 0
		}
		report.More = report.More || state.rounds == 0 && !ended
	}
	if report.Counted == 0 && page == 0 && state.appended != nil && upto.Sub(*state.appended) < advanceEvery {
		return nil // nothing has happened: the next pass looks a little further back
	}
	return s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("statistics_advance"), upto, state.walked, walked, ended)
		return err
	})
}

// appended counts the partitions that got segments, and says up to where all are counted.
func (s *Statistics) appended(ctx context.Context, since *time.Time, safe time.Time, report *StatisticsReport) (time.Time, error) {
	if since == nil {
		// Nothing was counted ever: the first walk finds what is there, and this is where news begin.
		return safe, nil
	}
	for limit := statisticsSegments; ; limit *= 4 {
		var partitions []int64
		var last *time.Time
		var more bool
		row := s.db.pool.QueryRow(ctx, statement("statistics_appended"), *since, limit)
		if err := row.Scan(&partitions, &last, &more); err != nil {
			return safe, fmt.Errorf("look for new segments: %w", err)
		}
		if more && !last.After(*since) {
			continue // that many at one instant: a longer look gets past it
		}
		if err := s.count(ctx, partitions, report); err != nil {
			return safe, err
		}
		if more && last.Before(safe) {
			report.More = true
			return *last, nil
		}
		return safe, nil
	}
}

// touched counts the partitions that somebody has left word of, up to the given row.
func (s *Statistics) touched(ctx context.Context, upto int64, report *StatisticsReport) error {
	if upto == 0 {
		return nil
	}
	for range statisticsTouched / countPartitions {
		var picked []int64
		var counted int64
		var cut bool
		err := s.do(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			if err := tx.QueryRow(ctx, statement("statistics_pick"), upto, countPartitions).Scan(&picked); err != nil || len(picked) == 0 {
				return err
			}
			counted, cut, err = countIn(ctx, tx, picked)
			return err
		})
		if err != nil {
			return fmt.Errorf("count touched partitions: %w", err)
		}
		if len(picked) == 0 {
			return nil
		}
		report.Counted += counted
		report.More = report.More || cut
	}
	report.More = true
	return nil
}

// walk counts those of a page of partitions whose counters do not fit.
func (s *Statistics) walk(ctx context.Context, after int64, page int, report *StatisticsReport) (last int64, seen int, err error) {
	var wrong []int64
	err = s.do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// It joins ranges with each other, which takes no index.
		if _, err := tx.Exec(ctx, statement("leader_job_settings"), "0", true); err != nil {
			return err
		}
		return tx.QueryRow(ctx, statement("statistics_walk"), after, page).Scan(&wrong, &last, &seen)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("walk partitions: %w", err)
	}
	return last, seen, s.count(ctx, wrong, report)
}

func (s *Statistics) count(ctx context.Context, partitions []int64, report *StatisticsReport) error {
	for len(partitions) > 0 {
		batch := partitions[:min(len(partitions), countPartitions)]
		partitions = partitions[len(batch):]
		var counted int64
		var cut bool
		err := s.do(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			counted, cut, err = countIn(ctx, tx, batch)
			return err
		})
		if err != nil {
			return fmt.Errorf("count partitions: %w", err)
		}
		report.Counted += counted
		report.More = report.More || cut
	}
	return nil
}

func countIn(ctx context.Context, tx pgx.Tx, partitions []int64) (counted int64, cut bool, err error) {
	batch := &pgx.Batch{}
	batch.Queue(statement("statistics_make"), partitions)
	batch.Queue(statement("statistics_lock"), partitions)
	batch.Queue(statement("statistics_count"), partitions, countSegments).QueryRow(func(row pgx.Row) error {
		return row.Scan(&counted, &cut)
	})
	return counted, cut, tx.SendBatch(ctx, batch).Close()
}

// Touch leaves word of partitions whose cursors have moved. It is best effort: what is lost is found by a walk.
func (d *DB) Touch(ctx context.Context, partitions []int64) error {
	return d.write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement("statistics_touch"), partitions)
		return err
	})
}

// QueueCounts are the counters of a queue as of the last pass.
type QueueCounts struct {
	Queue      int64
	Partitions int64
	Segments   int64
	Messages   int64
	Bytes      int64
	Pending    int64
	Processing int64
	// Consumed is how far everybody is who counts, over all partitions.
	Consumed int64
}

// QueueCounts returns the counters of those of the queues that a pass has seen.
func (d *DB) QueueCounts(ctx context.Context, queues []int64) ([]QueueCounts, error) {
	return collect(ctx, d.pool, "statistics_queues", pgx.RowToStructByPos[QueueCounts], queues)
}

// StatisticsAge is how long ago a pass ended, negative when none has.
func (d *DB) StatisticsAge(ctx context.Context) (seconds float64, err error) {
	err = d.pool.QueryRow(ctx, statement("statistics_age")).Scan(&seconds)
	return seconds, err
}

// Liveness is how many partitions of a queue were written to lately. Oldest and Newest bound the times of their last
// writes; nil when nothing was ever written.
type Liveness struct {
	Queue           string
	Namespace, Task string
	Partitions      int64
	LastHour        int64
	LastDay         int64
	LastWeek        int64
	CreatedLastDay  int64
	Oldest, Newest  *time.Time
	Pending         int64
}

// PartitionLiveness lists the tenant's queues with most partitions as of the last pass, limit of them at most.
func (d *DB) PartitionLiveness(ctx context.Context, tenant uuid.UUID, limit int) ([]Liveness, error) {
	return collect(ctx, d.pool, "partition_liveness", pgx.RowToStructByPos[Liveness], tenant, limit)
}
