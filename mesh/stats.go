package mesh

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Count is a number of something, by the label value that the metrics have for it.
type Count struct {
	Name  string
	Value int64
}

// Stats are the metrics of a mesh, and what of them belongs to which peer, for people.
type Stats struct {
	// In and Out are frames by kind, Dropped what was dropped by reason.
	In, Out, Dropped []Count
	Gaps             int64
	Fanouts          int64
	// Withheld are wakes that were not sent for lack of interest.
	Withheld      int64
	Undecryptable int64
	WrongLabel    int64
	Beacon        BeaconStats
	// Unheard are the brokers of waggle_mesh_unheard by name.
	Unheard []string
	// Interest is this broker's summary; nil when it has none.
	Interest *InterestStats
	// Peers stand in the order of the view.
	Peers []PeerStats
}

// BeaconStats are the rounds of beacons so far. P50 and P99 are what waggle_mesh_beacon_seconds tells of them, 0
// without a round.
type BeaconStats struct {
	Count    int64
	P50, P99 time.Duration
}

// InterestStats is a summary of the queues whose wakes a broker wants.
type InterestStats struct {
	Generation uint64
	// Fill is the part of the bits that are set, from 0 to 1.
	Fill float64
	// Age is how long ago a peer's summary came; Held says that it still counts, so that other wakes are left out.
	Age  time.Duration
	Held bool
}

// PeerStats is what has been exchanged with one peer since it was first seen.
type PeerStats struct {
	Member
	// Version is that of the frames it is sent, 0 when none is in common.
	Version uint8
	// Heard is how long ago its last frame came. A peer that is sent v1 is never known to be heard: its frames do not
	// say whose they are.
	Heard   time.Duration
	IsHeard bool
	// Queued is how many queues wait to be told of.
	Queued           int
	In, Out, Dropped []Count
	Gaps             int64
	// RTT is how long its last echo took, 0 before the first.
	RTT time.Duration
	// Interest is nil while the peer is sent every wake because it has told no summary.
	Interest *InterestStats
}

// tally counts what is exchanged with one peer.
type tally struct {
	in, out                    [KindInterest + 1]atomic.Int64
	backlog, unsent, noVersion atomic.Int64 // dropped
	gaps                       atomic.Int64
	rtt                        atomic.Int64 // of the last echo, in nanoseconds
}

func byKind(count func(Kind) int64) []Count {
	counts := make([]Count, len(kinds))
	for i, kind := range kinds {
		counts[i] = Count{kind.String(), count(kind)}
	}
	return counts
}

// rtt is how long an echo took that an open round waits for.
func (b *beacons) rtt(e echo) (time.Duration, bool) {
	for _, r := range b.open {
		if _, waits := r.waiting[e.from]; waits && r.number == e.round {
			return e.at.Sub(r.sent), true
		}
	}
	return 0, false
}

// Stats reads the counters of the mesh.
func (m *Mesh) Stats() Stats {
	versions := func(counters *[FrameMax + 1][KindInterest + 1]prometheus.Counter) []Count {
		return byKind(func(kind Kind) (n int64) {
			for version := FrameMin; version <= FrameMax; version++ {
				n += total(counters[version][kind])
			}
			return n
		})
	}
	s := Stats{
		In: versions(&m.meters.in), Out: versions(&m.meters.out), Gaps: total(m.meters.gaps),
		Fanouts: total(m.meters.fanouts), Withheld: total(m.meters.withheld),
		Undecryptable: total(m.meters.undecryptable), WrongLabel: total(m.meters.wrongLabel),
		Beacon: beaconStats(m.meters.beacon), Unheard: *m.unheard.Load(),
	}
	for _, reason := range dropReasons {
		s.Dropped = append(s.Dropped, Count{reason, total(m.meters.dropped[reason])})
	}
	if m.announcer != nil {
		current := m.announcer.current.Load()
		s.Interest = &InterestStats{Generation: current.generation, Fill: interestFill(current.bits), Held: true}
	}
	now, to := time.Now(), m.routes.Load()
	for _, member := range m.View().Members {
		if !member.Self {
			s.Peers = append(s.Peers, m.peerStats(member, to, now))
		}
	}
	return s
}

func (m *Mesh) peerStats(member Member, to *routes, now time.Time) PeerStats {
	p := PeerStats{Member: member}
	p.Version, _ = VersionFor(m.frames, member.Frames)
	counted := &tally{}
	way, known := to.byStart[member.StartID]
	if known {
		counted = &way.peer.tally
		p.Heard, p.IsHeard = now.Sub(m.base.Add(time.Duration(way.peer.heard.Load()))), p.Version > 1
	}
	p.In = byKind(func(kind Kind) int64 { return counted.in[kind].Load() })
	p.Out = byKind(func(kind Kind) int64 { return counted.out[kind].Load() })
	p.Dropped = []Count{
		{dropBacklog, counted.backlog.Load()}, {dropSend, counted.unsent.Load()}, {dropNoVersion, counted.noVersion.Load()},
	}
	p.Gaps, p.RTT = counted.gaps.Load(), time.Duration(counted.rtt.Load())
	if way.sender == nil {
		return p
	}
	p.Queued = way.sender.queued()
	if theirs := way.sender.interest.theirs.Load(); theirs != nil {
		p.Interest = &InterestStats{
			Generation: theirs.generation, Fill: interestFill(theirs.bits), Age: now.Sub(theirs.received),
			Held: theirs.holds(now, to.beacon),
		}
	}
	return p
}

// queued is how many queues wait to be told of.
func (s *sender) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backlog == nil {
		return 0
	}
	return len(s.backlog.queues)
}

func beaconStats(rounds prometheus.Histogram) BeaconStats {
	var read dto.Metric
	if rounds.Write(&read) != nil { // a histogram with a fixed name and no labels always can be
		return BeaconStats{}
	}
	h := read.GetHistogram()
	return BeaconStats{Count: int64(h.GetSampleCount()), P50: quantile(h, .5), P99: quantile(h, .99)}
}

// quantile is what histogram_quantile of Prometheus makes of a histogram.
func quantile(h *dto.Histogram, part float64) time.Duration {
	rank := part * float64(h.GetSampleCount())
	below, low := 0.0, 0.0
	for _, b := range h.GetBucket() {
		count, high := float64(b.GetCumulativeCount()), b.GetUpperBound()
		switch {
		case math.IsInf(high, 1): // beyond the last bound nothing is known but that
			return seconds(low)
		case count >= rank && count > below:
			return seconds(low + (high-low)*(rank-below)/(count-below))
		}
		below, low = count, high
	}
	if h.GetSampleCount() == 0 {
		return 0
	}
	return seconds(low)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
