package pg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Retention walks the partitions of one installation and takes away what their queues' options give up. It works on
// whole segments, one partition a transaction, in the lock order partition, cursor. It remembers how far it has come,
// so one Retention serves one reign. Run belongs to one goroutine and Forget to one, which may be another. Two
// Retentions at once, on two brokers say, do no harm.
type Retention struct {
	fenced *Fenced
	// swept and forgotten are the last partitions that Run and Forget have looked at.
	swept     int64
	forgotten int64
	// unfinished: this walk has left a partition with more to do.
	unfinished bool
}

// RetentionReport is what one call of Run did.
type RetentionReport struct {
	// Deleted and Emptied count segments: gone, or without a body but with its ids.
	Deleted, Emptied int64
	// Moved counts cursors that had fallen behind.
	Moved int64
	// More says that the walk should go on at once.
	More bool
	// ByQueue counts messages, by the queue they were taken from.
	ByQueue map[int64]Removal
	// Skipped are the queues whose options this build does not understand. They keep everything.
	Skipped []SkippedQueue
}

// Removal counts the messages that retention took, by the rule that gave them up: their age, that they were consumed, or
// how long they had waited. Steps counts transactions.
type Removal struct{ Expired, Completed, Evicted, Steps int64 }

// SkippedQueue is a queue that keeps everything, and why.
type SkippedQueue struct {
	Tenant uuid.UUID
	Queue  string
	Reason string
}

const (
	retentionPage = 2000
	// A step holds the partition's row lock, so it is small: appends wait behind it.
	retentionSegments = 32
	retentionBytes    = 4 << 20
	// stepsPerVisit keeps one long backlog from starving all other partitions.
	stepsPerVisit = 20
	// idleLook bounds the time spent on looking, per call, while there is nothing to do; a call with work goes on for
	// busyLook.
	idleLook    = 100 * time.Millisecond
	busyLook    = time.Second
	forgetBatch = 500
)

// Retention returns a walk over all partitions under this reign.
func (f *Fenced) Retention() *Retention { return &Retention{fenced: f} }

// Rows is what a job counts.
func (r RetentionReport) Rows() int64 { return r.Deleted + r.Emptied }

func (r *RetentionReport) removed(queue int64, n Removal) {
	if n.Expired+n.Completed+n.Evicted == 0 {
		return
	}
	if r.ByQueue == nil {
		r.ByQueue = map[int64]Removal{}
	}
	before := r.ByQueue[queue]
	r.ByQueue[queue] = Removal{
		Expired: before.Expired + n.Expired, Completed: before.Completed + n.Completed,
		Evicted: before.Evicted + n.Evicted, Steps: before.Steps + 1,
	}
}

// Run goes on with the walk for a bounded time, and returns at its end at the latest.
func (r *Retention) Run(ctx context.Context) (RetentionReport, error) {
	began := time.Now()
	var report RetentionReport
	queues, err := r.queues(ctx, &report)
	if err != nil || len(queues) == 0 {
		return report, err
	}
	for {
		page, err := r.candidates(ctx, queues)
		if err != nil {
			return report, fmt.Errorf("look for retention candidates: %w", err)
		}
		for i, partition := range page.partitions {
			more, err := r.visit(ctx, partition, page.queues[i], queues, &report)
			if err != nil {
				return report, fmt.Errorf("apply retention to partition %d: %w", partition, err)
			}
			r.swept = partition
			r.unfinished = r.unfinished || more
			if time.Since(began) > busyLook {
				report.More = true
				return report, nil
			}
		}
		r.swept = page.last
		if page.seen < retentionPage {
			// The walk begins anew, at once if it has left something.
			report.More = r.unfinished
			r.swept, r.unfinished = 0, false
			return report, nil
		}
		busy := report.Rows() > 0
		if spent := time.Since(began); spent > busyLook || spent > idleLook && !busy {
			report.More = busy
			return report, nil
		}
	}
}

