package pg

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ListedGroup is a group in one queue, and how far it is behind there.
type ListedGroup struct {
	Name  string
	Queue string
	// Cursors counts its rows, Behind the partitions in which it has something to consume.
	Cursors int64
	Behind  int64
	Records int64
	// Seconds is the age of the oldest record to consume.
	Seconds      float64
	RegisteredAt *time.Time
	StartMode    StartMode
	StartAt      *time.Time
	Conflation   bool
}

// ListGroups returns the groups of a tenant by name and queue, of all queues or of the one with the name.
func (d *DB) ListGroups(ctx context.Context, tenant uuid.UUID, queue *string) ([]ListedGroup, error) {
	return collect(ctx, d.pool, "list_groups", pgx.RowToStructByPos[ListedGroup], [16]byte(tenant), queue)
}

// LaggingPartition is a partition in which a group has had something to consume for a while.
type LaggingPartition struct {
	Group       string
	Queue       string
	Partition   string
	PartitionID int64
	Records     int64
	Seconds     float64
	Oldest      time.Time
}

// ListLagging returns the partitions of a tenant in which a group is behind by that time or more, the worst first.
func (d *DB) ListLagging(ctx context.Context, tenant uuid.UUID, behind time.Duration, limit int) ([]LaggingPartition, error) {
	return collect(ctx, d.pool, "list_lagging", pgx.RowToStructByPos[LaggingPartition], [16]byte(tenant), behind.Seconds(), limit)
}

// GroupPlace is where a group stands in a partition. Partition is nil for a queue that has none.
type GroupPlace struct {
	Queue      string
	Conflation bool
	Partition  *string
	Consumed   int64
	Records    int64
	Seconds    float64
	Leased     bool
}

// DescribeGroup returns where the group stands in the partitions of its queues.
func (d *DB) DescribeGroup(ctx context.Context, tenant uuid.UUID, group string, limit int) ([]GroupPlace, error) {
	return collect(ctx, d.pool, "describe_group", pgx.RowToStructByPos[GroupPlace], [16]byte(tenant), group, limit)
}

// DepthRow is what a group has before it in a queue, and in one of its partitions. Partition is nil for a queue that has
// none.
type DepthRow struct {
	Conflation        bool
	Pending           int64
	Processing        int64
	PartitionsPending int64
	PartitionsReady   int64

	Partition           *string
	PartitionPending    int64
	PartitionProcessing int64
}

// MeasureDepth returns a row for each of the first partitions, all with the sums over all of them; none when there is
// no such queue.
func (d *DB) MeasureDepth(ctx context.Context, queue QueueName, group string, partitions int) ([]DepthRow, error) {
	return collect(ctx, d.pool, "measure_depth", pgx.RowToStructByPos[DepthRow], [16]byte(queue.Tenant), queue.Name, group, partitions)
}
