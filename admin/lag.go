package admin

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"waggle/pg"
)

// MeasureLag asks for the groups that are furthest behind, at most limit, and for the number of all groups. It is a
// method of *pg.DB.
type MeasureLag func(ctx context.Context, limit int) (lags []pg.GroupLag, groups int, err error)

const (
	// lagInterval is the least time between two passes over the database.
	lagInterval = 30 * time.Second
	// lagSeries bounds the groups that are exported.
	lagSeries = 2000
	// lagPatience is how long a scrape waits for a pass that it set off: in most clusters that is enough for the scrape
	// to show its result; where it is not, the next scrape does.
	lagPatience = 500 * time.Millisecond
	lagTimeout  = 20 * time.Second
)

var (
	lagLabels  = []string{"tenant", "queue", "group"}
	lagRecords = prometheus.NewDesc("waggle_admin_lag_records",
		"Records that a group has still to consume in a queue, leased ones among them. At most half a minute old.", lagLabels, nil)
	lagSeconds = prometheus.NewDesc("waggle_admin_lag_seconds",
		"Age of the oldest record that a group has still to consume in a queue, 0 when there is none.", lagLabels, nil)
	lagAge = prometheus.NewDesc("waggle_admin_lag_age_seconds",
		"How old the lag figures are.", nil, nil)
	lagTook = prometheus.NewDesc("waggle_admin_lag_pass_seconds",
		"How long the last pass over the database took that measured lag.", nil, nil)
	lagOmitted = prometheus.NewDesc("waggle_admin_lag_omitted_groups",
		"Groups without lag figures because there are more than are exported; they are the ones least behind.", nil, nil)
	lagFailures = prometheus.NewDesc("waggle_admin_lag_failures_total",
		"Passes that failed.", nil, nil)
)

// LagCollector exports the lag of every queue and group. A scrape that finds the figures older than 30 s sets off one
// pass over the database; scrapes in between show what is there. Nothing happens while nobody scrapes.
type LagCollector struct {
	measure MeasureLag
	logger  *zap.Logger
	now     func() time.Time
	passes  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	closed   bool
	running  chan struct{} // closed when the pass that runs now has ended; nil while none does
	stop     func()        // ends the pass that runs now
	begun    time.Time     // of the last pass, failed ones included
	figures  lagFigures
	failures float64
}

type lagFigures struct {
	taken   time.Time
	took    time.Duration
	lags    []pg.GroupLag
	omitted int
}

// NewLagCollector makes a collector; Close ends it.
func NewLagCollector(measure MeasureLag, logger *zap.Logger) *LagCollector {
	return &LagCollector{measure: measure, logger: logger.Named("lag"), now: time.Now, stop: func() {}}
}

// Close ends a pass that may be running and waits for it. Later scrapes show the last figures.
func (c *LagCollector) Close() {
	c.mu.Lock()
	c.closed = true
	c.stop()
	c.mu.Unlock()
	c.passes.Wait()
}

// Describe implements prometheus.Collector.
func (c *LagCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{lagRecords, lagSeconds, lagAge, lagTook, lagOmitted, lagFailures} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *LagCollector) Collect(metrics chan<- prometheus.Metric) {
	if pass := c.refresh(); pass != nil {
		patience := time.NewTimer(lagPatience)
		defer patience.Stop()
		select {
		case <-pass:
		case <-patience.C:
		}
	}
	c.mu.Lock()
	figures, failures := c.figures, c.failures
	c.mu.Unlock()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	metrics <- prometheus.MustNewConstMetric(lagFailures, prometheus.CounterValue, failures)
	if figures.taken.IsZero() {
		return
	}
	gauge(lagAge, c.now().Sub(figures.taken).Seconds())
	gauge(lagTook, figures.took.Seconds())
	gauge(lagOmitted, float64(figures.omitted))
	for _, lag := range figures.lags {
		tenant := lag.Tenant.String()
		gauge(lagRecords, float64(lag.Records), tenant, lag.Queue, lag.Group)
		gauge(lagSeconds, lag.Seconds, tenant, lag.Queue, lag.Group)
	}
}

// refresh starts a pass when one is due. It returns a channel that is closed when the pass under way has ended, or
// nil.
func (c *LagCollector) refresh() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil || c.closed || !c.begun.IsZero() && c.now().Sub(c.begun) < lagInterval {
		return c.running
	}
	begun, done := c.now(), make(chan struct{})
	ctx, stop := context.WithTimeout(context.Background(), lagTimeout)
	c.begun, c.running, c.stop = begun, done, stop
	c.passes.Go(func() {
		defer stop()
		c.pass(ctx, begun)
		close(done)
	})
	return done
}

func (c *LagCollector) pass(ctx context.Context, begun time.Time) {
	lags, groups, err := c.measure(ctx, lagSeries)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = nil
	switch {
	case err == nil:
		c.figures = lagFigures{taken: begun, took: c.now().Sub(begun), lags: lags, omitted: groups - len(lags)}
	case !c.closed:
		c.failures++
		c.logger.Warn("lag pass failed", zap.String("code", "WG0601"), zap.Error(err))
	}
}
