package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"waggle/pg"
)

// flight is what one flush carries and where its answers go.
type flight struct {
	l      *lane
	groups []*pushGroup
	parts  []*part
	acks   []*ackJob
	claims []*claimJob
	flush  pg.Flush
	// solo flights carry one partition that was taken aside, and wait for its lock.
	solo bool
	// apart flights carry one item of a flush that was refused: no claim shall ride with it.
	apart bool
}

func newFlight(l *lane) *flight { return &flight{l: l} }

func (f *flight) empty() bool { return len(f.groups) == 0 && len(f.acks) == 0 && len(f.claims) == 0 }

func (f *flight) nothing() bool { return len(f.parts) == 0 && len(f.acks) == 0 && len(f.claims) == 0 }

// takeAcks takes at most one ack a cursor; the rest stays in order.
func (f *flight) takeAcks(waiting []*ackJob) []*ackJob {
	if len(waiting) == 0 {
		return waiting
	}
	seen := make(map[int64]struct{}, len(waiting))
	left := waiting[:0]
	for _, j := range waiting {
		_, taken := seen[j.ack.Cursor]
		if taken || len(f.acks) == flushAcks {
			left = append(left, j)
			continue
		}
		seen[j.ack.Cursor] = struct{}{}
		f.acks = append(f.acks, j)
	}
	clear(waiting[len(left):])
	return left
}

// prepare turns groups into segments and asks for claims that can ride along. Partitions whose ids must first be
// looked up leave the flight.
func (f *flight) prepare() {
	f.l.hear()
	// By row id: the catalog may have made a second object for a partition that it had forgotten.
	byPartition := make(map[int64]*part, len(f.groups))
	var parts []*part
	for _, g := range f.groups {
		p := byPartition[g.partition.id]
		if p == nil {
			p = &part{partition: g.partition}
			byPartition[g.partition.id] = p
			parts = append(parts, p)
		}
		p.add(g)
	}
	var lookups []*lookup
	var settled []*part
	for _, p := range parts {
		if need := p.needs(f.l); need != nil {
			f.l.setAside(p.partition)
			lookups = append(lookups, need)
			continue
		}
		p.partition.fresh = false
		if p.answerChecks(f.l); len(p.groups) == 0 {
			continue
		}
		if !p.build(f.l) {
			f.l.setAside(p.partition)
			settled = append(settled, p)
			continue
		}
		f.parts = append(f.parts, p)
	}
	if len(settled) > 0 {
		f.l.b.spawn(func() { f.l.confirm(settled) })
	}
	if len(lookups) > 0 {
		f.l.b.spawn(func() { f.l.lookUp(lookups) })
	}
	f.assemble()
}

// assemble writes the statement's rows.
func (f *flight) assemble() {
	f.parts = slices.DeleteFunc(f.parts, func(p *part) bool { return p.queue.options.EncryptionEnabled && !p.seal(f.l) })
	for _, p := range f.parts {
		known := int64(-1)
		if w := f.l.windowOf(p.partition); w != nil && p.dedups() {
			known = w.head
		}
		for i, b := range p.builders {
			f.flush.Appends = append(f.flush.Appends, pg.Append{
				Partition: p.partition.id, Queue: p.queue.id, Version: p.queue.version, Format: p.queue.format,
				Known: known, Count: b.Len(), Size: b.Size(), IDs: b.IDs(), Body: p.body(i),
			})
		}
		if !f.apart {
			f.claims = append(f.claims, f.l.b.watch.handOff(p.queue, p.partition, len(p.records))...)
		}
	}
	durable := len(f.parts) > 0 || len(f.acks) > 0
	for _, j := range f.acks {
		f.flush.Acks = append(f.flush.Acks, j.ack)
	}
	for i, j := range f.claims {
		for _, c := range j.claims {
			c.Pop = i
			f.flush.Claims = append(f.flush.Claims, c)
			durable = durable || c.AutoAck
		}
	}
	f.flush.Relaxed = !durable
	f.flush.Wait = f.solo
}

// answer hands out what the database said.
func (f *flight) answer(result *pg.Flushed) {
	f.answerAppends(result.Appendings)
	if result.Recovered {
		f.claimsLost()
		lost := errors.New("connection lost in the commit")
		for _, j := range f.acks {
			j.answer(nil, lost)
		}
		for _, j := range f.claims {
			f.l.b.watch.claimFailed(j, lost)
		}
		return
	}
	byCursor := make(map[int64]*pg.Acking, len(result.Ackings))
	for i := range result.Ackings {
		byCursor[result.Ackings[i].Cursor] = &result.Ackings[i]
	}
	for _, j := range f.acks {
		a := byCursor[j.ack.Cursor]
		if a == nil && j.skip() {
			f.l.ack(j)
			continue
		}
		j.answer(a, nil)
	}
	at := 0
	for _, j := range f.claims {
		n := len(j.claims)
		f.l.b.watch.claimAnswered(j, result.Claimings[at:at+n])
		at += n
	}
}

