package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prometheus/common/expfmt"
	"go.uber.org/zap"

	"waggle/api/jsonwire"
)

// engine is what this server calls itself where the contract lets a clone say so.
const engine = "waggle"

// health is GET /health: it asks the database.
func (s *Server) health(x *exchange) {
	ctx, cancel := context.WithTimeout(x.r.Context(), s.settings.HealthTimeout)
	defer cancel()
	status, state, database := http.StatusOK, "healthy", "connected"
	if err := s.parts.Health.Database(ctx); err != nil {
		s.logger.Warn("database does not answer", zap.String("code", "WG0502"), zap.Error(err))
		status, state, database = http.StatusServiceUnavailable, "unhealthy", "disconnected"
	}
	x.answer(status, func(dst []byte) []byte {
		dst = append(dst, `{"status":"`+state+`","database":"`+database+`","engine":"`+engine+`","version":`...)
		dst = jsonwire.AppendString(dst, s.settings.Version)
		return append(dst, '}')
	})
}

// live is GET /health/live: the process runs and answers.
func (s *Server) live(x *exchange) { x.json(http.StatusOK, []byte(`{"live":true}`)) }

// ready is GET /health/ready: whether a load balancer should send traffic here.
func (s *Server) ready(x *exchange) {
	readiness := s.parts.Health.Readiness()
	if readiness.Ready {
		x.json(http.StatusOK, []byte(`{"ready":true}`))
		return
	}
	x.answer(http.StatusServiceUnavailable, func(dst []byte) []byte {
		dst = append(dst, `{"ready":false`...)
		if readiness.Code != "" {
			dst = append(dst, `,"code":`...)
			dst = jsonwire.AppendString(dst, readiness.Code)
		}
		dst = append(dst, `,"reason":`...)
		dst = jsonwire.AppendString(dst, readiness.Reason)
		return append(dst, '}')
	})
}

// statusPage is GET /status.
func (s *Server) statusPage(x *exchange) {
	x.json(http.StatusOK, []byte(`{"status":"ok","engine":"`+engine+`"}`))
}

var contentMetrics = []string{"text/plain; version=0.0.4; charset=utf-8"}

// prometheus is GET /metrics/prometheus. It is written here and not by promhttp because the contract fixes the
// Content-Type, to which promhttp adds a parameter. A collector that fails costs its own families only.
func (s *Server) prometheus(x *exchange) {
	families, err := s.parts.Gatherer.Gather()
	if err != nil {
		s.logger.Warn("some metrics are missing", zap.String("code", "WG0503"), zap.Error(err))
	}
	b := takeBuffer()
	defer b.release()
	encoder := expfmt.NewEncoder(b, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			s.logger.Warn("metric cannot be written", zap.String("code", "WG0504"), zap.String("family", family.GetName()), zap.Error(err))
		}
	}
	x.w.Header().Set("Cache-Control", "no-cache")
	x.begin(http.StatusOK, contentMetrics, len(b.data))
	_ = x.write(b.data)
}

// Write makes a buffer an io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.data = append(b.data, p...)
	return len(p), nil
}

func appendFlag(dst []byte, before string, value bool) []byte {
	return strconv.AppendBool(append(dst, before...), value)
}
