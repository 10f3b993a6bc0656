package pg

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MessageFilter says whose messages are meant. What is nil binds nothing.
type MessageFilter struct {
	Tenant    uuid.UUID
	Queue     *string
	Partition *string
	Namespace *string
	Task      *string
}

// MessagePartitions returns up to limit partitions that the filter means.
func (d *DB) MessagePartitions(ctx context.Context, f MessageFilter, limit int) ([]int64, error) {
	return collect(ctx, d.pool, "message_partitions", pgx.RowTo[int64], [16]byte(f.Tenant), f.Queue, f.Partition, f.Namespace, f.Task, limit)
}

// SegmentRef is a stored segment without its content. Bytes is the length of its body.
type SegmentRef struct {
	Partition int64
	Base      int64
	Count     int
	CreatedAt time.Time
	Bytes     int
}

// SegmentWindow is a page of segments created in [From, Before), newest first: those that follow After, if there is one.
// Partitions are the ones meant; nil means all of the filter.
type SegmentWindow struct {
	Filter       MessageFilter
	Partitions   []int64
	From, Before time.Time
	After        *SegmentRef
	Limit        int
}

// MessageSegments returns a page of segments that have a body.
func (d *DB) MessageSegments(ctx context.Context, w SegmentWindow) ([]SegmentRef, error) {
	at, partition, base := w.Before, int64(math.MaxInt64), int64(math.MaxInt64)
	if w.After != nil {
		at, partition, base = w.After.CreatedAt, w.After.Partition, w.After.Base
	}
	if w.Partitions != nil {
		return collect(ctx, d.pool, "message_segments", pgx.RowToStructByPos[SegmentRef], w.Partitions, w.From, w.Before,
			at, partition, base, w.Limit)
	}
	f := w.Filter
	return collect(ctx, d.pool, "message_segments_by_time", pgx.RowToStructByPos[SegmentRef], w.From, w.Before, at, partition, base,
		w.Limit, [16]byte(f.Tenant), f.Queue, f.Partition, f.Namespace, f.Task)
}

// MessagePlace is where a message lies. Options is a JSON object with the options that were ever set.
type MessagePlace struct {
	PartitionID int64
	Partition   string
	QueueID     int64
	Queue       string
	Namespace   string
	Task        string
	Options     []byte
}

// MessagePlaces returns those of the partitions that are the tenant's.
func (d *DB) MessagePlaces(ctx context.Context, tenant uuid.UUID, partitions []int64) ([]MessagePlace, error) {
	return collect(ctx, d.pool, "message_places", pgx.RowToStructByPos[MessagePlace], [16]byte(tenant), partitions)
}

// MessageMark is how far a group is in a partition. LeasedTo and LeaseExpires are nil without a live lease.
type MessageMark struct {
	Partition    int64
	Group        string
	Committed    int64
	LeasedTo     *int64
	LeaseExpires *time.Time
}

// MessageMarks returns the marks of every group that has a say in one of the partitions.
func (d *DB) MessageMarks(ctx context.Context, partitions []int64) ([]MessageMark, error) {
	return collect(ctx, d.pool, "message_marks", pgx.RowToStructByPos[MessageMark], partitions)
}

// OffsetPlace names a record.
type OffsetPlace struct {
	Partition int64
	Offset    int64
}

// MessageLetters returns the records of the segments that are dead letters of some group; a record may come twice.
func (d *DB) MessageLetters(ctx context.Context, segments []SegmentRef) ([]OffsetPlace, error) {
	partitions, low, high := make([]int64, len(segments)), make([]int64, len(segments)), make([]int64, len(segments))
	for i, s := range segments {
		partitions[i], low[i], high[i] = s.Partition, s.Base, s.Base+int64(s.Count)
	}
	return collect(ctx, d.pool, "message_letters", pgx.RowToStructByPos[OffsetPlace], partitions, low, high)
}

// MessageMode tells whether queue mode is a group of the queues that the filter means, and how many named groups are.
func (d *DB) MessageMode(ctx context.Context, f MessageFilter) (queueMode bool, groups int64, err error) {
	err = d.pool.QueryRow(ctx, statement("message_mode"), [16]byte(f.Tenant), f.Queue, f.Namespace, f.Task).Scan(&queueMode, &groups)
	if err != nil {
		return false, 0, fmt.Errorf("read modes: %w", err)
	}
	return queueMode, groups, nil
}

// SegmentAt returns the segment that holds the offset; false when there is none any more.
func (d *DB) SegmentAt(ctx context.Context, partition, offset int64) (s Segment, found bool, err error) {
	err = d.pool.QueryRow(ctx, statement("segment_at"), partition, offset).
		Scan(&s.Base, &s.CreatedAt, &s.Count, &s.Format, &s.IDs, &s.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read segment: %w", err)
	}
	return s, true, nil
}

// BuriedMessage is a dead letter as the message route shows it.
type BuriedMessage struct {
	ID            int64
	QueueID       int64
	Group         string
	Offset        int64
	MessageID     uuid.UUID
	TransactionID string
	ProducerSub   string
	Payload       []byte
	Sealed        bool
	Error         []byte
	RetryCount    int
	FailedAt      time.Time
	// PushedAt is FailedAt where an older build wrote the letter.
	PushedAt time.Time
}

// FindBuried returns the newest dead letter of the message, nil when there is none. messageID is the zero id where the
// message is not named by one.
func (d *DB) FindBuried(ctx context.Context, tenant uuid.UUID, partition int64, transactionID string, messageID uuid.UUID) (*BuriedMessage, error) {
	rows, err := collect(ctx, d.pool, "buried_message", func(row pgx.CollectableRow) (m BuriedMessage, err error) {
		err = row.Scan(&m.ID, &m.QueueID, &m.Group, &m.Offset, (*[16]byte)(&m.MessageID), &m.TransactionID, &m.ProducerSub,
			&m.Payload, &m.Sealed, &m.Error, &m.RetryCount, &m.FailedAt, &m.PushedAt)
		return m, err
	}, partition, [16]byte(tenant), transactionID, [16]byte(messageID))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// DeleteBuried removes every dead letter of the message and counts them.
func (d *DB) DeleteBuried(ctx context.Context, tenant uuid.UUID, partition int64, transactionID string, messageID uuid.UUID) (rows int64, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement("delete_buried"), partition, [16]byte(tenant), transactionID, [16]byte(messageID))
		rows = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete dead letters of a message: %w", err)
	}
	return rows, nil
}

// DeleteDeadLetters removes up to limit dead letters of a queue, of one group where it is given, and counts them.
func (d *DB) DeleteDeadLetters(ctx context.Context, queue QueueName, group *string, limit int) (rows int64, err error) {
	err = d.write(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement("delete_dead_letters"), [16]byte(queue.Tenant), queue.Name, group, limit)
		rows = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete dead letters: %w", err)
	}
	return rows, nil
}
