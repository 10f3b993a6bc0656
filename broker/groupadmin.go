package broker

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// SeekRequest moves the cursors of a group.
type SeekRequest struct {
	Tenant uuid.UUID
	Queue  string
	// Group is empty for queue mode.
	Group string
	// Partition limits the seek to one partition.
	Partition *string
	// ToEnd means behind everything there is, else before the first segment that is not older than At.
	ToEnd bool
	At    time.Time
}

// ErrNoPartitions says that there is nothing whose cursors could be moved: no such queue, or no such partition.
var ErrNoPartitions = errors.New("queue not found or has no partitions")

// groupTimeout bounds calls that touch every cursor of a group.
const groupTimeout = time.Minute

// Seek moves the group's cursors, backwards or forwards, and says how many. Leases on them end; their acks are refused
// from then on, because the cursor's row no longer has the lease. A group that never popped gets its cursors by this,
// and keeps them when its first pop registers it.
func (b *Broker) Seek(ctx context.Context, req SeekRequest) (cursors int, err error) {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	if req.Group == "" {
		req.Group = QueueMode
	}
	if !storableName(req.Queue) || !storableName(req.Group) || req.Partition != nil && !storableName(*req.Partition) {
		return 0, ErrNoPartitions
	}
	if err := b.admitSought(ctx, req); err != nil {
		return 0, err
	}
	moved, err := b.db.SeekGroup(ctx, pg.Seek{
		Queue: pg.QueueName{Tenant: req.Tenant, Name: req.Queue}, Group: req.Group, Partition: req.Partition, ToEnd: req.ToEnd, At: req.At,
	}, pg.SeekPageSize)
	if moved.Cursors > 0 { // some may have been moved before a failure
		b.cursorsMoved(req.Tenant, req.Queue, req.Group, moved, false)
	}
	if errors.Is(err, pg.ErrNoQueue) || errors.Is(err, pg.ErrNoPartition) {
		return 0, ErrNoPartitions
	}
	return moved.Cursors, unreachable(err)
}

// admitSought counts a group that a seek is about to make.
func (b *Broker) admitSought(ctx context.Context, req SeekRequest) error {
	q, err := b.catalog.find(ctx, queueKey{req.Tenant, req.Queue})
	if err != nil {
		return unavailable(err)
	}
	if q == nil {
		return ErrNoPartitions
	}
	_, found, err := b.db.FindGroup(ctx, q.id, req.Group)
	if err != nil {
		return unavailable(err)
	}
	if found {
		return nil
	}
	return b.limits.admit(ctx, req.Tenant, pg.TenantCounts{Groups: 1})
}

// GroupDeletion is what a deletion of a group removed.
type GroupDeletion struct {
	Cursors int
	// Registration says that the group itself is gone, not only where it stood.
	Registration bool
}

// DeleteGroup removes where the group stands, in one queue or in all of the tenant's, and with registration set also
// what its first pop fixed. A group that there is not is no error. Each queue is a transaction of its own.
func (b *Broker) DeleteGroup(ctx context.Context, tenant uuid.UUID, group string, queue *string, registration bool) (out GroupDeletion, err error) {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	if !storableName(group) || queue != nil && !storableName(*queue) {
		return out, nil
	}
	var queues []string
	if queue != nil {
		queues = []string{*queue}
	} else if queues, err = b.db.GroupsNamed(ctx, tenant, group); err != nil {
		return out, unreachable(err)
	}
	for _, name := range queues {
		moved, err := b.db.DeleteGroup(ctx, pg.QueueName{Tenant: tenant, Name: name}, group, registration)
		if errors.Is(err, pg.ErrNoQueue) || errors.Is(err, pg.ErrNoGroup) {
			continue
		}
		if err != nil {
			return out, unreachable(err)
		}
		out.Cursors += moved.Cursors
		out.Registration = out.Registration || registration
		b.cursorsMoved(tenant, name, group, moved, registration)
	}
	return out, nil
}

// Resubscribe changes where the group begins in partitions that it has no cursor in, in every queue that it is
// registered for, and counts those. It moves no cursor: whoever makes one reads the row.
func (b *Broker) Resubscribe(ctx context.Context, tenant uuid.UUID, group string, at time.Time) (queues int, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	if !storableName(group) {
		return 0, nil
	}
	queues, err = b.db.Resubscribe(ctx, tenant, group, at)
	return queues, unreachable(err)
}

// unreachable marks an error that means: no connection to the database could be had.
func unreachable(err error) error {
	if pg.Unreachable(err) {
		return Unavailable(err)
	}
	return err
}

// cursorsMoved tells everybody who waits for the group that what they know of it is void.
func (b *Broker) cursorsMoved(tenant uuid.UUID, queue, group string, moved pg.Moved, gone bool) {
	b.watch.cursorsMoved(namedSet{moved.Queue, group}, moved.Generation, gone)
	b.hints.CursorsMoved(tenant, queue, group)
}

// cursorsMoved lets the set be read again, or ends its calls when the group is gone: they begin anew.
func (w *watch) cursorsMoved(name namedSet, generation int64, gone bool) {
	w.mu.Lock()
	s := w.named[name]
	if s == nil {
		w.mu.Unlock()
		return
	}
	if gone {
		w.remove(s, errGone)
		w.mu.Unlock()
		return
	}
	s.group.Generation = max(s.group.Generation, generation)
	read := w.rebuild(s)
	jobs := w.dispatch(s)
	w.mu.Unlock()
	w.send(jobs)
	if read {
		w.b.spawn(func() { w.build(s) })
	}
}