// queues reads the rules of all queues that have any.
func (r *Retention) queues(ctx context.Context, report *RetentionReport) (map[int64]retentionRules, error) {
	found := map[int64]retentionRules{}
	err := r.fenced.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, statement("retention_queues"))
		if err != nil {
			return err
		}
		var id, version int64
		var tenant uuid.UUID
		var name string
		var raw []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &tenant, &name, &version, &raw}, func() error {
			var options map[string]json.RawMessage
			if err := json.Unmarshal(raw, &options); err != nil {
				return fmt.Errorf("read options of queue %q: %w", name, err)
			}
			rules, problem := readRetention(options)
			switch {
			case problem != "":
				report.Skipped = append(report.Skipped, SkippedQueue{Tenant: tenant, Queue: name, Reason: problem})
			case !rules.none():
				rules.version = version
				found[id] = rules
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read retention rules: %w", err)
	}
	return found, nil
}

// candidatePage is a page of the walk: how many partitions were seen, the last of them, and those that seem due, with
// their queues.
type candidatePage struct {
	seen       int
	last       int64
	partitions []int64
	queues     []int64
}

func (r *Retention) candidates(ctx context.Context, queues map[int64]retentionRules) (page candidatePage, err error) {
	var ids []int64
	var retention, completed, maxWait []*float64
	for id, rules := range queues {
		ids = append(ids, id)
		retention = append(retention, rules.retention)
		completed = append(completed, rules.completed)
		maxWait = append(maxWait, rules.maxWait)
	}
	err = r.fenced.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, statement("retention_candidates"), r.swept, retentionPage, ids, retention, completed, maxWait).
			Scan(&page.seen, &page.last, &page.partitions, &page.queues)
	})
	return page, err
}

// visit makes several steps on one partition, and says whether more are needed.
func (r *Retention) visit(ctx context.Context, partition, queue int64, queues map[int64]retentionRules, report *RetentionReport) (bool, error) {
	for range stepsPerVisit {
		more, err := r.step(ctx, partition, queue, queues[queue], report)
		if lockTimedOut(err) {
			// Somebody holds the partition; the next walk comes by again.
			return false, nil
		}
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// step is one transaction on one partition.
func (r *Retention) step(ctx context.Context, partition, queue int64, rules retentionRules, report *RetentionReport) (more bool, err error) {
	var deleted, emptied, moved int64
	var removal Removal
	err = r.fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		var owner int64
		batch.Queue(statement("retention_lock"), partition).QueryRow(func(row pgx.Row) error { return row.Scan(&owner) })
		batch.Queue(statement("statistics_lock"), []int64{partition})
		batch.Queue(statement("retention_empty"), partition, queue, rules.retention, rules.completed, rules.maxWait,
			rules.ids, retentionSegments, int64(retentionBytes), rules.version).QueryRow(func(row pgx.Row) error {
			return row.Scan(&deleted, &emptied, &moved, &removal.Expired, &removal.Completed, &removal.Evicted, &more)
		})
		return tx.SendBatch(ctx, batch).Close()
	})
	if errors.Is(err, pgx.ErrNoRows) {
		// The queue was deleted meanwhile; its segments are the purge's.
		return false, nil
	}
	if err != nil {
		return false, err
	}
	report.Deleted += deleted
	report.Emptied += emptied
	report.Moved += moved
	report.removed(queue, removal)
	return more, nil
}

// Forget goes on with a walk over the partitions where retention has been, a page at a time, and deletes the rows whose
// ids have outlived their window. rows counts segments.
func (r *Retention) Forget(ctx context.Context) (rows int64, more bool, err error) {
	var seen int
	var last int64
	var partitions []int64
	var windows []float64
	err = r.fenced.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, statement("retention_forget_page"), r.forgotten, retentionPage, retentionOptions).
			Scan(&seen, &last, &partitions, &windows)
	})
	if err != nil {
		return 0, false, fmt.Errorf("look for forgettable ids: %w", err)
	}
	unfinished := false
	for i, partition := range partitions {
		var deleted int64
		err := r.fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, statement("retention_forget"), partition, windows[i], forgetBatch)
			deleted = tag.RowsAffected()
			return err
		})
		if err != nil {
			return rows, false, fmt.Errorf("forget ids of partition %d: %w", partition, err)
		}
		rows += deleted
		unfinished = unfinished || deleted == forgetBatch
	}
	switch {
	case unfinished:
		return rows, true, nil
	case seen < retentionPage:
		r.forgotten = 0
		return rows, false, nil
	}
	r.forgotten = last
	return rows, rows > 0, nil
}
