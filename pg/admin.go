package pg

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ListedQueue is a queue row as people see it.
type ListedQueue struct {
	ID        int64
	Name      string
	Namespace string
	Task      string
	// Options is a JSON object with the options that were ever set.
	Options   []byte
	Version   int64
	CreatedAt time.Time
}

// ListQueues returns the queues of a tenant, newest first, or only the one with the name.
func (d *DB) ListQueues(ctx context.Context, tenant uuid.UUID, name *string) ([]ListedQueue, error) {
	return collect(ctx, d.pool, "list_queues", pgx.RowToStructByPos[ListedQueue], [16]byte(tenant), name)
}

// ListAllQueues returns the queues of all tenants, newest first.
func (d *DB) ListAllQueues(ctx context.Context) ([]ListedQueue, error) {
	return collect(ctx, d.pool, "list_queues", pgx.RowToStructByPos[ListedQueue], nil, nil)
}

// ListedPartition is a partition row as people see it.
type ListedPartition struct {
	ID        int64
	Name      string
	CreatedAt time.Time
}

// ListPartitions returns the partitions of a queue by name.
func (d *DB) ListPartitions(ctx context.Context, queue int64) ([]ListedPartition, error) {
	return collect(ctx, d.pool, "list_partitions", pgx.RowToStructByPos[ListedPartition], queue)
}

// MessageCounts are what a log retains and how far it has been consumed. Partition is 0 where a queue was summed up.
type MessageCounts struct {
	Queue      int64
	Partition  int64
	Partitions int64
	Segments   int64
	Messages   int64
	Bytes      int64
	Pending    int64
	Processing int64
	Completed  int64
	DeadLetter int64
	Oldest     *time.Time
	Newest     *time.Time
}

// CountMessages counts for each of the queues, or for each of their partitions. A queue without partitions is absent.
func (d *DB) CountMessages(ctx context.Context, queues []int64, byPartition bool) ([]MessageCounts, error) {
	return collect(ctx, d.pool, "count_messages", pgx.RowToStructByPos[MessageCounts], queues, byPartition)
}

// DeadLetterPage says which dead letters to list. Queue and Group bind where they are not nil.
type DeadLetterPage struct {
	Tenant   uuid.UUID
	Queue    *string
	Group    *string
	Limit    int
	Offset   int
	MaxBytes int64
}

// ListedDeadLetter is a dead letter with the names that belong to it.
type ListedDeadLetter struct {
	ID            int64
	Queue         string
	Partition     string
	PartitionID   int64
	Group         string
	TransactionID string
	ProducerSub   string
	Payload       []byte
	Error         []byte
	RetryCount    int32
	FailedAt      time.Time
	QueueID       int64
	Offset        int64
	// Sealed says that Payload is encrypted.
	Sealed bool
	// PushedAt is nil where an older build wrote the letter.
	PushedAt *time.Time
}

// ListDeadLetters returns a page of dead letters, newest first. The page ends early where its payloads would exceed
// MaxBytes, but has at least one row if there is one.
func (d *DB) ListDeadLetters(ctx context.Context, page DeadLetterPage) ([]ListedDeadLetter, error) {
	return collect(ctx, d.pool, "list_dead_letters", pgx.RowToStructByPos[ListedDeadLetter],
		[16]byte(page.Tenant), page.Queue, page.Group, page.Limit, page.Offset, page.MaxBytes)
}

// GroupLag is how far a group is behind in a queue.
type GroupLag struct {
	Tenant  uuid.UUID
	Queue   string
	Group   string
	Records int64
	Seconds float64
}

// MeasureLag returns the groups that are furthest behind, at most limit, and how many groups there are.
func (d *DB) MeasureLag(ctx context.Context, limit int) (lags []GroupLag, groups int, err error) {
	lags, err = collect(ctx, d.pool, "measure_lag", func(row pgx.CollectableRow) (l GroupLag, err error) {
		err = row.Scan((*[16]byte)(&l.Tenant), &l.Queue, &l.Group, &l.Records, &l.Seconds, &groups)
		return l, err
	}, limit)
	return lags, groups, err
}

// Unreachable tells that an error means: no connection could be made.
func Unreachable(err error) bool {
	var refused *pgconn.ConnectError
	return errors.As(err, &refused)
}
