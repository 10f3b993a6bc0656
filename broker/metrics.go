package broker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waggle/pg"
)

// metrics are the waggle_broker_ families. Label values are fixed: nothing here grows with queues or names.
type metrics struct {
	flushes      *prometheus.CounterVec
	flushItems   *prometheus.HistogramVec
	flushSeconds prometheus.Histogram
	appends      *prometheus.CounterVec
	soloFlushes  prometheus.Counter
	idProbes     prometheus.Counter
	pushes       *prometheus.CounterVec
	pops         *prometheus.CounterVec
	popMessages  prometheus.Counter
	skipped      prometheus.Counter
	pilots       *prometheus.CounterVec
	pilotWidth   prometheus.Histogram
	acks         *prometheus.CounterVec
	transactions *prometheus.CounterVec
	deadLetters  prometheus.Counter
	givenBack    prometheus.Counter
	rechecks     prometheus.Counter
	wakes        *prometheus.CounterVec
	buildSeconds prometheus.Histogram
	batching     *batching
}

func newMetrics(registerer prometheus.Registerer, b *Broker) *metrics {
	if registerer == nil {
		registerer = prometheus.NewRegistry()
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "waggle_broker_" + name, Help: help})
		registerer.MustRegister(c)
		return c
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waggle_broker_" + name, Help: help}, []string{label})
		for _, v := range values {
			c.WithLabelValues(v)
		}
		registerer.MustRegister(c)
		return c
	}
	seconds := func(name, help string) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waggle_broker_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		})
		registerer.MustRegister(h)
		return h
	}
	m := &metrics{
		flushes:      counters("flushes_total", "Flushes by how they ended.", "result", "committed", "failed"),
		flushSeconds: seconds("flush_seconds", "Time from sending a flush to its answer."),
		appends: counters("appends_total", "Partition appends within flushes by outcome.", "outcome",
			"appended", "skipped", "gone", "stale", "clash"),
		soloFlushes:  counter("solo_flushes_total", "Appends that waited alone for a partition held by another broker."),
		idProbes:     counter("id_probes_total", "Transaction ids that had to be looked up in the database."),
		pushes:       counters("push_messages_total", "Pushed messages by status.", "status", "queued", "duplicate", "failed"),
		pops:         counters("pops_total", "Pops by how they ended.", "result", "messages", "empty", "failed"),
		popMessages:  counter("pop_messages_total", "Messages handed out."),
		skipped:      counter("conflated_messages_total", "Messages that conflating groups were moved past by newer ones."),
		pilots:       counters("autopilot_choices_total", "Choices of the autopilot, applied (on) or not (shadow).", "mode", "on", "shadow"),
		transactions: counters("transactions_total", "Transactions by how they ended.", "result", "committed", "rolled_back", "failed"),
		acks:         counters("acks_total", "Acknowledged messages by result.", "result", "success", "failed"),
		deadLetters:  counter("dead_letters_total", "Messages dead-lettered."),
		givenBack:    counter("leases_given_back_total", "Leases ended because the client had gone before the first byte."),
		rechecks:     counter("rechecks_total", "Looks at the database for parked and empty pops."),
		wakes:        counters("wakes_total", "Hints of other brokers that concerned a ready set here.", "scope", "queue", "partition"),
		buildSeconds: seconds("ready_set_build_seconds",
			"Time to build a ready set from nothing."),
	}
	m.flushItems = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "waggle_broker_flush_items", Help: "What one flush carried, by kind.",
		Buckets: prometheus.ExponentialBuckets(1, 4, 9),
	}, []string{"kind"})
	registerer.MustRegister(m.flushItems)
	m.pilotWidth = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "waggle_broker_autopilot_partitions", Help: "Partitions that the autopilot chose for a claim.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 7),
	})
	registerer.MustRegister(m.pilotWidth)
	m.batching = newBatching(registerer)
	m.gauges(registerer, b)
	return m
}

