package broker

import (
	"context"
	"errors"
	"time"

	"waggle/pg"
)

const (
	maxPopRecords = 10000
	// maxBeginnings bounds how often a call may begin anew because queues and groups change under it.
	maxBeginnings = 50
)

// errAgain begins a call anew: what it claimed had been emptied meanwhile.
var errAgain = errors.New("claimed records are gone")

// Pop claims messages, or waits for some with Wait. A nil answer means that there was nothing: no such answer is
// given without a look at the database that began after the call.
func (b *Broker) Pop(ctx context.Context, req PopRequest) (*PopAnswer, error) {
	arrived := time.Now()
	if req.Group == "" {
		req.Group = QueueMode
	}
	req.Batch = min(max(req.Batch, 1), maxPopRecords)
	deadline := arrived.Add(req.Timeout)
	b.metrics.batching.popArrived(req.Pinned)
	for range maxBeginnings {
		if !b.watch.sitOut(ctx, req.Wait, deadline) {
			b.metrics.popped(nil, ctx.Err())
			return b.paused(req), ctx.Err()
		}
		answer, err := b.popOnce(ctx, req, arrived, deadline)
		switch {
		case errors.Is(err, errGone) || errors.Is(err, errAgain):
			continue
		case answer.empty() && err == nil && req.Wait && b.PopsPaused():
			continue // it was let go to sit this out
		}
		b.metrics.popped(answer, err)
		if q := b.catalog.cached(queueKey{req.Tenant, req.Queue}); q != nil && answer == nil && err == nil && !req.Discovery {
			q.activity.empty()
		}
		return answer, err
	}
	err := errors.New("queue and group keep changing")
	b.metrics.popped(nil, err)
	return nil, err
}

func (b *Broker) popOnce(ctx context.Context, req PopRequest, arrived, deadline time.Time) (*PopAnswer, error) {
	call := newPopCall(req, arrived)
	var sets []*readySet
	var err error
	switch {
	case !storableName(req.Queue), !storableName(req.Partition), !storableName(req.Group):
		err = errName
	case req.Discovery:
		sets, err = b.discover(ctx, call)
	case req.Pinned:
		sets, err = b.pin(ctx, call, deadline)
	default:
		sets, err = b.openQueue(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	if len(sets) == 0 && !req.Discovery {
		return b.nothing(req, sets), nil
	}
	outcome, err := b.watch.serve(ctx, call, sets, deadline)
	switch {
	case err != nil:
		return nil, err
	case outcome.job == nil:
		return b.nothing(req, sets), nil
	}
	answer, err := b.answer(ctx, outcome)
	if err != nil {
		b.giveBackClaims(outcome.job, outcome.claims)
		return nil, err
	}
	if answer == nil {
		return nil, errAgain
	}
	return answer, nil
}

// openQueue finds or makes the queue and registers the group at its first pop.
func (b *Broker) openQueue(ctx context.Context, req PopRequest) ([]*readySet, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	key := queueKey{req.Tenant, req.Queue}
	queues, err := b.catalog.ensure(ctx, []queueKey{key})
	if err != nil {
		return nil, unavailable(err)
	}
	q := queues[key]
	if q == nil {
		return nil, errGone
	}
	set, err := b.openGroup(ctx, q, req)
	if err != nil {
		return nil, err
	}
	return []*readySet{set}, nil
}

func (b *Broker) openGroup(ctx context.Context, q *queue, req PopRequest) (*readySet, error) {
	if s := b.watch.find(q, req.Group); s != nil && b.watch.isRegistered(s) {
		return s, nil
	}
	group, found, err := b.db.FindGroup(ctx, q.id, req.Group)
	if err == nil && !found {
		err = b.limits.admit(ctx, q.tenant, pg.TenantCounts{Groups: 1})
	}
	if err == nil && !group.Registered {
		group, err = b.register(ctx, q, req)
	}
	if errors.Is(err, pg.ErrNoQueue) {
		b.catalog.outdated(q)
		return nil, errGone
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return b.watch.open(q, req.Group, group), nil
}

// discover opens the sets of all queues of the namespace and task. There may be none: then the call waits for one.
func (b *Broker) discover(ctx context.Context, call *popCall) ([]*readySet, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	req := &call.req
	for _, text := range []**string{&req.Namespace, &req.Task} {
		if *text != nil {
			storable := storableText(**text)
			*text = &storable
		}
	}
	rows, err := b.db.DiscoverQueues(ctx, req.Tenant, req.Namespace, req.Task)
	if err != nil {
		return nil, unavailable(err)
	}
	var sets []*readySet
	for _, row := range rows {
		key := queueKey{row.Tenant, row.Name}
		q := b.catalog.store(row, b.catalog.generation(key))
		call.discovered = max(call.discovered, row.ID)
		set, err := b.openGroup(ctx, q, *req)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// pin finds the queue and the partition of a pinned pop, which makes neither; with Wait it waits for the queue. No
// sets mean that there was none.
func (b *Broker) pin(ctx context.Context, call *popCall, deadline time.Time) ([]*readySet, error) {
	setup, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	req := call.req
	call.pinnedName = req.Partition
	call.start = b.start(req, true)
	key := queueKey{req.Tenant, req.Queue}
	q, err := b.catalog.find(setup, key)
	if err != nil {
		return nil, unavailable(err)
	}
	if q == nil {
		if !req.Wait || !b.watch.awaitQueue(ctx, key, deadline) {
			return nil, ctx.Err()
		}
		return nil, errGone
	}
	set, err := b.pinnedSet(setup, q, req)
	if err != nil {
		return nil, err
	}
	found, err := b.catalog.findPartitions(setup, []partitionKey{{q.id, req.Partition}})
	if err != nil {
		return nil, unavailable(err)
	}
	if p := found[partitionKey{q.id, req.Partition}]; p != nil {
		// Whatever is remembered, the claim itself is the look at the database.
		b.watch.suspectOne(set, p)
	}
	return []*readySet{set}, nil
}

// pinnedSet is the set of a group that pops a single partition, which registers the group only with conflation.
func (b *Broker) pinnedSet(ctx context.Context, q *queue, req PopRequest) (*readySet, error) {
	if req.conflates() {
		return b.openGroup(ctx, q, req)
	}
	if set := b.watch.find(q, req.Group); set != nil {
		return set, nil
	}
	return b.openPinned(ctx, q, req.Group)
}

func (b *Broker) openPinned(ctx context.Context, q *queue, name string) (*readySet, error) {
	group, found, err := b.db.FindGroup(ctx, q.id, name)
	if err == nil && !found {
		if err = b.limits.admit(ctx, q.tenant, pg.TenantCounts{Groups: 1}); err == nil {
			group, err = b.db.PinGroup(ctx, q.id, name)
		}
	}
	if errors.Is(err, pg.ErrNoQueue) {
		b.catalog.outdated(q)
		return nil, errGone
	}
	if err != nil {
		return nil, unavailable(err)
	}
	set := b.watch.open(q, name, group)
	// The claim to come is the first read; looks must find what comes after it.
	if err := b.watch.begin(ctx); err != nil {
		return nil, unavailable(err)
	}
	return set, nil
}

// unavailable marks an error of the database, unless it says something else.
func unavailable(err error) error {
	for _, other := range []error{errGone, errClosed, ErrLimit, context.Canceled} {
		if errors.Is(err, other) {
			return err
		}
	}
	return Unavailable(err)
}
