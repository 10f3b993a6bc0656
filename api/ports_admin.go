package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"waggle/admin"
	"waggle/broker"
)

// TraceWriter takes what clients say of messages.
type TraceWriter interface {
	// Trace answers broker.ErrNoMessage when the partition is not the tenant's.
	Trace(ctx context.Context, request broker.TraceRequest) (uuid.UUID, error)
}

// TraceReads is what was said of messages.
type TraceReads interface {
	Traces(ctx context.Context, tenant, partition uuid.UUID, transactionID string) ([]admin.Trace, error)
	// TracesNamed and TraceNames also answer how many there are in all.
	TracesNamed(ctx context.Context, tenant uuid.UUID, name string, limit, offset int) ([]admin.Trace, int64, error)
	TraceNames(ctx context.Context, tenant uuid.UUID, limit, offset int) ([]admin.TraceName, int64, error)
}

// GroupActions move and remove where groups stand.
type GroupActions interface {
	// Seek answers broker.ErrNoPartitions when there is nothing to move, else how many cursors were.
	Seek(ctx context.Context, request broker.SeekRequest) (cursors int, err error)
	// DeleteGroup means every queue of the tenant when queue is nil.
	DeleteGroup(ctx context.Context, tenant uuid.UUID, group string, queue *string, registration bool) (broker.GroupDeletion, error)
	Resubscribe(ctx context.Context, tenant uuid.UUID, group string, at time.Time) (queues int, err error)
}

// GroupReads is where groups stand.
type GroupReads interface {
	Groups(ctx context.Context, tenant uuid.UUID) ([]admin.Group, error)
	Lagging(ctx context.Context, tenant uuid.UUID, behind time.Duration) ([]admin.Lagging, error)
	// Group answers nothing for a group that there is not.
	Group(ctx context.Context, tenant uuid.UUID, name string) ([]admin.GroupQueue, error)
	// Depth answers nil without an error when there is no such queue.
	Depth(ctx context.Context, tenant uuid.UUID, queue, group string) (*admin.Depth, error)
}

// MessageReads shows single messages.
type MessageReads interface {
	Messages(ctx context.Context, tenant uuid.UUID, filter admin.MessageFilter) (admin.MessagePage, error)
	// Message answers nil without an error when there is no such message.
	Message(ctx context.Context, tenant, partition uuid.UUID, transactionID string) (*admin.Message, error)
}

// DeadLetterActions remove dead letters and count them.
type DeadLetterActions interface {
	DeleteMessage(ctx context.Context, tenant uuid.UUID, partitionID, transactionID string) (letters int64, err error)
	// DeleteDeadLetters means every group when group is nil.
	DeleteDeadLetters(ctx context.Context, tenant uuid.UUID, queue string, group *string) (letters int64, err error)
}
