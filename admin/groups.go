package admin

import (
	"context"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// GroupState says in one word how a group does.
type GroupState string

// A group is dead when it has no cursor anywhere: nothing of it is being consumed, nor will be before it pops.
const (
	GroupStable  GroupState = "Stable"
	GroupLagging GroupState = "Lagging"
	GroupDead    GroupState = "Dead"
)

// laggingAfter is when a group that is behind counts as lagging.
const laggingAfter = 300 * time.Second

// Group is a consumer group in one queue.
type Group struct {
	Name    string
	Queue   string
	Cursors int64
	// Behind counts the partitions in which it has something to consume, Lag the messages there; the oldest of them is
	// TimeLag old.
	Behind  int64
	Lag     int64
	TimeLag time.Duration
	State   GroupState
	// Mode is all, new or timestamp; empty for a group that is not registered.
	Mode         string
	StartAt      time.Time
	RegisteredAt time.Time
	Conflation   bool
}

// Lagging is a partition in which a group has had something to consume for a while.
type Lagging struct {
	Group       string
	Queue       string
	Partition   string
	PartitionID uuid.UUID
	Lag         int64
	TimeLag     time.Duration
	Oldest      time.Time
}

// GroupQueue is where a group stands in one queue.
type GroupQueue struct {
	Queue      string
	Conflation bool
	Partitions []GroupPartition
}

// GroupPartition is where a group stands in one partition.
type GroupPartition struct {
	Partition   string
	Consumed    int64
	Lag         int64
	TimeLag     time.Duration
	LeaseActive bool
}

// Depth is what a group has before it in a queue. Pending is all that it has not consumed, Processing the part of it that
// is inside a live lease.
type Depth struct {
	Pending           int64
	Processing        int64
	PartitionsPending int64
	PartitionsReady   int64
	Conflation        bool
	Partitions        []PartitionDepth
}

// PartitionDepth is the part of a Depth that lies in one partition.
type PartitionDepth struct {
	Partition  string
	Pending    int64
	Processing int64
}

const (
	// maxLagging and maxPlaces bound answers that the contract does not page.
	maxLagging = 10_000
	maxPlaces  = 100_000
	maxDepths  = 10_000
)

// Groups lists the groups of a tenant by name and queue.
func (r *Reader) Groups(ctx context.Context, tenant uuid.UUID) ([]Group, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := r.db.ListGroups(ctx, tenant, nil)
	if err != nil {
		return nil, failed("list groups", err)
	}
	groups := make([]Group, len(rows))
	for i := range rows {
		groups[i] = groupOf(&rows[i])
	}
	return groups, nil
}

func groupOf(row *pg.ListedGroup) Group {
	g := Group{
		Name: row.Name, Queue: row.Queue, Cursors: row.Cursors, Behind: row.Behind, Lag: row.Records, TimeLag: seconds(row.Seconds),
		State: GroupStable, Conflation: row.Conflation,
	}
	switch {
	case row.Cursors == 0:
		g.State = GroupDead
	case g.TimeLag > laggingAfter:
		g.State = GroupLagging
	}
	if row.RegisteredAt != nil {
		g.RegisteredAt, g.Mode = *row.RegisteredAt, [...]string{pg.StartAll: "all", pg.StartNew: "new", pg.StartFrom: "timestamp"}[row.StartMode]
		if row.StartAt != nil && row.StartMode != pg.StartAll {
			g.StartAt = *row.StartAt
		}
	}
	return g
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// Lagging lists where groups have been behind for a time, the worst first, at most ten thousand partitions.
func (r *Reader) Lagging(ctx context.Context, tenant uuid.UUID, behind time.Duration) ([]Lagging, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := r.db.ListLagging(ctx, tenant, behind, maxLagging)
	if err != nil {
		return nil, failed("list lagging partitions", err)
	}
	lagging := make([]Lagging, len(rows))
	for i, row := range rows {
		lagging[i] = Lagging{
			Group: row.Group, Queue: row.Queue, Partition: row.Partition, PartitionID: r.ids.Partition(row.PartitionID),
			Lag: row.Records, TimeLag: seconds(row.Seconds), Oldest: row.Oldest,
		}
	}
	return lagging, nil
}

// Group describes where a group stands, queue by queue; nothing for a group that there is not.
func (r *Reader) Group(ctx context.Context, tenant uuid.UUID, name string) ([]GroupQueue, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := r.db.DescribeGroup(ctx, tenant, storable(name), maxPlaces)
	if err != nil {
		return nil, failed("describe group", err)
	}
	var queues []GroupQueue
	for _, row := range rows {
		if n := len(queues); n == 0 || queues[n-1].Queue != row.Queue {
			queues = append(queues, GroupQueue{Queue: row.Queue, Conflation: row.Conflation})
		}
		if row.Partition == nil {
			continue
		}
		q := &queues[len(queues)-1]
		q.Partitions = append(q.Partitions, GroupPartition{
			Partition: *row.Partition, Consumed: row.Consumed, Lag: row.Records, TimeLag: seconds(row.Seconds), LeaseActive: row.Leased,
		})
	}
	return queues, nil
}

// Depth measures what the group has before it, or returns nil when the tenant has no such queue. The sums are over all
// partitions; only ten thousand of them are listed.
func (r *Reader) Depth(ctx context.Context, tenant uuid.UUID, queue, group string) (*Depth, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := r.db.MeasureDepth(ctx, pg.QueueName{Tenant: tenant, Name: queue}, storable(group), maxDepths)
	if err != nil {
		return nil, failed("measure depth", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	sums := rows[0]
	depth := &Depth{
		Pending: sums.Pending, Processing: sums.Processing, PartitionsPending: sums.PartitionsPending,
		PartitionsReady: sums.PartitionsReady, Conflation: sums.Conflation,
	}
	for _, row := range rows {
		if row.Partition != nil {
			depth.Partitions = append(depth.Partitions, PartitionDepth{
				Partition: *row.Partition, Pending: row.PartitionPending, Processing: row.PartitionProcessing,
			})
		}
	}
	return depth, nil
}
