package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"waggle/admin"
	"waggle/broker"
)

// The routes for people are tested against a real database; see live_test.go. These only complete the double.

func (d *double) Trace(context.Context, broker.TraceRequest) (uuid.UUID, error) {
	return uuid.Max, broker.ErrNoMessage
}

func (d *double) Traces(context.Context, uuid.UUID, uuid.UUID, string) ([]admin.Trace, error) {
	return nil, d.err
}

func (d *double) TracesNamed(context.Context, uuid.UUID, string, int, int) ([]admin.Trace, int64, error) {
	return nil, 0, d.err
}

func (d *double) TraceNames(context.Context, uuid.UUID, int, int) ([]admin.TraceName, int64, error) {
	return nil, 0, d.err
}

func (d *double) Seek(context.Context, broker.SeekRequest) (int, error) { return 0, d.err }

func (d *double) DeleteGroup(context.Context, uuid.UUID, string, *string, bool) (broker.GroupDeletion, error) {
	return broker.GroupDeletion{}, d.err
}

func (d *double) Resubscribe(context.Context, uuid.UUID, string, time.Time) (int, error) {
	return 0, d.err
}

func (d *double) Groups(context.Context, uuid.UUID) ([]admin.Group, error) { return nil, d.err }

func (d *double) Lagging(context.Context, uuid.UUID, time.Duration) ([]admin.Lagging, error) {
	return nil, d.err
}

func (d *double) Group(context.Context, uuid.UUID, string) ([]admin.GroupQueue, error) {
	return nil, d.err
}

func (d *double) Depth(context.Context, uuid.UUID, string, string) (*admin.Depth, error) {
	return nil, d.err
}

func (d *double) Messages(context.Context, uuid.UUID, admin.MessageFilter) (admin.MessagePage, error) {
	return admin.MessagePage{}, d.err
}

func (d *double) Message(context.Context, uuid.UUID, uuid.UUID, string) (*admin.Message, error) {
	return nil, d.err
}

func (d *double) DeleteMessage(context.Context, uuid.UUID, string, string) (int64, error) {
	return 0, d.err
}

func (d *double) DeleteDeadLetters(context.Context, uuid.UUID, string, *string) (int64, error) {
	return 0, d.err
}

func (d *double) Replay(context.Context, broker.ReplayRequest) (broker.Replayed, error) {
	return broker.Replayed{}, broker.ErrNoDeadLetter
}

func (d *double) RegisterStream(context.Context, broker.StreamQuery, bool) (broker.StreamRegistration, error) {
	return broker.StreamRegistration{}, d.err
}

func (d *double) StreamState(context.Context, broker.StateRequest) ([]broker.StateRow, error) {
	return nil, broker.ErrNotFound
}

func (d *double) Cycle(context.Context, broker.Cycle) (broker.CycleAnswer, error) {
	return broker.CycleAnswer{}, broker.ErrNotFound
}

func (d *double) QueueStatuses(context.Context, uuid.UUID, admin.SeriesFilter, int, int) ([]admin.QueueStatus, error) {
	return []admin.QueueStatus{}, d.err
}

func (d *double) Liveness(context.Context, uuid.UUID, int) (*admin.Liveness, error) {
	return &admin.Liveness{Rows: []admin.LivenessRow{}}, d.err
}

func (d *double) DeadLetterSignatures(context.Context, uuid.UUID, string, int) (*admin.DeadLetterSignatures, error) {
	return &admin.DeadLetterSignatures{RetryCounts: map[string]int{}, Groups: map[string]int{}, Signatures: []admin.Signature{}, ByDay: map[string]int{}}, d.err
}
