package broker

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/pg"
)

// maxAckSkips is how often an ack may find its cursor locked before it waits for it on a connection of its own.
const maxAckSkips = 3

// ackJob is a set of acks that a flush can apply: everything completed, under a lease, at known offsets.
type ackJob struct {
	ack   pg.Ack
	skips int
	tries int
	done  func(*pg.Acking, error)
}

func (j *ackJob) answer(a *pg.Acking, err error) { j.done(a, err) }

func (j *ackJob) skip() bool {
	j.skips++
	return j.skips < maxAckSkips
}

// ackFromMemory serves the sets whose lease this broker gave out and returns the rest.
func (b *Broker) ackFromMemory(group string, sets []*ackSet, items []AckItem, results []AckResult) []*ackSet {
	var jobs []*fastAck
	var rest []*ackSet
	for _, s := range sets {
		held, ok := b.leases.find(s.lease, s.partition.id, group)
		if s.lease == uuid.Nil || !ok || !s.completedOnly(items) {
			rest = append(rest, s)
			continue
		}
		ids := idLog{{base: held.first, ids: held.ids}}
		if job := newFastAck(s, held.cursor, held.group, held.conflates, ids.resolve(s, items, held.low, held.last)); job != nil {
			jobs = append(jobs, job)
		} else {
			rest = append(rest, s)
		}
	}
	return append(rest, b.runFast(jobs, items, results)...)
}

// ackFromPeek serves sets whose lease another broker gave out: it reads the window without a lock, and the flush
// checks under the lock that the lease and the window still hold.
func (b *Broker) ackFromPeek(ctx context.Context, group string, sets []*ackSet, items []AckItem, results []AckResult) []*ackSet {
	var able, rest []*ackSet
	for _, s := range sets {
		if s.lease != uuid.Nil && s.completedOnly(items) {
			able = append(able, s)
		} else {
			rest = append(rest, s)
		}
	}
	if len(able) == 0 {
		return rest
	}
	queues, partitions := make([]int64, len(able)), make([]int64, len(able))
	for i, s := range able {
		queues[i], partitions[i] = s.queue.id, s.partition.id
	}
	cursors, err := b.db.PeekCursors(ctx, queues, partitions, group)
	if err != nil {
		return sets
	}
	var held []*ackSet
	var states []pg.Cursor
	var where, low, high []int64
	for i, s := range able {
		c := cursors[i]
		if c.ID == 0 || !c.Live || c.Lease != s.lease {
			rest = append(rest, s)
			continue
		}
		held, states = append(held, s), append(states, c)
		where, low, high = append(where, s.partition.id), append(low, stateOf(c).handedAfter()), append(high, c.BatchEnd)
	}
	if len(held) == 0 {
		return rest
	}
	spans, err := b.db.IDsBetween(ctx, where, low, high)
	if err != nil {
		return sets
	}
	var jobs []*fastAck
	for i, s := range held {
		c := states[i]
		if job := newFastAck(s, c.ID, c.Group, c.Conflation, spansOf(spans[i]).resolve(s, items, low[i], c.BatchEnd)); job != nil {
			jobs = append(jobs, job)
		} else {
			rest = append(rest, s)
		}
	}
	return append(rest, b.runFast(jobs, items, results)...)
}

// fastAck is a set that a flush can apply.
type fastAck struct {
	set       *ackSet
	group     int64
	conflates bool
	offsets   []int64
	job       ackJob
	acking    *pg.Acking
	err       error
}

// newFastAck is nil when not every offset is known.
func newFastAck(s *ackSet, cursor, group int64, conflates bool, offsets []int64) *fastAck {
	upto := int64(-1)
	for _, at := range offsets {
		if at < 0 {
			return nil
		}
		upto = max(upto, at)
	}
	return &fastAck{
		set: s, group: group, conflates: conflates, offsets: offsets,
		job: ackJob{ack: pg.Ack{Cursor: cursor, Lease: s.lease, Upto: upto}},
	}
}

// runFast sends the sets through the lanes and returns those that the row did not accept.
func (b *Broker) runFast(jobs []*fastAck, items []AckItem, results []AckResult) []*ackSet {
	if len(jobs) == 0 {
		return nil
	}
	var pending sync.WaitGroup
	pending.Add(len(jobs))
	for _, j := range jobs {
		j.job.done = func(a *pg.Acking, err error) {
			j.acking, j.err = a, err
			pending.Done()
		}
		// The partition's own lane: then its claims and acks do not find each other's locks.
		j.set.partition.lane.ack(&j.job)
	}
	pending.Wait()
	var rest []*ackSet
	for _, j := range jobs {
		switch {
		case j.err != nil:
			b.log.Warn("ack flush failed", zap.String("code", "WG0417"), zap.Error(j.err))
			j.set.refuse(results, errAckFlush)
		case j.acking == nil || !j.acking.Moved:
			rest = append(rest, j.set)
		default:
			b.finishFast(j, items, results)
		}
	}
	return rest
}

func (b *Broker) finishFast(j *fastAck, items []AckItem, results []AckResult) {
	state := cursorState{committed: j.acking.Committed, batchEnd: j.acking.BatchEnd, live: true, conflates: j.conflates}
	list := make([]resolved, len(j.offsets))
	for k, i := range j.set.indexes {
		list[k] = resolved{offset: j.offsets[k], status: items[i].Status}
	}
	d := decideAck(state, list, 0, false)
	for k, i := range j.set.indexes {
		results[i] = d.results[k]
	}
	b.conflated(j.set.queue, state, d)
	if !d.release {
		b.leases.advance(j.set.lease, j.job.ack.Cursor, d.committed)
		return
	}
	b.leases.end(j.set.lease, j.job.ack.Cursor)
	if b.watch.released(j.set.queue, j.set.partition, j.group, d.committed, false) {
		// Others may have pops parked that know this lease only as one to wait for.
		b.hints.Wake(j.set.queue.tenant, j.set.queue.name, j.set.partition.name)
	}
}
