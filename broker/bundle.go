package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/broker/segment"
	"waggle/broker/wireid"
	"waggle/pg"
)

// bundle is pushes, acks and further writes that happen together or not at all. It is a transaction of its own: in
// another's flush it would wait for its locks with everybody else's work in hand. What it pushes is compared with the
// windows of the lanes first, so that its cost does not grow with what these cover.
type bundle struct {
	b      *Broker
	tenant uuid.UUID
	pushes []*namedGroup
	acks   []AckItem
	sets   []*bundleSet
	// dropDuplicates leaves out what is stored already, instead of giving the bundle up.
	dropDuplicates bool
	// also runs under all locks, before the commit.
	also func(ctx context.Context, tx *pg.BundleTx) error

	parts []*part
	// learned holds, by partition, what an attempt found stored at or after the head that it knew.
	learned map[int64]*learned
	// what the last attempt read and decided; it counts once that has committed.
	appendings []pg.Appending
}

type learned struct {
	head       int64
	duplicates map[segment.Hash][16]byte
}

// Rollback says why nothing of a bundle happened. Reason is one of the contract's.
type Rollback struct {
	Reason string
	Text   string
}

func (r *Rollback) Error() string { return r.Text }

// The reasons of section 4.6 of the contract that come from here.
const (
	ReasonDuplicate   = "duplicate"
	ReasonAckRejected = "ack_rejected"
	ReasonDatabase    = "db_error"
)

const (
	bundleTries = 12
	bundlePause = 5 * time.Millisecond
)

