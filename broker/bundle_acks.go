package broker

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"waggle/pg"
)

// bundleSet is what a bundle says of one cursor. Its indexes point into the bundle's acks.
type bundleSet struct {
	ackSet
	group string
	// required are the lease ids that stand for acks which name none.
	required []string

	// offsets is what could be found out without a lock, while the cursor was as seen.
	offsets []resolved
	seen    pg.Cursor
	// fromMemory says that the offsets are those of a lease that this broker gave out: seen holds only that lease.
	fromMemory bool

	cursor   pg.Cursor
	decision decision
}

// ackSets groups acks by cursor. groups holds the group of each ack.
func ackSets(acks []AckItem, groups, required []string) []*bundleSet {
	type key struct{ partition, group string }
	byKey := map[key]*bundleSet{}
	var sets []*bundleSet
	for i := range acks {
		k := key{acks[i].PartitionID, groups[i]}
		s := byKey[k]
		if s == nil {
			s = &bundleSet{ackSet: ackSet{partitionText: k.partition}, group: k.group, required: required}
			byKey[k] = s
			sets = append(sets, s)
		}
		s.indexes = append(s.indexes, i)
	}
	return sets
}

func rejected(cause string) error {
	return &Rollback{ReasonAckRejected, "QTXN " + cause + "; transaction rolled back"}
}

// own finds the sets' partitions, and gives the bundle up if one is not the tenant's.
func (u *bundle) own(ctx context.Context) error {
	plain := make([]*ackSet, len(u.sets))
	for i, s := range u.sets {
		if text := s.parse(u.b.ids); text != "" {
			return rejected(text)
		}
		plain[i] = &s.ackSet
	}
	if err := u.b.findOwners(ctx, plain); err != nil {
		return err
	}
	for _, s := range u.sets {
		if s.partition == nil || s.queue == nil || s.queue.tenant != u.tenant {
			return rejected(errNotOwned)
		}
	}
	return nil
}

// peek finds offsets without a lock, in the memory of leases or else in the log.
func (u *bundle) peek(ctx context.Context) error {
	for _, s := range u.sets {
		if len(s.indexes) == 0 || s.remember(u) {
			continue
		}
		cursors, err := u.b.db.PeekCursors(ctx, []int64{s.queue.id}, []int64{s.partition.id}, s.group)
		if err != nil {
			return err
		}
		if s.seen = cursors[0]; s.seen.ID == 0 {
			return rejected(errNoConsumer)
		}
		if s.offsets, err = u.b.lookUpOffsets(ctx, &s.ackSet, u.acks, stateOf(s.seen)); err != nil {
			return err
		}
	}
	return nil
}

// remember takes the offsets from the memory of the lease that the acks, or the required leases, name.
func (s *bundleSet) remember(u *bundle) bool {
	names := slices.Clone(s.required)
	for _, i := range s.indexes {
		if lease := u.acks[i].Lease; lease != "" && !slices.Contains(names, lease) {
			names = append(names, lease)
		}
	}
	for _, name := range names {
		lease, err := uuid.Parse(name)
		if err != nil {
			continue
		}
		held, ok := u.b.leases.find(lease, s.partition.id, s.group)
		if !ok {
			continue
		}
		offsets := idLog{{base: held.first, ids: held.ids}}.resolve(&s.ackSet, u.acks, held.low, held.last)
		if slices.Contains(offsets, -1) {
			continue
		}
		s.fromMemory, s.seen, s.offsets = true, pg.Cursor{Lease: lease}, make([]resolved, len(offsets))
		for k, i := range s.indexes {
			s.offsets[k] = resolved{offset: offsets[k], status: u.acks[i].Status, err: u.acks[i].Error}
		}
		return true
	}
	s.fromMemory = false
	return false
}

