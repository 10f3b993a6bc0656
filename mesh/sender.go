package mesh

import (
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
)

// sendInterval is the pause to one peer after a frame of wakes or invalidations; the first after it leaves at once.
// Beacons, hints and leave frames, of which there are few, are followed by no pause.
const (
	sendInterval = 2 * time.Millisecond
	// sendShare is the pause for each peer that there is, in the long run: however many they are, all of them together are
	// sent at most 800 frames of wakes or invalidations a second.
	sendShare = 1250 * time.Microsecond
	// sendBurst is how many frames a peer may be sent ahead of that.
	sendBurst = 8
)

// repeatAfter are the pauses after which the last frame to a peer on the way to which packets get lost is sent again,
// unless another one, which would show the loss, has followed it.
var repeatAfter = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond,
}

// lossyFor is how long packets are taken to get lost after an echo was missing.
const lossyFor = 30 * time.Second

// pace decides how long the frames to one peer have to be apart. It is pure and has one owner.
type pace struct{ due time.Time } // when the frames so far would have been sent at an even pace

// pause is how long to wait after a frame that is sent now, in a mesh of so many peers.
func (p *pace) pause(peers int, now time.Time) time.Duration {
	share := time.Duration(peers) * sendShare
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(share)
	return max(sendInterval, p.due.Sub(now)-sendBurst*share)
}

// sender is the way to one peer: a coalescing backlog and a goroutine that turns it into datagrams. Adding to it
// never blocks, whatever the peer or the network does.
type sender struct {
	self        uuid.UUID
	destination uint64
	deliver     func(to *memberlist.Node, frame []byte) error
	peers       func() int // how many there are
	meters      *meters
	tally       *tally
	log         *zap.Logger
	announcer   *announcer // nil without interest
	interest    exchangedInterest

	ready chan struct{} // one token: something waits
	stop  chan struct{}
	flush chan struct{} // closed to ask for what waits, without pauses, and then the end
	done  chan struct{}

	mu      sync.Mutex // guards the rest
	to      *memberlist.Node
	backlog *pending // nil when no version is in common
	number  Number
	lossy   time.Time // until then the way is taken to lose packets
	flushed bool
	stopped bool
}

// newSender opens a stream to a peer. Its first frame is a beacon, which tells the peer that the stream begins.
func newSender(self uuid.UUID, p *peer, deliver func(*memberlist.Node, []byte) error, meters *meters, log *zap.Logger, now time.Time) *sender {
	p.opened = max(p.opened+1, uint32(now.Unix()))
	s := &sender{
		self: self, destination: destinationMark(p.start), deliver: deliver, meters: meters, tally: &p.tally,
		log:   log.With(zap.String("peer", p.name)),
		ready: make(chan struct{}, 1), stop: make(chan struct{}), flush: make(chan struct{}), done: make(chan struct{}),
		number: firstNumber(p.opened),
	}
	s.describe(p)
	s.beacon(helloRound)
	return s
}

// describe takes over where the peer is and what it reads.
func (s *sender) describe(p *peer) {
	host, port := splitAddress(p.node.address)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = &memberlist.Node{Name: p.node.name, Addr: host, Port: port, PMax: p.node.protocol}
	switch {
	case p.version == 0:
		s.backlog = nil
	case s.backlog == nil:
		s.backlog = newPending(p.version)
	default:
		s.backlog.setVersion(p.version)
	}
}

// add runs fn on the backlog and wakes the goroutine. fn says how many things were dropped to make room: their
// numbers are left out, so that the peer notices.
func (s *sender) add(fn func(*pending) int) {
	s.mu.Lock()
	if s.backlog == nil {
		s.mu.Unlock()
		s.meters.drop(dropNoVersion)
		s.tally.noVersion.Add(1)
		return
	}
	dropped := fn(s.backlog)
	if dropped > 0 {
		s.skipNumber()
	}
	s.mu.Unlock()
	s.meters.dropped[dropBacklog].Add(float64(dropped))
	s.tally.backlog.Add(int64(dropped))
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *sender) wake(items []Wake) {
	s.add(func(p *pending) (dropped int) {
		for i := range items {
			if p.addWake(&items[i]) {
				dropped++
			}
		}
		return dropped
	})
}

func (s *sender) invalidate(items []Invalidation) {
	s.add(func(p *pending) (dropped int) {
		for _, item := range items {
			if p.addInvalidation(item) {
				dropped++
			}
		}
		return dropped
	})
}

func (s *sender) beacon(round uint64) {
	s.add(func(p *pending) int { p.beacon = round; return 0 })
}

// echo answers a beacon. A round that is dropped for a newer one loses nothing that a gap would have to tell.
func (s *sender) echo(round uint64) {
	s.add(func(p *pending) int { p.addEcho(round); return 0 })
}