func (f *flight) answerAppends(answers []pg.Appending) {
	if len(f.parts) == 0 {
		return
	}
	byPartition := make(map[int64]*pg.Appending, len(answers))
	for i := range answers {
		byPartition[answers[i].Partition] = &answers[i]
	}
	var again []*pushGroup
	var moved []*part
	for _, p := range f.parts {
		a := byPartition[p.partition.id]
		if a == nil {
			a = &pg.Appending{Outcome: pg.Gone}
		}
		f.l.b.metrics.appended(a.Outcome)
		switch a.Outcome {
		case pg.Appended:
			f.learn(p, a)
			p.stored(f.l, a)
		case pg.Clash:
			f.learn(p, a)
			again = append(again, p.groups...)
		case pg.Skipped:
			if !f.solo && p.skippedTooOften() {
				f.sendAlone(p)
				continue
			}
			again = append(again, p.groups...)
		case pg.Gone, pg.Stale:
			p.gone = a.Outcome == pg.Gone
			moved = append(moved, p)
			if !f.solo {
				f.l.setAside(p.partition)
			}
			continue
		}
	}
	f.returned(again, moved)
}

// returned puts groups back: at once, or after their queue has been read again.
func (f *flight) returned(again []*pushGroup, moved []*part) {
	if f.solo {
		if len(moved) == 0 {
			f.l.land(f.parts[0].partition, again, nil)
		}
	} else {
		f.l.again(again)
	}
	if len(moved) > 0 {
		f.l.b.spawn(func() { f.l.resolveAgain(moved) })
	}
}

// learn keeps what the append showed of the partition's log.
func (f *flight) learn(p *part, a *pg.Appending) {
	if a.Outcome == pg.Appended {
		f.l.tickStamp(a.CreatedAt)
	}
	w := f.l.windowOf(p.partition)
	if w == nil {
		return
	}
	before := w.bytes()
	for _, m := range a.Missed {
		w.add(m.Base, m.CreatedAt.UnixMicro(), m.IDs)
	}
	if a.Outcome == pg.Appended {
		base, micros := a.Base, a.CreatedAt.UnixMicro()
		for _, b := range p.builders {
			w.add(base, micros, b.IDs())
			base += int64(b.Len())
		}
	}
	w.used = time.Now()
	f.l.bytes.Add(int64(w.bytes() - before))
}

// sendAlone flushes one partition apart from the lane, waiting for its lock, so that nobody else does.
func (f *flight) sendAlone(p *part) {
	l := f.l
	l.setAside(p.partition)
	l.b.metrics.soloFlushes.Inc()
	l.b.spawn(func() {
		l.b.solo <- struct{}{}
		defer func() { <-l.b.solo }()
		alone := newFlight(l)
		alone.solo = true
		alone.parts = []*part{p}
		alone.assemble()
		l.deliver(alone)
	})
}

// failed handles a flush that wrote nothing, or of which nobody knows.
func (f *flight) failed(err error) {
	l := f.l
	switch {
	case errors.Is(err, pg.ErrUnknownOutcome):
		f.claimsLost()
	case errors.Is(err, pg.ErrFloor):
	case pg.Classify(err) == pg.Contended:
		l.retry(f, err)
		return
	case pg.Classify(err) == pg.Split && len(f.parts)+len(f.acks)+len(f.claims) > 1:
		f.sendApart()
		return
	}
	l.b.failures.Add(1)
	if failed := l.failing.Swap(true); !failed || len(f.parts)+len(f.acks) > 0 { // claims are tried again and again
		l.b.log.Error("flush failed", zap.String("code", "WG0423"), zap.Error(err), zap.Int("partitions", len(f.parts)), zap.Int("acks", len(f.acks)),
			zap.Int("claims", len(f.claims)))
	}
	for _, p := range f.parts {
		for _, g := range p.groups {
			g.fail()
		}
	}
	if f.solo {
		l.land(f.parts[0].partition, nil, nil)
	}
	for _, j := range f.acks {
		j.answer(nil, err)
	}
	for _, j := range f.claims {
		l.b.watch.claimFailed(j, err)
	}
}

// sendApart finds the item that the database refuses by sending each by itself; the others are stored.
func (f *flight) sendApart() {
	one := func() *flight { return &flight{l: f.l, apart: true} }
	for _, p := range f.parts {
		single := one()
		single.solo = f.solo
		single.parts = []*part{p}
		single.assemble()
		f.l.deliver(single)
	}
	for _, j := range f.acks {
		single := one()
		single.acks = []*ackJob{j}
		single.assemble()
		f.l.deliver(single)
	}
	for _, j := range f.claims {
		single := one()
		single.claims = []*claimJob{j}
		single.assemble()
		f.l.deliver(single)
	}
}

const (
	returnTries = 6
	returnPause = time.Second
)

// claimsLost ends the leases that the flush may have taken although nobody will be told of them.
func (f *flight) claimsLost() {
	var leased []pg.Claim
	for _, c := range f.flush.Claims {
		if !c.AutoAck {
			leased = append(leased, c)
		}
	}
	if len(leased) == 0 {
		return
	}
	b := f.l.b
	b.spawn(func() {
		for try := 1; ; try++ {
			ctx, cancel := context.WithTimeout(b.ctx, dbTimeout)
			err := b.db.ReturnClaims(ctx, leased)
			cancel()
			if err == nil {
				return
			}
			if try == returnTries || b.ctx.Err() != nil {
				b.log.Warn("leases of a lost flush not given back, they will expire", zap.String("code", "WG0424"), zap.Error(err))
				return
			}
			select {
			case <-time.After(returnPause):
			case <-b.ctx.Done():
			}
		}
	})
}