// run tries until the bundle is committed or given up, and publishes it.
func (u *bundle) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*dbTimeout)
	defer cancel()
	u.learned = map[int64]*learned{}
	for try := 1; ; try++ {
		err := u.once(ctx)
		switch {
		case err == nil:
			u.publish()
			return nil
		case errors.Is(err, pg.ErrFloor) && u.b.config.FloorRaised != nil:
			u.b.config.FloorRaised()
			return err
		case try == bundleTries || !errors.Is(err, errAgain) && pg.Classify(err) != pg.Contended:
			return err
		}
		if errors.Is(err, errAgain) {
			continue
		}
		select {
		case <-time.After(time.Duration(try)*bundlePause + rand.N(bundlePause)):
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

func (u *bundle) once(ctx context.Context) error {
	if err := u.build(ctx); err != nil {
		return err
	}
	if err := u.confirm(ctx); err != nil {
		return err
	}
	if err := u.peek(ctx); err != nil {
		return err
	}
	work := &pg.Bundle{Decide: func(tx *pg.BundleTx) error { return u.decide(ctx, tx) }}
	for _, p := range u.parts {
		for _, s := range p.builders {
			body, err := u.bodyOf(p, s)
			if err != nil {
				return err
			}
			work.Appends = append(work.Appends, pg.Append{
				Partition: p.partition.id, Queue: p.queue.id, Version: p.queue.version, Format: p.queue.format,
				Known: p.known, Count: s.Len(), Size: s.Size(), IDs: s.IDs(), Body: body,
			})
		}
	}
	for _, s := range u.sets {
		work.Cursors = append(work.Cursors, pg.CursorName{Queue: s.queue.id, Partition: s.partition.id, Group: s.group})
	}
	return u.b.db.Bundle(ctx, work)
}

// bodyOf is the stored form of a segment. The lane's packer is not used: it belongs to the lane.
func (u *bundle) bodyOf(p *part, s *segment.Builder) ([]byte, error) {
	var packer segment.Packer
	if p.queue.options.EncryptionEnabled {
		return packer.Sealed(s, u.b.config.Keys.Segment(p.queue.id, p.partition.id))
	}
	return packer.Body(s, p.queue.format), nil
}

// build finds or makes queues and partitions, has the lanes compare, and fills segments with what is new.
func (u *bundle) build(ctx context.Context) error {
	u.parts = nil
	if len(u.pushes) == 0 {
		return nil
	}
	ready := u.b.resolveGroups(ctx, u.tenant, slices.Clone(u.pushes))
	if len(ready) != len(u.pushes) {
		return &Rollback{ReasonDatabase, "a queue or partition of a push cannot be used: a limit of the tenant is reached, the database did not answer, or this broker cannot encrypt"}
	}
	for _, g := range ready {
		g.forgetLooks()
	}
	if err := u.b.checkWindows(ctx, ready); err != nil {
		return err
	}
	for _, g := range ready {
		p := &part{queue: g.queue, partition: g.partition, groups: []*pushGroup{g}, known: g.check.known, epoch: g.check.epoch}
		known := u.learned[p.partition.id]
		if known != nil && p.known >= 0 {
			p.known = max(p.known, known.head)
		}
		for _, r := range g.records {
			id, found := g.check.duplicates[r]
			if !found && known != nil && r.hash != (segment.Hash{}) {
				id, found = known.duplicates[r.hash]
			}
			if found {
				p.duplicates = append(p.duplicates, duplicate{r, id})
			} else {
				p.records = append(p.records, r)
			}
		}
		if len(p.records) > 0 {
			p.pack(g.bytes)
		}
		u.parts = append(u.parts, p)
	}
	return nil
}

// confirm makes sure that what memory calls stored still is: the queue may have been deleted or configured elsewhere.
func (u *bundle) confirm(ctx context.Context) error {
	var ids []int64
	for _, p := range u.parts {
		if len(p.duplicates) > 0 {
			ids = append(ids, p.queue.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := u.b.db.QueuesByID(ctx, ids)
	if err != nil {
		return err
	}
	versions := make(map[int64]int64, len(rows))
	for _, row := range rows {
		versions[row.ID] = row.Version
	}
	for _, p := range u.parts {
		if len(p.duplicates) == 0 {
			continue
		}
		if versions[p.queue.id] != p.queue.version {
			u.outdated(p, versions[p.queue.id] == 0)
			return errAgain
		}
		if !u.dropDuplicates {
			return duplicateRollback(p, p.duplicates[0].record)
		}
	}
	return nil
}

func duplicateRollback(p *part, r *pushRecord) error {
	return &Rollback{ReasonDuplicate, fmt.Sprintf("QDUP transactionId %q is already stored in partition %q of queue %q; transaction rolled back",
		r.result.TransactionID, p.partition.name, p.queue.name)}
}

// outdated forgets what this broker remembered of the part's queue, and of its partition if that is gone.
func (u *bundle) outdated(p *part, gone bool) {
	if gone {
		u.b.catalog.dropPartition(p.partition)
		delete(u.learned, p.partition.id)
	}
	u.b.catalog.outdated(p.queue)
}

// decide looks at what the first trip found, under all locks, and says what the second one writes.
func (u *bundle) decide(ctx context.Context, tx *pg.BundleTx) error {
	u.appendings = tx.Appendings
	at := 0
	for _, p := range u.parts {
		if len(p.builders) == 0 {
			continue
		}
		a := &tx.Appendings[at]
		at++
		if a.Outcome == pg.Appended {
			continue
		}
		return u.refusedAppend(p, a)
	}
	for i, s := range u.sets {
		if err := s.decide(ctx, u, tx, i); err != nil {
			return err
		}
	}
	if u.also != nil {
		return u.also(ctx, tx)
	}
	return nil
}

// refusedAppend learns why an append was not made.
func (u *bundle) refusedAppend(p *part, a *pg.Appending) error {
	switch a.Outcome {
	case pg.Gone:
		u.outdated(p, true)
		return errAgain
	case pg.Stale:
		u.outdated(p, false)
		return errAgain
	case pg.Clash:
	default:
		return errAgain
	}
	u.tell(p, a)
	know := &learned{head: a.Base, duplicates: map[segment.Hash][16]byte{}}
	oldest := p.oldest(p.partition.lane)
	for _, m := range a.Missed {
		if m.CreatedAt.UnixMicro() < oldest {
			continue
		}
		for i := range m.Count {
			if h := segment.Hash(m.IDs[i*segment.HashSize:]); h != (segment.Hash{}) {
				know.duplicates[h], _ = wireid.Message(m.CreatedAt, m.Base+int64(i), p.partition.id)
			}
		}
	}
	for _, r := range p.records {
		if _, stored := know.duplicates[r.hash]; stored && !u.dropDuplicates {
			return duplicateRollback(p, r)
		}
	}
	if before := u.learned[p.partition.id]; before != nil {
		for h, id := range before.duplicates {
			know.duplicates[h] = id
		}
	}
	u.learned[p.partition.id] = know
	return errAgain
}

// publish tells of a committed bundle: the results of its pushes, who waits for them, and what its acks released.
func (u *bundle) publish() {
	at := 0
	for _, p := range u.parts {
		for _, d := range p.duplicates {
			d.record.duplicate(d.id)
		}
		if len(p.builders) > 0 {
			u.tell(p, &u.appendings[at])
			p.publish(u.b, &u.appendings[at])
			at++
		}
	}
	for _, s := range u.sets {
		s.publish(u.b)
	}
}

// tell lets the lane know what the append showed of the partition's log, like what its own appends show.
func (u *bundle) tell(p *part, a *pg.Appending) {
	if p.known < 0 {
		return
	}
	var segments []remembered
	for _, m := range a.Missed {
		segments = append(segments, remembered{m.Base, m.CreatedAt.UnixMicro(), m.IDs})
	}
	if a.Outcome == pg.Appended {
		base := a.Base
		for _, s := range p.builders {
			segments = append(segments, remembered{base, a.CreatedAt.UnixMicro(), s.IDs()})
			base += int64(s.Len())
		}
	}
	p.partition.lane.tell(news{p.partition, p.epoch, segments})
}

// failure sorts what ended a bundle: an unreachable database is an error of the call, everything else a rollback.
func (u *bundle) failure(err error) error {
	var rollback *Rollback
	switch {
	case errors.As(err, &rollback):
		return rollback
	case pg.Unreachable(err):
		return Unavailable(err)
	}
	u.b.log.Error("bundle failed", zap.String("code", "WG0425"), zap.Error(err))
	text := "the database refused the transaction; it was rolled back"
	switch {
	case errors.Is(err, pg.ErrUnknownOutcome):
		text = "the connection broke in the commit and nobody can tell its outcome; look before repeating it"
	case errors.Is(err, errAgain):
		text = "queues and cursors kept changing under the transaction; it was rolled back"
	case pg.Classify(err) == pg.Contended:
		text = "others held locks of the transaction for too long; it was rolled back"
	}
	return &Rollback{ReasonDatabase, text}
}