// announce sends our summary of interest.
func (s *sender) announce(current *announcement) {
	s.add(func(p *pending) int { p.summary = current; return 0 })
}

// holds tells the peer which summary of its interest we have, by generation.
func (s *sender) holds(generation uint64) {
	s.add(func(p *pending) int { p.holds = &generation; return 0 })
}

func (s *sender) leaderHint() {
	s.add(func(p *pending) int { p.hint = true; return 0 })
}

// leave asks for a leave frame, then for the end once the backlog is empty. The caller waits for done as long as it
// likes and then calls close.
func (s *sender) leave() {
	s.add(func(p *pending) int { p.leave = true; return 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.flushed {
		s.flushed = true
		close(s.flush)
	}
}

// close ends the goroutine without sending what waits.
func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		close(s.stop)
	}
}

// expectLoss says that an echo of this peer is missing.
func (s *sender) expectLoss(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lossy = now.Add(lossyFor)
}

// run sends until it is told to stop.
func (s *sender) run() {
	defer close(s.done)
	encoder, frame := newEncoder(), &Frame{}
	pause := time.NewTimer(0)
	defer pause.Stop()
	var pace pace
	last := &repeater{due: time.NewTimer(time.Hour)}
	defer last.due.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.flush:
			for s.send(encoder, frame) {
				select {
				case <-s.stop:
					return
				default:
				}
			}
			return
		case <-last.due.C:
			if s.again(encoder, &last.frame) {
				last.next()
			}
			continue
		case <-s.ready:
		}
		for s.send(encoder, frame) {
			if frame.Kind != KindWake && frame.Kind != KindInvalidation {
				continue
			}
			now := time.Now()
			if s.loses(now) {
				last.keep(frame)
			}
			pause.Reset(pace.pause(s.peers(), now))
			select {
			case <-s.stop:
				return
			case <-pause.C:
			case <-s.flush:
			}
		}
	}
}

func (s *sender) loses(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.lossy)
}

// send puts one frame on the wire and reports false when nothing waits.
func (s *sender) send(encoder *encoder, f *Frame) bool {
	s.mu.Lock()
	if s.backlog == nil || !s.backlog.next(f) {
		s.mu.Unlock()
		return false
	}
	s.put(encoder, f)
	return true
}

// again sends what a frame said once more, under a number of its own, unless the peer reads another version by now.
func (s *sender) again(encoder *encoder, f *Frame) bool {
	s.mu.Lock()
	if s.backlog == nil || s.backlog.version != f.Version {
		s.mu.Unlock()
		return false
	}
	s.put(encoder, f)
	return true
}

// put numbers a frame and hands it to the library. The caller holds the lock, which put gives back.
func (s *sender) put(encoder *encoder, f *Frame) {
	to := s.to
	if f.Version > 1 {
		f.Origin, f.Destination = s.self, s.destination
		if f.Kind != KindInterest {
			s.skipNumber()
			f.Number = s.number
		}
		if f.Kind == KindBeacon && !f.Echo && s.announcer != nil {
			f.Generation = s.announcer.current.Load().generation
		}
	}
	s.mu.Unlock()
	if err := s.deliver(to, encoder.Encode(f)); err != nil {
		// Its number is missing now, so the peer learns of the loss from the next frame that gets through.
		s.meters.drop(dropSend)
		s.tally.unsent.Add(1)
		s.log.Debug("mesh frame not sent", zap.Stringer("kind", f.Kind), zap.Error(err))
		return
	}
	s.meters.out[f.Version][f.Kind].Inc()
	s.tally.out[f.Kind].Add(1)
}

// repeater holds the last frame of wakes or invalidations that went to a peer on the way to which packets get lost.
type repeater struct {
	frame Frame
	due   *time.Timer
	step  int
}

// keep copies a frame, in place of the one before it: if that was lost, this one shows it.
func (r *repeater) keep(f *Frame) {
	wakes, invalidations := append(r.frame.Wakes[:0], f.Wakes...), append(r.frame.Invalidations[:0], f.Invalidations...)
	r.frame = *f
	r.frame.Wakes, r.frame.Invalidations = wakes, invalidations
	r.step = 0
	r.next()
}

// next sets the timer for the next repetition, if there is one.
func (r *repeater) next() {
	if r.step < len(repeatAfter) {
		r.due.Reset(repeatAfter[r.step])
		r.step++
	}
}

// skipNumber moves to the next number; a stream that runs out of them opens a new one. The caller holds the lock.
func (s *sender) skipNumber() {
	if s.number.count() == math.MaxUint32 {
		s.number = firstNumber(s.number.stream() + 1)
	}
	s.number++
}
