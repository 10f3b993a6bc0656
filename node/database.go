package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"waggle/pg"
	"waggle/pg/schema"
)

// passing tells whether a failure to use the database may end by itself.
func passing(err error) bool {
	var unfit *schema.UnfitError
	if errors.As(err, &unfit) {
		return false
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return true
	}
	switch refused.Code[:2] {
	case "28", "3D", "42": // authentication, no such database, rights
		return false
	default:
		return true
	}
}

// ExplainDatabase turns what the driver says into one line that says what to do.
func ExplainDatabase(err error) error {
	var refused *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &refused):
		switch refused.Code[:2] {
		case "28":
			return fmt.Errorf("the database refuses the login: %s; check user and password of --database-url", refused.Message)
		case "3D":
			return fmt.Errorf("%s; create it, or name another one in --database-url", refused.Message)
		case "42":
			return fmt.Errorf("the database refuses: %s; see the rights in the operations guide", refused.Message)
		}
		return fmt.Errorf("the database refuses: %s", refused.Message)
	case errors.As(err, &connect):
		host := connect.Config.Host
		cause := strings.ReplaceAll(lastCause(connect).Error(), "\n", " ")
		return fmt.Errorf("the database at %s:%d cannot be reached: %s; start it, or check --database-url",
			host, connect.Config.Port, cause)
	default:
		return err
	}
}

// lastCause is the innermost of a chain of errors.
func lastCause(err error) error {
	for {
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			all := e.Unwrap()
			if len(all) == 0 {
				return err
			}
			err = all[len(all)-1]
		default:
			return err
		}
	}
}

// poolCollector exports how the connection pools are used.
type poolCollector struct {
	db      *pg.DB
	conns   *prometheus.Desc
	limit   *prometheus.Desc
	waits   *prometheus.Desc
	seconds *prometheus.Desc
}

func newPoolCollector(db *pg.DB) *poolCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("waggle_pg_pool_"+name, help, append([]string{"pool"}, labels...), nil)
	}
	return &poolCollector{
		db:      db,
		conns:   desc("connections", "Connections by state.", "state"),
		limit:   desc("connections_limit", "Most connections that the pool opens."),
		waits:   desc("acquires_waited_total", "Times that a connection was not free at once."),
		seconds: desc("acquire_seconds_total", "Time spent on getting connections."),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.conns
	out <- c.limit
	out <- c.waits
	out <- c.seconds
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(out chan<- prometheus.Metric) {
	general, flushes := c.db.Stats()
	for name, s := range map[string]*pgxpool.Stat{"general": general, "flush": flushes} {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
		}
		gauge(c.conns, float64(s.AcquiredConns()), "used")
		gauge(c.conns, float64(s.IdleConns()), "idle")
		gauge(c.limit, float64(s.MaxConns()))
		out <- prometheus.MustNewConstMetric(c.waits, prometheus.CounterValue, float64(s.EmptyAcquireCount()), name)
		out <- prometheus.MustNewConstMetric(c.seconds, prometheus.CounterValue, s.AcquireDuration().Seconds(), name)
	}
}

func newBuildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waggle_build_info", Help: "1, with the version of this build.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
}