// stands tells whether what was found without a lock still holds.
func (s *bundleSet) stands(now pg.Cursor) bool {
	if s.fromMemory {
		return now.Live && now.Lease == s.seen.Lease
	}
	return now.ID == s.seen.ID && now.Committed == s.seen.Committed && now.BatchEnd == s.seen.BatchEnd &&
		now.Live == s.seen.Live && now.Lease == s.seen.Lease
}

// decide applies the rules to the locked cursor.
func (s *bundleSet) decide(ctx context.Context, u *bundle, tx *pg.BundleTx, at int) error {
	s.cursor = tx.Cursors[at]
	switch {
	case s.cursor.ID == 0:
		return rejected(errNoConsumer)
	case s.cursor.QueueVersion != s.queue.version:
		if err := u.b.readOptionsAgain(ctx, &s.ackSet); err != nil && !errors.Is(err, pg.ErrNoCursor) {
			return err
		}
		return errAgain
	case len(s.indexes) == 0:
		return nil // whoever named it decides
	}
	for _, i := range s.indexes {
		if !holds(s.cursor, leaseFor(u.acks[i].Lease, s.required, s.cursor)) {
			return rejected(errLease)
		}
	}
	list := s.offsets
	if !s.stands(s.cursor) {
		var err error
		if list, err = resolveInLog(ctx, tx.Set(at), &s.ackSet, u.acks, stateOf(s.cursor)); err != nil {
			return err
		}
	}
	o := s.queue.options
	state := stateOf(s.cursor)
	s.decision = decideAck(state, list, o.RetryLimit, o.DeadLetterQueue || o.DLQAfterMaxRetries)
	for _, r := range s.decision.results {
		switch {
		case r.Success:
		case r.Error == errUnresolvable:
			return rejected("ack references unknown transactionId")
		default:
			return rejected(r.Error)
		}
	}
	return s.write(ctx, u.b, tx, at)
}

// write stores the decision.
func (s *bundleSet) write(ctx context.Context, b *Broker, tx *pg.BundleTx, at int) error {
	d := &s.decision
	if d.bury >= 0 {
		if err := b.bury(ctx, tx.Set(at), &s.ackSet, s.group, *d); err != nil {
			return err
		}
	}
	if d.committed != s.cursor.Committed || d.release || d.retry != s.cursor.Retry {
		tx.Move(at, d.committed, d.release, d.retry)
	}
	return nil
}

// publish tells of what a committed decision released.
func (s *bundleSet) publish(b *Broker) {
	d := &s.decision
	b.touched.add(s.partition.id)
	if d.bury >= 0 {
		b.metrics.deadLetters.Inc()
		s.queue.activity.letters.Add(1)
	}
	b.conflated(s.queue, stateOf(s.cursor), *d)
	if !d.release {
		b.leases.advance(s.cursor.Lease, s.cursor.ID, d.committed)
		return
	}
	b.leases.end(s.cursor.Lease, s.cursor.ID)
	b.watch.released(s.queue, s.partition, s.cursor.Group, d.committed, d.signalled)
	// Others may have pops parked that know this lease only as one to wait for.
	b.hints.Wake(s.queue.tenant, s.queue.name, s.partition.name)
}

// leaseFor is the lease that an ack is checked against: its own; else the cursor's holder where it is required; else the
// only one that is required. Empty means that the ack is not checked.
func leaseFor(own string, required []string, cursor pg.Cursor) string {
	if own != "" {
		return own
	}
	for _, text := range required {
		if lease, err := uuid.Parse(text); err == nil && cursor.Lease != uuid.Nil && lease == cursor.Lease {
			return text
		}
	}
	if len(required) == 1 {
		return required[0]
	}
	return ""
}

// holds tells whether the cursor's live lease is the one named; an empty name is not checked.
func holds(cursor pg.Cursor, text string) bool {
	if text == "" {
		return true
	}
	lease, err := uuid.Parse(text)
	return err == nil && cursor.Live && cursor.Lease == lease
}