func (m *metrics) gauges(registerer prometheus.Registerer, b *Broker) {
	gauge := func(name, help string, value func() float64) {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waggle_broker_" + name, Help: help}, value))
	}
	gauge("parked_pops", "Pops that wait.", func() float64 { _, _, n := b.watch.counts(); return float64(n) })
	gauge("ready_sets", "Ready sets held.", func() float64 { n, _, _ := b.watch.counts(); return float64(n) })
	gauge("ready_entries", "Partitions known to ready sets.", func() float64 { _, n, _ := b.watch.counts(); return float64(n) })
	gauge("cached_queues", "Queues remembered.", func() float64 { n, _ := b.catalog.counts(); return float64(n) })
	gauge("cached_partitions", "Partitions remembered.", func() float64 { _, n := b.catalog.counts(); return float64(n) })
	gauge("tail_cache_bytes", "Memory of decoded segments.", func() float64 { n, _, _, _ := b.tail.stats(); return float64(n) })
	gauge("tail_cache_segments", "Decoded segments held.", func() float64 { _, n, _, _ := b.tail.stats(); return float64(n) })
	gauge("lease_memory_bytes", "Memory of what was handed out.", func() float64 { n, _ := b.leases.stats(); return float64(n) })
	gauge("dedup_window_bytes", "Memory of transaction ids.", func() float64 {
		n := int64(0)
		for _, l := range b.lanes {
			n += l.bytes.Load()
		}
		return float64(n)
	})
	count := func(name, help string, value func() float64) {
		registerer.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "waggle_broker_" + name, Help: help}, value))
	}
	count("tail_cache_hits_total", "Claimed segments found in memory.", func() float64 { _, _, n, _ := b.tail.stats(); return float64(n) })
	count("tail_cache_misses_total", "Claimed segments that had to be read.", func() float64 { _, _, _, n := b.tail.stats(); return float64(n) })
}

func (m *metrics) flushing(f *flight) {
	carried := f.carried()
	for kind, n := range map[string]int{"partitions": len(f.parts), "records": carried[0], "claims": carried[1], "acks": carried[2]} {
		if n > 0 {
			m.flushItems.WithLabelValues(kind).Observe(float64(n))
		}
	}
	m.batching.inFlight.Add(1)
}

func (m *metrics) flushed(f *flight, took time.Duration, err error) {
	m.flushSeconds.Observe(took.Seconds())
	m.batching.flushed(f.carried(), took)
	if err != nil {
		m.flushes.WithLabelValues("failed").Inc()
		return
	}
	m.flushes.WithLabelValues("committed").Inc()
}

var outcomeNames = [...]string{pg.Appended: "appended", pg.Skipped: "skipped", pg.Gone: "gone", pg.Stale: "stale", pg.Clash: "clash"}

func (m *metrics) appended(outcome pg.AppendOutcome) {
	m.appends.WithLabelValues(outcomeNames[outcome]).Inc()
}

func (m *metrics) pushed(results []PushResult) {
	counts := map[PushStatus]int{}
	for i := range results {
		counts[results[i].Status]++
	}
	for status, n := range counts {
		m.pushes.WithLabelValues(string(status)).Add(float64(n))
	}
}

func (m *metrics) popped(answer *PopAnswer, err error) {
	switch {
	case err != nil:
		m.pops.WithLabelValues("failed").Inc()
	case answer.empty():
		m.pops.WithLabelValues("empty").Inc()
	default:
		m.pops.WithLabelValues("messages").Inc()
		for i := range answer.Parts {
			m.popMessages.Add(float64(len(answer.Parts[i].Messages)))
		}
	}
}

func (m *metrics) acked(results []AckResult) {
	for i := range results {
		if results[i].Success {
			m.acks.WithLabelValues("success").Inc()
		} else {
			m.acks.WithLabelValues("failed").Inc()
		}
	}
}
