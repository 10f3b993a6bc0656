package mesh

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// The rhythm of announcements.
const (
	// The first summary after a rest goes out at once, the next one not before announceFirst has passed, and each one
	// after that not before twice as long as the one before, up to announceMost.
	announceFirst = 5 * time.Millisecond
	announceMost  = 100 * time.Millisecond
	// A summary that a peer does not confirm is sent again after announceAgain, then after twice, three times that, so that
	// it gets through a lossy network before Announced gives it up; after announceOften times each pause is twice the one
	// before, up to the interval of beacons.
	announceAgain = 5 * time.Millisecond
	announceOften = 8
	// announcePatience is how long Announced waits for peers that do not confirm.
	announcePatience = 100 * time.Millisecond
	// interestReview is how often interest is looked through for what has gone. What became interesting since the last
	// time stays for one more.
	interestReview = 15 * time.Second
	// interestBeacons is how many beacons a peer may leave unsaid that its summary still holds.
	interestBeacons = 3
)

// Interests says which wakes do something here, so that peers need not send the others.
type Interests interface {
	// Each calls yield with every queue whose wakes do something now.
	Each(yield func(tenant uuid.UUID, queue string))
	// Announced says that peers have been told of what became interesting a moment ago. What was pushed meanwhile may
	// not have been told here, so it is time for a look at the database.
	Announced()
}

// announcement is a summary of interest as it is sent. It never changes.
type announcement struct {
	generation uint64
	bits       []byte
}

// announcer keeps this broker's summary of interest and sees to it that every peer has it. A nil one is a broker that
// wants all wakes, and sends all.
type announcer struct {
	m         *Mesh
	interests Interests
	news      chan struct{} // one token: there is something to do
	current   atomic.Pointer[announcement]

	mu     sync.Mutex // guards the rest
	set    *interestSet
	recent *interestSet // what was said to be interesting since the last review
	gained bool         // set has more than current
	lost   bool         // current has more than set
}

func newAnnouncer(m *Mesh, interests Interests) *announcer {
	if interests == nil {
		return nil
	}
	a := &announcer{
		m: m, interests: interests, news: make(chan struct{}, 1), set: newInterestSet(), recent: newInterestSet(),
	}
	a.current.Store(&announcement{generation: 1, bits: a.set.encoded()})
	return a
}

// Interested says that wakes of a queue do something here from now on. It never blocks. Losing interest is not said: it
// is found out by Interests.Each, later.
func (m *Mesh) Interested(tenant uuid.UUID, queue string) {
	a := m.announcer
	if a == nil {
		return
	}
	hash := interestHash(tenant, queue)
	a.mu.Lock()
	a.recent.add(hash)
	gained := a.set.add(hash)
	a.gained = a.gained || gained
	a.mu.Unlock()
	if gained {
		offer(a.news, struct{}{})
	}
}

// review takes out of the summary what is not interesting any more.
func (a *announcer) review() {
	a.mu.Lock()
	next := a.recent
	a.recent = newInterestSet()
	empty := *a.set == interestSet{}
	a.mu.Unlock()
	if empty {
		return
	}
	a.interests.Each(func(tenant uuid.UUID, queue string) { next.add(interestHash(tenant, queue)) })
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, b := range a.recent {
		next[i] |= b
	}
	if *next != *a.set {
		a.set, a.lost = next, true
	}
}

// publish makes the next summary of what has changed. It reports whether there is more in it than before.
func (a *announcer) publish() (published, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.gained && !a.lost {
		return false, false
	}
	more = a.gained
	a.gained, a.lost = false, false
	a.current.Store(&announcement{generation: a.current.Load().generation + 1, bits: a.set.encoded()})
	return true, more
}

// run announces until ctx ends.
func (a *announcer) run(ctx context.Context) {
	if a == nil {
		return
	}
	review := time.NewTicker(interestReview)
	defer review.Stop()
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	var round announcing
	for {
		select {
		case <-ctx.Done():
			return
		case <-review.C:
			a.review()
		case <-a.news:
		case <-due.C:
		}
		due.Reset(a.step(&round, time.Now()))
	}
}

// announcing is how far the current summary has got.
type announcing struct {
	published time.Time
	pause     time.Duration // until the next one
	// owed: there is more in the summary than before, and Announced has not been called since all have it; late: it has
	// been called because that takes long.
	owed, late bool
}

// step does what is due and returns how long the next step may wait.
func (a *announcer) step(at *announcing, now time.Time) time.Duration {
	wait := time.Hour
	if rest := at.published.Add(at.pause).Sub(now); rest > 0 {
		wait = rest // for what may have changed since
	} else if published, more := a.publish(); published {
		at.pause = min(2*at.pause, announceMost)
		if -rest > at.pause || at.pause == 0 {
			at.pause = announceFirst
		}
		at.published, at.owed, at.late = now, at.owed || more, false
	}
	peers, behind := 0, 0
	current := a.current.Load()
	for _, s := range a.m.routes.Load().senders {
		if !s.interest.speaks.Load() {
			continue
		}
		peers++
		if next := s.interest.deliver(s, current, now); next > 0 {
			behind++
			wait = min(wait, next)
		}
	}
	switch {
	case !at.owed:
	case behind == 0:
		at.owed = false
		if peers > 0 { // whoever knows no summaries wakes us in any case
			a.interests.Announced()
		}
	case at.late:
	case now.Sub(at.published) >= announcePatience:
		at.late = true
		a.interests.Announced()
	default:
		wait = min(wait, at.published.Add(announcePatience).Sub(now))
	}
	return wait
}

