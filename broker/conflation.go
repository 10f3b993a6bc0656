package broker

import (
	"context"

	"waggle/pg"
)

// Conflation is a property of a queue and a group, stored at the group's registration. A claim for such a group gives
// the newest visible record of each partition and leases everything from the cursor to it, so that the ack of that one
// record commits past all that were skipped. What a ready set knows of the policy holds as long as the set: a group
// whose policy is another has another row, and claims that name the old one find no cursor.

// maxConflated bounds the partitions of a conflated pop that names no number of its own.
const maxConflated = maxCandidates

// register stores where the group starts, and its policy.
func (b *Broker) register(ctx context.Context, q *queue, req PopRequest) (pg.Group, error) {
	start := b.start(req, req.Pinned)
	if req.conflates() {
		return b.db.RegisterConflating(ctx, q.id, req.Group, start)
	}
	return b.db.RegisterGroup(ctx, q.id, req.Group, start)
}

// nothing is the answer of a pop that found nothing: conflating groups are told so, others get none.
func (b *Broker) nothing(req PopRequest, sets []*readySet) *PopAnswer {
	conflating := req.conflates()
	if len(sets) > 0 {
		conflating = b.watch.allConflate(sets)
	}
	if !conflating {
		return nil
	}
	return &PopAnswer{Group: req.Group, Conflation: true, ConflationConflict: req.conflicts(true)}
}

// paused is the answer of a pop that came while pops are paused, which is told by what it asks for: the stored policy
// is not read then.
func (b *Broker) paused(req PopRequest) *PopAnswer {
	if !req.conflates() {
		return nil
	}
	return &PopAnswer{Group: req.Group, Conflation: true, Paused: b.PopsPaused()}
}

func (a *PopAnswer) empty() bool { return a == nil || len(a.Parts) == 0 }

// conflicts says that the request disagrees with the stored policy.
func (r *PopRequest) conflicts(stored bool) bool {
	return r.Conflation != nil && *r.Conflation != stored
}

func (w *watch) allConflate(sets []*readySet) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range sets {
		if !s.group.Conflation {
			return false
		}
	}
	return true
}

// partitions is how many partitions of the set one claim may give the call, 0 for no cap; called with mu held.
func (c *popCall) partitions(s *readySet) int {
	switch {
	case c.piloted != nil:
		return max(c.piloted.Partitions, 0)
	case c.req.Pinned:
		return 1
	case s.group.Conflation && c.req.PartitionsDefault:
		return min(c.req.Batch, maxConflated)
	}
	return max(c.req.Partitions, 0)
}

// handedAfter bounds from below the offsets of the live lease that its consumer was given.
func (c cursorState) handedAfter() int64 {
	if c.conflates {
		return c.batchEnd - 1
	}
	return c.committed
}

// resolveHanded serves acks of the one record that a conflating group was given, however far it lies from the cursor;
// an older record of the same id does not count.
func resolveHanded(ctx context.Context, log idReader, s *ackSet, items []AckItem, c cursorState, list []resolved) error {
	if !c.conflates || !c.live {
		return nil
	}
	low := c.handedAfter()
	page, err := log.IDsAfter(ctx, s.partition.id, low, 1)
	if err != nil {
		return err
	}
	for k, offset := range spansOf(page).resolve(s, items, low, c.batchEnd) {
		list[k].offset = offset
	}
	return nil
}

// conflated counts the messages that an ack moved a conflating group past without their having been handed out.
func (b *Broker) conflated(q *queue, before cursorState, d decision) {
	if before.conflates && d.committed > before.committed+1 {
		b.metrics.skipped.Add(float64(d.committed - before.committed - 1))
		q.activity.conflated.Add(d.committed - before.committed - 1)
	}
}
