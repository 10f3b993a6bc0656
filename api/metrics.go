package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waggle/api/auth"
)

// metrics of the HTTP side. Labels take their values from the route table, a fixed set of methods and our own status
// codes: what a client sends never makes a new series.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waggle_http_requests_total",
			Help: "Requests answered, by route pattern, method and status. 499 is a client that left before its answer.",
		}, []string{"route", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "waggle_http_request_duration_seconds",
			Help:    "Time from the request's headers to the end of its answer, by route pattern. Pops include their wait.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waggle_http_requests_in_flight",
			Help: "Requests being answered now, parked pops among them.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waggle_http_refused_total",
			Help: "Requests refused because of who sent them, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range auth.Reasons() {
		m.refused.WithLabelValues(reason)
	}
	return m, errors.Join(registerer.Register(m.requests), registerer.Register(m.seconds), registerer.Register(m.inFlight),
		registerer.Register(m.refused))
}

func (m *metrics) observe(pattern, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodHead, http.MethodPut, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(pattern, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(pattern).Observe(took.Seconds())
}
