package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/broker/segment"
	"waggle/pg"
)

// handedOut is what an answer holds of the broker until its client has taken it.
type handedOut struct {
	b     *Broker
	bytes int64
	parts []heldPart
	taken atomic.Bool
}

// Release says that the answer has been written or will not be: its bytes make room for other pops. It may be called
// more than once.
func (a *PopAnswer) Release() {
	if h := a.handed; h != nil && h.taken.CompareAndSwap(false, true) {
		h.b.watch.answered(h.bytes)
	}
}

// answer turns what was claimed into messages: from memory where it is there, else from the claim's own rows. It is
// nil when retention had emptied everything that was claimed.
func (b *Broker) answer(ctx context.Context, outcome popOutcome) (*PopAnswer, error) {
	job := outcome.job
	req := job.call.req
	out := &PopAnswer{
		Group: req.Group, Conflation: job.newestOnly, ConflationConflict: req.conflicts(job.newestOnly), Autopilot: job.piloted,
	}
	if job.leased {
		out.Lease = job.claims[0].Lease
	}
	var held, closed []heldPart
	var refusal *SealedError
	size := int64(0)
	for i := range outcome.claims {
		c := &outcome.claims[i]
		if c.Outcome != pg.Claimed {
			continue
		}
		p := job.entries[i].partition
		segments, err := b.segmentsOf(ctx, p, c)
		if err != nil {
			if err = b.unreadable(job.queue, err); !errors.As(err, &refusal) || !job.leased {
				return nil, err
			}
			closed = append(closed, job.holds(i, c))
			continue
		}
		part := PopPart{Queue: job.queue.name, Partition: p.name, PartitionID: p.wire, Attempt: c.Attempt}
		part.Messages = make([]Message, 0, c.Last-c.First+1)
		hold := job.holds(i, c)
		for _, s := range segments {
			if err := part.take(s, c, &hold, p.id); err != nil {
				return nil, err
			}
		}
		held = append(held, hold)
		b.touched.add(p.id)
		if len(part.Messages) > 0 {
			out.Parts = append(out.Parts, part)
			size += part.size()
		}
	}
	if len(out.Parts) == 0 && refusal != nil {
		return nil, refusal
	}
	if len(closed) > 0 { // what can be read does not wait for what cannot
		b.giveBack(out.Lease, closed)
	}
	if len(out.Parts) == 0 {
		b.skipEmptied(ctx, held, out.Lease, !job.leased)
		return nil, nil
	}
	switch {
	case req.AutoAck && job.leased:
		if size = out.commit(b, held); len(out.Parts) == 0 {
			return nil, errNotCommitted
		}
	case !req.AutoAck:
		b.leases.add(out.Lease, held)
	}
	job.queue.activity.popped(out.Parts, b.lanes[0].micros())
	out.handed = &handedOut{b: b, bytes: size, parts: held}
	b.watch.took(size)
	return out, nil
}

// holds is what the job's lease holds of its i-th entry.
func (j *claimJob) holds(i int, c *pg.Claiming) heldPart {
	return heldPart{
		partition: j.entries[i].partition, queue: j.queue, group: j.set.key.group, groupName: j.set.name,
		conflates: j.newestOnly, cursor: c.Cursor, first: c.First, last: c.Last, low: c.First - 1,
	}
}

func (part *PopPart) size() int64 {
	n := int64(0)
	for i := range part.Messages {
		n += int64(len(part.Messages[i].Payload))
	}
	return n
}

// take adds the claimed records of one segment.
func (part *PopPart) take(s *tailSegment, c *pg.Claiming, hold *heldPart, partition int64) error {
	for at := max(s.base, c.First); at < s.end() && at <= c.Last; at++ {
		i := int(at - s.base)
		m, err := messageAt(s.segment, i, s.createdAt, at, partition)
		if err != nil {
			return err
		}
		part.Messages = append(part.Messages, m)
		if at <= c.Repeated {
			part.Repeated++
		}
		for int64(len(hold.ids)/segment.HashSize) < at-c.First {
			// Records that retention took away between two that it left have nothing to resolve.
			hold.ids = append(hold.ids, make([]byte, segment.HashSize)...)
		}
		hold.ids = append(hold.ids, s.ids[i*segment.HashSize:(i+1)*segment.HashSize]...)
	}
	return nil
}

