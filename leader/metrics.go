package leader

import (
	"github.com/prometheus/client_golang/prometheus"
)

const (
	outcomeWon      = "won"
	outcomeHeld     = "held"
	outcomeStranger = "stranger"
	outcomeError    = "error"
	outcomeUnfit    = "unfit"
)

type metrics struct {
	transitions *prometheus.CounterVec
	campaigns   *prometheus.CounterVec
	heartbeat   prometheus.Histogram
}

// newMetrics registers what the elector counts. All label values exist from the start.
func newMetrics(registerer prometheus.Registerer, e *Elector) (*metrics, error) {
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waggle_leader_transitions_total",
			Help: "Reigns of this broker that began (reason won) or ended (any other reason).",
		}, []string{"reason"}),
		campaigns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waggle_leader_campaigns_total",
			Help: "Tries for the leader lock, by outcome; stranger means held by a session that does not lead.",
		}, []string{"outcome"}),
		heartbeat: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "waggle_leader_heartbeat_seconds",
			Help:    "Time the leader's heartbeat took, answered or not.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	for _, reason := range reasons {
		m.transitions.WithLabelValues(string(reason))
	}
	for _, outcome := range []string{outcomeWon, outcomeHeld, outcomeStranger, outcomeError, outcomeUnfit} {
		m.campaigns.WithLabelValues(outcome)
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	return m, registerAll(
		registerer, m.transitions, m.campaigns, m.heartbeat,
		gauge("waggle_leader_is_leader", "1 while this broker leads, else 0.", func() float64 {
			if e.Status().IsLeader {
				return 1
			}
			return 0
		}),
		gauge("waggle_leader_epoch", "Epoch of this broker's reign, 0 while it does not lead.", func() float64 {
			return float64(e.Status().Epoch)
		}),
		gauge("waggle_leader_without_leader_seconds",
			"Seconds since this broker last knew of a leader; 0 on one that leads or never leads.",
			func() float64 { return e.withoutLeader().Seconds() }),
	)
}

// registerAll registers with a registerer that may be nil.
func registerAll(registerer prometheus.Registerer, collectors ...prometheus.Collector) error {
	if registerer == nil {
		return nil
	}
	for _, collector := range collectors {
		if err := registerer.Register(collector); err != nil {
			return err
		}
	}
	return nil
}
