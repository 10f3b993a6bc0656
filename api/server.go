package api

import (
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/semaphore"

	"waggle/api/auth"
)

// Settings are the numbers and switches of the HTTP side. The zero value of a field means its default.
type Settings struct {
	// Version is shown by /health.
	Version string
	// ClusterID and ServerID are shown by /auth/me: the id of the installation and the name of this broker.
	ClusterID string
	ServerID  string
	// Tenancy makes requests belong to the tenant that the header x-queen-tenant names. Only to be switched on behind
	// a proxy that sets the header.
	Tenancy bool
	// MaxBodyBytes is the largest request body; default 64 MiB.
	MaxBodyBytes int64
	// BodyMemory bounds the bytes of all bodies held at one time; default 8 of the largest, at least 256 MiB.
	BodyMemory int64
	// BodyTimeout bounds how long one body may take to arrive; default 1 min.
	BodyTimeout time.Duration
	// PopTimeout is how long a waiting pop parks when it does not say; default 30 s.
	PopTimeout time.Duration
	// HealthTimeout bounds the database round trip of /health; default 3 s.
	HealthTimeout time.Duration
}

// Parts are what a Server stands on. All but Auth are needed.
type Parts struct {
	Broker  Broker
	Reads   Reads
	Cluster Cluster
	Mesh    Mesh
	Health  Health
	// Process is what /metrics shows.
	Process Process
	// Maintenance holds the switches of the whole cluster.
	Maintenance Maintenance
	// Auth decides about every request. It may be nil: then everybody may do everything.
	Auth *auth.Verifier
	// Draining says whether this broker is on its way out: every answer then closes its connection.
	Draining func() bool
	// Gatherer is what /metrics/prometheus shows; Registerer takes the metrics of this package.
	Gatherer   prometheus.Gatherer
	Registerer prometheus.Registerer
	Logger     *zap.Logger
}

// Server answers HTTP requests. It is an http.Handler; whoever owns the listener sets the limits on headers and must
// leave http.Server.ReadTimeout and WriteTimeout at 0, because both would cut parked pops.
type Server struct {
	settings   Settings
	parts      Parts
	router     *router
	metrics    *metrics
	bodyMemory *semaphore.Weighted
	logger     *zap.Logger
	openAPI    []byte
}

// New builds a server and registers its metrics.
func New(settings Settings, parts Parts) (*Server, error) {
	setDefault(&settings.MaxBodyBytes, 64<<20)
	setDefault(&settings.BodyMemory, max(8*settings.MaxBodyBytes, 256<<20))
	setDefault(&settings.BodyTimeout, time.Minute)
	setDefault(&settings.PopTimeout, 30*time.Second)
	setDefault(&settings.HealthTimeout, 3*time.Second)
	if parts.Broker == nil || parts.Reads == nil || parts.Cluster == nil || parts.Mesh == nil || parts.Health == nil || parts.Maintenance == nil || parts.Process == nil ||
		parts.Draining == nil || parts.Gatherer == nil || parts.Registerer == nil || parts.Logger == nil {
		return nil, errors.New("api: a part is missing")
	}
	counted, err := newMetrics(parts.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Server{
		settings:   settings,
		parts:      parts,
		metrics:    counted,
		bodyMemory: semaphore.NewWeighted(settings.BodyMemory),
		logger:     parts.Logger.Named("http"),
	}
	if s.openAPI, err = openAPI(settings.Version); err != nil {
		return nil, err
	}
	s.router = newRouter(s.routes())
	return s, nil
}

func setDefault[T int64 | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{server: s, w: w, r: r, started: time.Now()}
	s.metrics.inFlight.Inc()
	defer s.finish(x)
	x.path = requestPath(r)
	found, handle, names := s.router.find(r.Method, x.path)
	x.pattern, x.names = found.pattern, names
	switch {
	case s.parts.Auth != nil && !x.authenticate():
	case found == unmatched:
		x.fail(http.StatusNotFound, "Not Found", "no_such_route")
	case handle == nil:
		w.Header().Set("Allow", found.allow)
		x.fail(http.StatusMethodNotAllowed, "Method Not Allowed", "")
	case found.scoped && !x.resolveTenant():
	default:
		handle(x)
	}
}

// finish turns a panic into a 500, then counts and logs the request.
func (s *Server) finish(x *exchange) {
	s.metrics.inFlight.Dec()
	failure := recover()
	deliberate := failure == http.ErrAbortHandler //nolint:errorlint // net/http compares it the same way
	if failure != nil && !deliberate {
		s.logger.Error("request panicked", zap.String("code", "WG0506"), zap.String("route", x.pattern), zap.String("request_id", x.requestID()),
			zap.Any("panic", failure), zap.ByteString("stack", debug.Stack()))
		if x.status == 0 {
			x.fail(http.StatusInternalServerError, "internal", "")
			failure = nil
		}
	}
	took := time.Since(x.started)
	s.metrics.observe(x.pattern, x.r.Method, x.status, took)
	if entry := s.logger.Check(zapcore.DebugLevel, "request"); entry != nil {
		entry.Write(zap.String("request_id", x.requestID()), zap.String("method", x.r.Method),
			zap.String("path", x.path), zap.String("route", x.pattern), zap.Int("status", x.status),
			zap.Int("bytes", x.written), zap.Duration("took", took), zap.String("remote", x.r.RemoteAddr))
	}
	if failure != nil {
		panic(http.ErrAbortHandler) // the answer is cut: closing the connection tells the client so
	}
}

// requestID is the client's own where it sent a sensible one, otherwise minted when first asked for.
func (x *exchange) requestID() string {
	if x.id == "" {
		x.id = x.r.Header.Get("X-Request-Id")
	}
	if x.id == "" || len(x.id) > 128 {
		x.id = uuid.NewString()
	}
	return x.id
}
