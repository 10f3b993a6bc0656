package mesh

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
)

// Bounds of the receiving side.
const (
	inboxSize     = 1024
	hintsSize     = 1024
	signalsSize   = 256
	repairEvery   = 100 * time.Millisecond
	streamsLimit  = 4096
	streamsIdle   = 60 * time.Second
	streamsReview = 15 * time.Second
)

// hint is something for the handler.
type hint struct {
	wakes         []Wake
	invalidations []Invalidation
	leader        bool
}

// stream is what is known of the numbers of one origin.
type stream struct {
	gaps gaps
	last time.Time
}

// receiver decodes frames and keeps count of their numbers. It runs on one goroutine.
type receiver struct {
	m       *Mesh
	streams map[uuid.UUID]*stream
	due     *time.Timer // the next look at numbers that are missing
	armed   bool
}

// receive decodes what the library delivers until ctx ends.
func (m *Mesh) receive(ctx context.Context) {
	r := &receiver{m: m, streams: make(map[uuid.UUID]*stream), due: time.NewTimer(time.Hour)}
	defer r.due.Stop()
	review := time.NewTicker(streamsReview)
	defer review.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case data := <-m.inbox:
			r.frame(data, time.Now())
		case now := <-r.due.C:
			r.armed = false
			r.expire(now)
		case now := <-review.C:
			for origin, s := range r.streams {
				if now.Sub(s.last) > streamsIdle {
					delete(r.streams, origin)
				}
			}
		}
	}
}

func (r *receiver) frame(data []byte, now time.Time) {
	m := r.m
	f, err := Decode(data, m.frames.Max)
	if err != nil {
		m.meters.drop(dropReason(err))
		m.log.Debug("mesh frame not read", zap.Error(err), zap.Int("bytes", len(data)))
		return
	}
	m.meters.in[f.Version][f.Kind].Inc()
	if f.Version == 1 {
		r.items(f)
		return
	}
	if f.Destination != destinationMark(m.cfg.StartID) {
		// Meant for a process that had this address before. What it says about queues is true all the same.
		r.items(f)
		return
	}
	way, known := m.routes.Load().byStart[f.Origin]
	if f.Kind != KindInterest { // which has no number: whoever recorded one does not make its origin heard
		if reason := r.observe(f, now); reason != "" {
			m.meters.drop(reason)
			return
		}
		if known {
			way.peer.heard.Store(int64(now.Sub(m.base)))
		}
	}
	if known {
		way.peer.tally.in[f.Kind].Add(1)
	}
	switch f.Kind {
	case KindWake, KindInvalidation:
		r.items(f)
	case KindLeaderHint:
		m.hand(hint{leader: true})
	case KindLeave:
		offer(m.leaves, f.Origin)
	case KindBeacon:
		if f.Echo {
			offer(m.echoes, echo{from: f.Origin, round: f.Round, at: now})
		} else if known && way.sender != nil {
			way.sender.echo(f.Round)
			m.announcer.heard(f, way.sender, now)
		}
	case KindInterest:
		if known && way.sender != nil {
			m.announcer.heard(f, way.sender, now)
		}
	}
}

// dropReason is the label for a frame that cannot be read.
func dropReason(err error) string {
	switch {
	case errors.Is(err, ErrUnknownVersion):
		return dropVersion
	case errors.Is(err, ErrUnknownKind):
		return dropKind
	}
	return dropMalformed
}

// offer sends without waiting: what is lost here comes again, or is found out by other means.
func offer[T any](to chan<- T, value T) {
	select {
	case to <- value:
	default:
	}
}

func (r *receiver) items(f *Frame) {
	if len(f.Wakes) == 0 && len(f.Invalidations) == 0 {
		return
	}
	for i := range f.Wakes {
		if !f.Wakes[i].TenantKnown {
			r.m.meters.fanouts.Inc()
		}
	}
	for i := range f.Invalidations {
		if !f.Invalidations[i].TenantKnown {
			r.m.meters.fanouts.Inc()
		}
	}
	r.m.hand(hint{wakes: f.Wakes, invalidations: f.Invalidations})
}

// observe notes the number of a frame and asks for a repair where one is missing for good. It returns the reason to
// drop the frame, if there is one.
func (r *receiver) observe(f *Frame, now time.Time) (drop string) {
	s, known := r.streams[f.Origin]
	if !known {
		if len(r.streams) >= streamsLimit {
			return ""
		}
		s = &stream{}
		r.streams[f.Origin] = s
	}
	saw := s.gaps.observe(f.Number, now)
	switch {
	case saw.replayed:
		return dropReplayed
	case saw.stale:
		return dropStale
	}
	s.last = now
	switch {
	case saw.opened && known:
		r.m.repair(RepairRejoin)
	case saw.opened:
		r.m.repair(RepairNewPeer)
	}
	if saw.gap {
		r.gap(f.Origin)
	}
	if due, ok := s.gaps.due(); ok && !r.armed {
		r.armed = true
		r.due.Reset(due.Sub(now))
	}
	return ""
}

func (r *receiver) gap(origin uuid.UUID) {
	r.m.meters.gaps.Inc()
	if way, known := r.m.routes.Load().byStart[origin]; known {
		way.peer.tally.gaps.Add(1)
	}
	r.m.repair(RepairGap)
}

// expire gives up numbers that are missing for too long and sets the timer for those that are not yet.
func (r *receiver) expire(now time.Time) {
	var next time.Time
	for origin, s := range r.streams {
		if s.gaps.expire(now) {
			r.gap(origin)
		}
		if due, ok := s.gaps.due(); ok && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if !next.IsZero() {
		r.armed = true
		r.due.Reset(next.Sub(now))
	}
}

// hand passes a hint to the handler's goroutine.
func (m *Mesh) hand(h hint) {
	select {
	case m.hints <- h:
	default:
		m.meters.drop(dropHandler)
		m.repair(RepairOverflow)
	}
}

// repair asks the handler's goroutine for a repair; one that is asked for already covers this one.
func (m *Mesh) repair(reason RepairReason) { offer(m.repairs, reason) }

// deliver calls the handler until ctx ends.
func (m *Mesh) deliver(ctx context.Context) {
	repairs := m.repairs
	rest := time.NewTimer(time.Hour)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case h := <-m.hints:
			m.call(h)
		case reason := <-repairs:
			m.log.Debug("mesh asks for a repair", zap.String("reason", string(reason)))
			m.cfg.Handler.Repair(reason)
			repairs = nil
			rest.Reset(repairEvery)
		case <-rest.C:
			repairs = m.repairs
		}
	}
}

func (m *Mesh) call(h hint) {
	if len(h.wakes) > 0 {
		m.cfg.Handler.Wake(h.wakes)
	}
	if len(h.invalidations) > 0 {
		m.cfg.Handler.Invalidate(h.invalidations)
	}
	if h.leader {
		m.cfg.Handler.LeaderHint()
	}
}
