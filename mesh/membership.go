package mesh

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
)

// stateInterval is how often states are looked at when nothing else happens.
const stateInterval = 250 * time.Millisecond

// routes is where frames go and come from, as a snapshot that never changes.
type routes struct {
	byStart map[uuid.UUID]route
	senders []*sender
	beacon  time.Duration // the interval of beacons
}

type route struct {
	peer   *peer
	sender *sender // nil for a peer that is sent nothing any more
}

// registryRows is one reading of the registry.
type registryRows struct {
	rows  []RegistryMember
	asked time.Time
}

// membership owns the table of peers: it takes what the library, the frames and the registry say about them, starts
// and ends their senders, sends beacons and publishes the view.
type membership struct {
	m       *Mesh
	table   *table
	beacons beacons
}

// run works until ctx ends, then ends all senders.
func (s *membership) run(ctx context.Context) {
	defer s.closeSenders()
	tick := time.NewTicker(stateInterval)
	defer tick.Stop()
	beacon := time.NewTimer(beaconInterval)
	defer beacon.Stop()
	for {
		select {
		case <-ctx.Done():
			s.publish()
			return
		case e := <-s.m.echoes:
			if way, known := s.m.routes.Load().byStart[e.from]; known {
				if rtt, waited := s.beacons.rtt(e); waited {
					way.peer.tally.rtt.Store(int64(rtt))
				}
			}
			if took, done := s.beacons.heard(e); done {
				s.m.meters.beacon.Observe(took.Seconds())
			}
			continue
		case <-beacon.C:
			s.sendBeacons(time.Now())
			beacon.Reset(beaconEvery(s.table.listed()))
			continue
		case <-s.m.roster.changed:
			s.applyRoster(time.Now())
		case start := <-s.m.leaves:
			if change := s.table.leftFrame(start, time.Now()); change != nil {
				s.apply(*change)
			}
		case read := <-s.m.rows:
			s.applyAll(s.table.registry(read.rows, read.asked, time.Now()))
		case <-s.m.selfChanged:
		case now := <-tick.C:
			s.applyAll(s.table.tick(now, beaconEvery(s.table.listed())))
			unheard := s.table.unheard(s.m.cfg.StartID, now)
			s.m.meters.unheard.Set(float64(len(unheard)))
			s.m.unheard.Store(&unheard)
		}
		s.publish()
	}
}

func (s *membership) applyRoster(now time.Time) {
	for name, c := range s.m.roster.take() {
		var change *transition
		if c.present {
			change = s.table.joined(c.node, c.joined, now)
		} else {
			if c.joined {
				// It came and went between two looks.
				s.table.joined(c.node, true, now)
			}
			change = s.table.gone(name, now)
		}
		switch p := s.table.peers[name]; {
		case change != nil:
			s.apply(*change)
		case p != nil && p.sender != nil:
			p.sender.describe(p)
		}
	}
}

func (s *membership) applyAll(changes []transition) {
	for _, change := range changes {
		s.apply(change)
	}
}

// apply acts on a peer's change of state.
func (s *membership) apply(change transition) {
	p, m := change.peer, s.m
	fields := []zap.Field{
		zap.String("peer", p.name), zap.Stringer("start", p.start), zap.String("address", p.node.address),
		zap.String("state", string(p.state)), zap.String("was", string(change.from)),
	}
	if p.state.listed() && p.sender == nil {
		s.open(p)
		m.log.Info("mesh peer joined", append(fields, zap.String("build", p.meta.Build), zap.Uint8("frames", p.version))...)
	} else if p.state != change.from {
		m.log.Info("mesh peer changed", fields...)
	}
	if change.from == "" {
		m.repair(RepairNewPeer)
	} else if change.rejoin {
		m.repair(RepairRejoin)
	}
	if p.state != StateAlive {
		for _, took := range s.beacons.lost(p.start) {
			m.meters.beacon.Observe(took.Seconds())
		}
	}
	if !p.state.listed() && p.sender != nil {
		p.sender.close()
		p.sender = nil
	}
	if !p.goneSince.IsZero() {
		// The registry says whether it left or died.
		m.Join()
	}
}

// open starts the sender of a peer.
func (s *membership) open(p *peer) {
	// Streams are told apart by when they were opened: a clock that is set back must not make a new one look old.
	steady := s.m.base.Add(time.Since(s.m.base))
	p.sender = newSender(s.m.cfg.StartID, p, s.m.sendTo, s.m.meters, s.m.log, steady)
	p.sender.announcer = s.m.announcer
	p.sender.peers = func() int { return len(s.m.routes.Load().senders) }
	s.m.running.Go(p.sender.run)
}

// closeSenders ends every sender and waits for none: they are counted among what the mesh waits for.
func (s *membership) closeSenders() {
	for _, p := range s.table.peers {
		if p.sender != nil {
			p.sender.close()
		}
	}
}

// sendBeacons opens a round. Suspect peers are sent one too, so that they can answer, but are not waited for.
func (s *membership) sendBeacons(now time.Time) {
	var to []*sender
	var waited []uuid.UUID
	for _, p := range s.table.peers {
		if p.sender == nil || p.version < 2 {
			continue
		}
		to = append(to, p.sender)
		if p.state == StateAlive {
			waited = append(waited, p.start)
		}
	}
	for _, start := range s.beacons.silent() {
		if way := s.m.routes.Load().byStart[start]; way.sender != nil {
			way.sender.expectLoss(now)
		}
	}
	number, overdue := s.beacons.start(now, waited)
	for _, took := range overdue {
		s.m.meters.beacon.Observe(took.Seconds())
	}
	for _, sender := range to {
		sender.beacon(number)
	}
}

// publish replaces the snapshots that everybody else reads.
func (s *membership) publish() {
	m := s.m
	next := &routes{byStart: make(map[uuid.UUID]route, len(s.table.peers)), beacon: beaconEvery(s.table.listed())}
	count := make(map[State]int)
	for _, p := range s.table.peers {
		count[p.state]++
		next.byStart[p.start] = route{peer: p, sender: p.sender}
		if p.sender != nil {
			next.senders = append(next.senders, p.sender)
		}
	}
	for state, gauge := range m.meters.peers {
		gauge.Set(float64(count[state]))
	}
	m.routes.Store(next)
	m.view.Store(s.table.view(m.self()))
}
