package mesh

import (
	"time"

	"github.com/google/uuid"
)

// How often a beacon goes to every v2 peer.
const (
	beaconInterval      = time.Second
	beaconIntervalLarge = 2 * time.Second
	largeMesh           = 20
	// openRounds is how many rounds are waited for at once: long enough that a peer that died is suspect by then, and
	// no longer waited for, so that only a lost echo makes a round overdue.
	openRounds = 3
	// helloRound is the round of the beacon that opens a stream; nobody waits for its echo.
	helloRound = 1
)

// beaconEvery is the interval for a mesh of this many brokers.
func beaconEvery(brokers int) time.Duration {
	if brokers >= largeMesh {
		return beaconIntervalLarge
	}
	return beaconInterval
}

// beacons measures how long a frame takes to reach everyone and back. It is pure and belongs to the membership loop.
type beacons struct {
	round uint64
	open  []*round
}

type round struct {
	number  uint64
	sent    time.Time
	waiting map[uuid.UUID]struct{}
	last    time.Time // of the echoes so far
}

// echo is an answer as the receiving loop saw it.
type echo struct {
	from  uuid.UUID
	round uint64
	at    time.Time
}

// start opens a round that waits for these peers and returns its number. A round that is still open when
// openRounds more have begun has lost an echo; its age is returned, so that the loss shows in the measurements.
func (b *beacons) start(now time.Time, peers []uuid.UUID) (number uint64, overdue []time.Duration) {
	b.round = max(b.round, helloRound) + 1
	if len(b.open) >= openRounds {
		overdue = append(overdue, now.Sub(b.open[0].sent))
		b.open = b.open[1:]
	}
	if len(peers) > 0 {
		r := &round{number: b.round, sent: now, waiting: make(map[uuid.UUID]struct{}, len(peers))}
		for _, peer := range peers {
			r.waiting[peer] = struct{}{}
		}
		b.open = append(b.open, r)
	}
	return b.round, overdue
}

// silent returns the peers whose echo the next start no longer waits for.
func (b *beacons) silent() (peers []uuid.UUID) {
	if len(b.open) < openRounds {
		return nil
	}
	for peer := range b.open[0].waiting {
		peers = append(peers, peer)
	}
	return peers
}

// heard notes an echo and returns how long its round took, if that was the last one it waited for.
func (b *beacons) heard(e echo) (time.Duration, bool) {
	for i, r := range b.open {
		if r.number != e.round {
			continue
		}
		if _, waited := r.waiting[e.from]; !waited {
			return 0, false
		}
		delete(r.waiting, e.from)
		if e.at.After(r.last) {
			r.last = e.at
		}
		if len(r.waiting) > 0 {
			return 0, false
		}
		b.open = append(b.open[:i], b.open[i+1:]...)
		return r.last.Sub(r.sent), true
	}
	return 0, false
}

// lost stops waiting for a peer that is not alive any more and returns how long the rounds took that it was the last
// one missing from.
func (b *beacons) lost(peer uuid.UUID) (done []time.Duration) {
	kept := b.open[:0]
	for _, r := range b.open {
		delete(r.waiting, peer)
		switch {
		case len(r.waiting) > 0:
			kept = append(kept, r)
		case !r.last.IsZero():
			done = append(done, r.last.Sub(r.sent))
		}
	}
	b.open = kept
	return done
}
