package mesh

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Reasons why something was dropped, as label values of waggle_mesh_dropped_total.
const (
	dropInbox     = "inbox_full"      // received, before it was decoded
	dropHandler   = "handler_full"    // decoded, before the handler took it
	dropLibrary   = "library_full"    // received, inside the library
	dropMalformed = "malformed"       // not a frame
	dropVersion   = "unknown_version" // a frame that this broker does not read
	dropKind      = "unknown_kind"    // a kind that this build does not know
	dropReplayed  = "replayed"        // a frame that has come before
	dropStale     = "stale"           // a frame so old that nobody can tell whether it has come before
	dropBacklog   = "backlog_full"    // to be sent, the oldest queue that waited for a peer
	dropOversize  = "oversize"        // received, longer than a frame; to be sent, a name beyond its limit
	dropSend      = "send_failed"     // the socket refused it
	dropNoVersion = "no_version"      // to be sent to a peer that has no frame version in common
)

var dropReasons = []string{
	dropInbox, dropHandler, dropLibrary, dropMalformed, dropVersion, dropKind, dropReplayed, dropStale, dropBacklog,
	dropOversize, dropSend, dropNoVersion,
}

// meters are the metrics of a mesh. All label combinations exist from the start, so that an absent line is never
// mistaken for a zero.
type meters struct {
	in, out       [FrameMax + 1][KindInterest + 1]prometheus.Counter // by version and kind
	dropped       map[string]prometheus.Counter
	gaps          prometheus.Counter
	withheld      prometheus.Counter
	fanouts       prometheus.Counter
	peers         map[State]prometheus.Gauge
	unheard       prometheus.Gauge
	beacon        prometheus.Histogram
	undecryptable prometheus.Counter
	wrongLabel    prometheus.Counter
}

func newMeters(registerer prometheus.Registerer) (*meters, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "waggle", Subsystem: "mesh", Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Namespace: "waggle", Subsystem: "mesh", Name: name, Help: help}
		return prometheus.NewCounterVec(opts, labels)
	}
	in := counters("frames_in_total", "Frames received, by kind and frame version.", "kind", "version")
	out := counters("frames_out_total", "Frames sent, by kind and frame version.", "kind", "version")
	dropped := counters("dropped_total", "Frames or items that were dropped, by reason.", "reason")
	peers := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "waggle", Subsystem: "mesh", Name: "peers", Help: "Other brokers in the view, by state.",
	}, []string{"state"})
	m := &meters{
		dropped:  make(map[string]prometheus.Counter),
		gaps:     counter("gaps_total", "Losses noticed in the numbers of received frames."),
		withheld: counter("wakes_withheld_total", "Wakes that were not sent to a peer, because it is not interested in the queue."),
		fanouts:  counter("fanouts_total", "Items received without a tenant, meant for every tenant."),
		peers:    make(map[State]prometheus.Gauge),
		unheard: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "waggle", Subsystem: "mesh", Name: "unheard",
			Help: "Live brokers in the registry that speak v2 and were not heard for 5 seconds.",
		}),
		beacon: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "waggle", Subsystem: "mesh", Name: "beacon_seconds",
			Help:    "Time from sending a beacon to the echo of the last live peer.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		undecryptable: counter("undecryptable_total", "Packets and streams that no key of the ring decrypts."),
		wrongLabel:    counter("wrong_label_total", "Packets and streams of another cluster, or of none."),
	}
	for version := uint8(FrameMin); version <= FrameMax; version++ {
		for _, kind := range kinds {
			m.in[version][kind] = in.WithLabelValues(kind.String(), fmt.Sprint(version))
			m.out[version][kind] = out.WithLabelValues(kind.String(), fmt.Sprint(version))
		}
	}
	for _, reason := range dropReasons {
		m.dropped[reason] = dropped.WithLabelValues(reason)
	}
	for _, state := range states {
		m.peers[state] = peers.WithLabelValues(string(state))
	}
	for _, c := range []prometheus.Collector{
		in, out, dropped, m.gaps, m.withheld, m.fanouts, peers, m.unheard, m.beacon, m.undecryptable, m.wrongLabel,
	} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register mesh metrics: %w", err)
		}
	}
	return m, nil
}

func (m *meters) drop(reason string) { m.dropped[reason].Inc() }

// Counts are what a mesh has done since it was made.
type Counts struct {
	// Sent and Received are frames.
	Sent     int64
	Received int64
	// Dropped are frames or items, for any of the reasons of waggle_mesh_dropped_total.
	Dropped int64
	// Undecryptable are packets and streams that no key of the ring decrypts, WrongLabel those of another cluster or of none.
	Undecryptable int64
	WrongLabel    int64
}

// Counts reads the counters of the mesh.
func (m *Mesh) Counts() Counts {
	c := Counts{Undecryptable: total(m.meters.undecryptable), WrongLabel: total(m.meters.wrongLabel)}
	for version := uint8(FrameMin); version <= FrameMax; version++ {
		for _, kind := range kinds {
			c.Received += total(m.meters.in[version][kind])
			c.Sent += total(m.meters.out[version][kind])
		}
	}
	for _, counter := range m.meters.dropped {
		c.Dropped += total(counter)
	}
	return c
}

func total(counter prometheus.Counter) int64 {
	var value dto.Metric
	if counter.Write(&value) != nil { // a counter with a fixed name and labels always can be
		return 0
	}
	return int64(value.GetCounter().GetValue())
}