// skipEmptied moves past records whose bodies retention took between the claim and the read.
func (b *Broker) skipEmptied(ctx context.Context, held []heldPart, lease uuid.UUID, autoAck bool) {
	if autoAck {
		return
	}
	for _, h := range held {
		err := b.db.AckSet(ctx, h.queue.id, h.partition.id, h.groupName, func(tx *pg.AckTx) error {
			if !tx.Cursor.Live || tx.Cursor.Lease != lease {
				return nil
			}
			return tx.Write(h.last, true, tx.Cursor.Retry)
		})
		if err != nil {
			b.log.Warn("emptied records not skipped, their lease will expire", zap.String("code", "WG0408"), zap.Error(err))
		}
		b.leases.end(lease, h.cursor)
		b.watch.released(h.queue, h.partition, h.group, h.last, true)
	}
}

// segmentsOf returns the segments of a claim, decoded, in order; those that retention emptied are left out.
func (b *Broker) segmentsOf(ctx context.Context, p *partition, c *pg.Claiming) ([]*tailSegment, error) {
	out := make([]*tailSegment, len(c.Segments))
	var absent []pg.Place
	var absentAt []int
	for i := range c.Segments {
		s := &c.Segments[i]
		if s.Body == nil {
			if cached, ok := b.tail.get(p.id, s.Base, s.CreatedAt); ok {
				out[i] = cached
				continue
			}
			absent, absentAt = append(absent, pg.Place{Partition: p.id, Base: s.Base}), append(absentAt, i)
			continue
		}
		decoded, err := b.keep(p, s)
		if err != nil {
			return nil, err
		}
		out[i] = decoded
	}
	if len(absent) > 0 {
		read, err := b.db.ReadSegments(ctx, absent)
		if err != nil {
			return nil, err
		}
		for k, i := range absentAt {
			if read[k].Body == nil {
				continue
			}
			if out[i], err = b.keep(p, &read[k]); err != nil {
				return nil, err
			}
		}
	}
	kept := out[:0]
	for _, s := range out {
		if s != nil {
			kept = append(kept, s)
		}
	}
	return kept, nil
}

// keep decodes a committed segment and remembers it.
func (b *Broker) keep(p *partition, s *pg.Segment) (*tailSegment, error) {
	decoded, err := b.open(p.queue, p.id, s)
	if err != nil {
		return nil, fmt.Errorf("segment %d of partition %d: %w", s.Base, p.id, err)
	}
	if len(s.IDs) != s.Count*segment.HashSize {
		return nil, fmt.Errorf("segment %d of partition %d: %w: ids", s.Base, p.id, segment.ErrCorrupt)
	}
	b.tail.add(p.id, s.Base, s.CreatedAt, decoded, s.IDs)
	return &tailSegment{partition: p.id, base: s.Base, createdAt: s.CreatedAt, segment: decoded, ids: s.IDs}, nil
}

// GiveBack ends the answer's lease without charge: its client was gone before the first byte.
func (b *Broker) GiveBack(answer *PopAnswer) {
	answer.Release()
	if h := answer.handed; h != nil && answer.Lease != uuid.Nil {
		h.b.giveBack(answer.Lease, h.parts) // what it holds means something to the broker that gave it
	}
}

// giveBackClaims does the same for what was claimed for a call that has ended.
func (b *Broker) giveBackClaims(j *claimJob, claims []pg.Claiming) {
	if !j.leased {
		return
	}
	var parts []heldPart
	for i := range claims {
		if c := &claims[i]; c.Outcome == pg.Claimed {
			parts = append(parts, j.holds(i, c))
		}
	}
	b.giveBack(j.claims[0].Lease, parts)
}

func (b *Broker) giveBack(lease uuid.UUID, parts []heldPart) {
	b.metrics.givenBack.Inc()
	cursors := make([]int64, len(parts))
	for i, p := range parts {
		cursors[i] = p.cursor
	}
	b.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), dbTimeout)
		defer cancel()
		if err := b.db.GiveBack(ctx, lease, cursors); err != nil {
			b.log.Warn("lease not given back, it will expire", zap.String("code", "WG0409"), zap.Error(err))
			return
		}
		for _, p := range parts {
			b.leases.end(lease, p.cursor)
			b.watch.released(p.queue, p.partition, p.group, p.low, true)
			b.hints.Wake(p.queue.tenant, p.queue.name, p.partition.name)
		}
	})
}