// exchangedInterest is what this broker and a peer know of each other's interest.
type exchangedInterest struct {
	// speaks says that the peer has sent something that only a build sends which knows interest.
	speaks atomic.Bool
	// held is the generation of our summary that the peer says it has.
	held atomic.Uint64
	// theirs is the peer's summary, nil while there is none. The receiving loop replaces it.
	theirs atomic.Pointer[peerInterest]

	// The rest belongs to the announcer: what was sent last, how often, and when to try again.
	sent  uint64
	tries int
	next  time.Time
}

// peerInterest is a peer's summary. It never changes.
type peerInterest struct {
	announcement
	received time.Time
	// confirmed is when the peer last said that this is its summary; outdated says that it has said otherwise since.
	confirmed time.Time
	outdated  bool
}

// deliver sends the peer our summary if it is time to. It returns how long the next try may wait, 0 when the peer has it.
func (e *exchangedInterest) deliver(s *sender, current *announcement, now time.Time) time.Duration {
	if e.held.Load() >= current.generation {
		e.tries, e.next = 0, time.Time{}
		return 0
	}
	if e.sent != current.generation {
		e.sent, e.tries, e.next = current.generation, 0, time.Time{}
	}
	if !now.Before(e.next) {
		s.announce(current)
		e.tries++
		pause := announceAgain * time.Duration(min(e.tries, announceOften))
		e.next = now.Add(min(pause<<min(max(e.tries-announceOften, 0), 10), beaconInterval))
	}
	return e.next.Sub(now)
}

// wants tells whether a peer is to be sent wakes of a queue: unless it has said, a short while ago, that it is not
// interested.
func (e *exchangedInterest) wants(hash uint64, now time.Time, beacon time.Duration) bool {
	theirs := e.theirs.Load()
	return theirs == nil || !theirs.holds(now, beacon) || interested(theirs.bits, hash)
}

// holds tells whether the summary is known to be what the peer would say now.
func (i *peerInterest) holds(now time.Time, beacon time.Duration) bool {
	return !i.outdated && now.Sub(i.confirmed) <= interestBeacons*beacon
}

// beacon takes what a peer's beacon says of its summary and reports whether it must be asked for it.
func (e *exchangedInterest) beacon(generation uint64, now time.Time) (ask bool, have uint64) {
	theirs := e.theirs.Load()
	if theirs == nil {
		return true, 0
	}
	next := *theirs
	switch {
	case generation < theirs.generation:
		return false, 0 // it was overtaken by a summary
	case generation == theirs.generation:
		next.confirmed = now
	default:
		next.outdated = true
	}
	e.theirs.Store(&next)
	return next.outdated, next.generation
}

// summary takes a peer's summary and returns the generation that is held now.
func (e *exchangedInterest) summary(generation uint64, bits []byte, now time.Time) (have uint64) {
	if theirs := e.theirs.Load(); theirs != nil && generation < theirs.generation {
		return theirs.generation
	}
	e.theirs.Store(&peerInterest{announcement: announcement{generation, bits}, received: now, confirmed: now})
	return generation
}

// heard takes what a frame of a peer says of interest.
func (a *announcer) heard(f *Frame, s *sender, now time.Time) {
	if a == nil || f.Generation == 0 && f.Kind == KindBeacon {
		return
	}
	e := &s.interest
	known := e.speaks.Swap(true)
	switch {
	case f.Kind == KindBeacon:
		if ask, have := e.beacon(f.Generation, now); ask {
			s.holds(have)
		}
		if known {
			return
		}
	case f.Interest != nil:
		s.holds(e.summary(f.Generation, f.Interest, now))
	default:
		e.held.Store(f.Generation)
	}
	offer(a.news, struct{}{})
}

// wanted returns those of the wakes that a peer is to be sent.
func (a *announcer) wanted(s *sender, items []Wake, hashes []uint64, now time.Time, beacon time.Duration) []Wake {
	wants := func(i int) bool { return !items[i].TenantKnown || s.interest.wants(hashes[i], now, beacon) }
	count := 0
	for i := range items {
		if wants(i) {
			count++
		}
	}
	a.m.meters.withheld.Add(float64(len(items) - count))
	if count == len(items) {
		return items
	}
	kept := make([]Wake, 0, count)
	for i := range items {
		if len(kept) < count && wants(i) {
			kept = append(kept, items[i])
		}
	}
	return kept
}

// sendWake sends each peer those of the wakes that it is interested in.
func (a *announcer) sendWake(to *routes, items []Wake) {
	hashes := make([]uint64, len(items))
	for i := range items {
		hashes[i] = interestHash(items[i].Tenant, items[i].Queue)
	}
	now := time.Now()
	for _, s := range to.senders {
		if wanted := a.wanted(s, items, hashes, now, to.beacon); len(wanted) > 0 {
			s.wake(wanted)
		}
	}
}
