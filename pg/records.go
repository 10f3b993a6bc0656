package pg

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"waggle/pg/schema"
)

const (
	// recordsTogether bounds the segments that one transaction rewrites; a body has a megabyte at most, as a rule.
	recordsTogether = 20
	// recordsPartitions bounds the partitions that one statement looks through.
	recordsPartitions = 100
)

// Reformat is the stored form of a body in another format.
type Reformat func(from, to int16, count int, body []byte) ([]byte, error)

// AbsentIndexes looks for the indexes that are built beside traffic.
func (f *Fenced) AbsentIndexes(ctx context.Context) (absent []schema.Absent, err error) {
	err = f.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		absent, err = schema.AbsentIndexes(ctx, tx)
		return err
	})
	return absent, err
}

// Records rewrites what queues hold in later record formats than they write: `waggle migrate queue down` takes them back. One
// Records serves one reign: it remembers how far it has come. Two at once rewrite the same to the same.
type Records struct {
	fenced   *Fenced
	reformat Reformat
	// queue is the one that is being rewritten, 0 for none; partitions are those of it that are left.
	queue      int64
	format     int16
	partitions []int64
	partition  int64
	offset     int64
	// failed are queues that hold what cannot be read; they are tried again when the others are done.
	failed  []int64
	failure error
	// used says that a format after the first is in use, as far as the floor tells.
	used bool
}

// Records begins with the first queue.
func (f *Fenced) Records(reformat Reformat) *Records { return &Records{fenced: f, reformat: reformat} }

// Run rewrites some segments and counts them. more is false when no queue is left to look at.
func (r *Records) Run(ctx context.Context) (rows int64, more bool, err error) {
	if r.queue == 0 {
		found, err := r.pick(ctx)
		if err != nil {
			return 0, false, fmt.Errorf("look for queues to rewrite: %w", err)
		}
		if !found {
			err, r.failed, r.failure = r.failure, nil, nil
			if r.used {
				err = errors.Join(err, r.lower(ctx, 0))
			}
			return 0, false, err
		}
	}
	chunk := r.partitions[:min(len(r.partitions), recordsPartitions)]
	if len(chunk) > 0 {
		rows, err = r.rewrite(ctx, chunk)
		var unreadable *unreadableError
		switch {
		case errors.As(err, &unreadable):
			r.failed, r.failure = append(r.failed, r.queue), err
			r.queue = 0
			return 0, true, nil
		case lockTimedOut(err):
			// Retention, or another leader, is at the same segments. The job's own time bounds how often that is so.
			return 0, true, nil
		case err != nil:
			return 0, false, fmt.Errorf("rewrite segments: %w", err)
		case rows < recordsTogether:
			r.partitions = r.partitions[len(chunk):]
			r.partition, r.offset = 0, 0
		}
	}
	if len(r.partitions) > 0 {
		return rows, true, nil
	}
	if err := r.lower(ctx, r.queue); lockTimedOut(err) {
		return rows, true, nil // another leader is at it; the next call does this only
	} else if err != nil {
		return rows, false, err
	}
	r.queue = 0
	return rows, true, nil
}

// lower lets the read floor of a queue fall that is rewritten, if it is not zero, and with it the floor of the database.
func (r *Records) lower(ctx context.Context, queue int64) error {
	err := r.fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, statement("records_gate")); err != nil {
			return err
		}
		if queue != 0 {
			if _, err := tx.Exec(ctx, statement("records_done"), queue, r.format); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, statement("records_lower"))
		return err
	})
	if err != nil {
		return fmt.Errorf("lower read floor: %w", err)
	}
	return nil
}

func (r *Records) pick(ctx context.Context) (found bool, err error) {
	err = r.fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var queue *int64
		var format *int16
		r.queue = 0
		err := tx.QueryRow(ctx, statement("records_pick"), append([]int64{}, r.failed...)).Scan(&r.used, &queue, &format, &r.partitions)
		if err == nil && queue != nil {
			r.queue, r.format = *queue, *format
		}
		return err
	})
	r.partition, r.offset = 0, 0
	return r.queue != 0, err
}

// unreadableError names a segment that cannot be read.
type unreadableError struct {
	partition, offset int64
	err               error
}

func (e *unreadableError) Error() string {
	return fmt.Sprintf("the segment at offset %d of partition %d does not decode, so its queue keeps its read floor: %v", e.offset, e.partition, e.err)
}

func (e *unreadableError) Unwrap() error { return e.err }

// rewrite takes the next segments of a chunk of partitions.
func (r *Records) rewrite(ctx context.Context, chunk []int64) (rows int64, err error) {
	var partition, offset int64
	err = r.fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := tx.Query(ctx, statement("records_lock"), chunk, r.partition, r.offset, r.format, recordsTogether)
		if err != nil {
			return err
		}
		var partitions, offsets []int64
		var formats []int16
		var bodies [][]byte
		var format int16
		var count int
		var body []byte
		_, err = pgx.ForEachRow(found, []any{&partition, &offset, &format, &count, &body}, func() error {
			var fresh []byte
			if body != nil {
				var err error
				if fresh, err = r.reformat(format, r.format, count, body); err != nil {
					return &unreadableError{partition, offset, err}
				}
			}
			partitions, offsets = append(partitions, partition), append(offsets, offset)
			formats, bodies = append(formats, r.format), append(bodies, fresh)
			body = nil
			return nil
		})
		if rows = int64(len(partitions)); err != nil || rows == 0 {
			return err
		}
		_, err = tx.Exec(ctx, statement("records_rewrite"), partitions, offsets, formats, bodies)
		return err
	})
	if err != nil {
		return 0, err
	}
	if rows > 0 {
		r.partition, r.offset = partition, offset
	}
	return rows, nil
}
