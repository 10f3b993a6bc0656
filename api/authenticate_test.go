package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/api/auth"
	"waggle/broker"
)

const tokenSecret = "a secret for the tests of this package, and long enough"

// guarded makes requests need tokens.
func guarded(f *fixture) {
	settings := auth.DefaultSettings()
	settings.Secret = tokenSecret
	f.auth = auth.New(settings, zap.NewNop())
}

func tokenOf(t testing.TB, role, sub string) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"role": role, "sub": sub, "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(tokenSecret))
	require.NoError(t, err)
	return "Bearer " + text
}

const onePush = `{"items":[{"queue":"q","payload":1,"producerSub":"forged"}],"producerSub":"forged"}`

func TestATokenDecidesAndItsSubIsStamped(t *testing.T) {
	t.Parallel()
	f := setup(t, guarded)
	w := f.do("POST", "/api/v1/push", onePush)
	f.requireJSON(w, 401, `{"error":"Authentication required"}`)
	require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
	w = f.do("POST", "/api/v1/push", onePush, "Authorization", tokenOf(t, "read-only", "reader"))
	f.requireJSON(w, 403, `{"error":"Insufficient permissions"}`)
	require.Empty(t, w.Header().Get("WWW-Authenticate"))
	require.Empty(t, f.pushed)

	for _, sub := range []string{"user-1", ""} {
		require.Equal(t, 201, f.do("POST", "/api/v1/push", onePush, "Authorization", tokenOf(t, "write-only", sub)).Code)
		require.Equal(t, sub, f.sub)
	}
	require.EqualValues(t, 1, f.counter("waggle_http_refused_total", "reason", "no_token"))
	require.EqualValues(t, 1, f.counter("waggle_http_refused_total", "reason", "no_permission"))
	require.EqualValues(t, 1, f.counter("waggle_http_requests_total", "code", "401"))
}

func TestWithoutAuthenticationTokensAreNotLookedAt(t *testing.T) {
	t.Parallel()
	f := setup(t)
	require.Equal(t, 201, f.do("POST", "/api/v1/push", onePush, "Authorization", tokenOf(t, "", "user-1")).Code)
	require.Empty(t, f.sub)
}

func TestAuthenticationComesBeforeTheRouteAndTheTenant(t *testing.T) {
	t.Parallel()
	f := setup(t, guarded, func(f *fixture) { f.settings.Tenancy = true })
	reader, admin := tokenOf(t, "read-only", ""), tokenOf(t, "admin", "")
	for _, row := range []struct {
		method, target, tenant, token string
		status                        int
	}{
		{"GET", "/nowhere", "", "", 401},
		{"GET", "/api/v1/nowhere", "", reader, 403},
		{"GET", "/api/v1/nowhere", "", admin, 404},
		{"PUT", "/api/v1/push", "", "", 401},
		{"PUT", "/api/v1/push", "", admin, 405},
		{"GET", "/api/v1/pop", "nonsense", "", 401},
		{"GET", "/api/v1/pop", "nonsense", reader, 403},
		{"GET", "/api/v1/pop", "nonsense", admin, 400},
		{"GET", "/health/live", "", "nonsense", 200},
		{"HEAD", "/api/v1/resources/queues", "", "", 401},
		{"HEAD", "/api/v1/resources/queues", "", reader, 200},
	} {
		headers := []string{"x-queen-tenant", row.tenant}
		if row.token != "" {
			headers = append(headers, "authorization", row.token)
		}
		require.Equal(t, row.status, f.do(row.method, row.target, "", headers...).Code, row)
	}
}

func TestABrokerWithoutAKeyFails(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) { f.auth = auth.New(auth.DefaultSettings(), zap.NewNop()) })
	w := f.do("GET", "/status", "", "Authorization", tokenOf(t, "admin", ""))
	f.requireJSON(w, 500, `{"error":"JWT secret is not configured"}`)
	require.Equal(t, 200, f.do("GET", "/health/live", "").Code)
}

// A route that only reads must be open to those who may only read, and none may be open to all by accident.
func TestEveryRouteHasAMeantLevel(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, r := range f.server.routes() {
		for method := range r.methods {
			level := auth.LevelOf(method, r.pattern)
			reads := method == http.MethodGet || method == http.MethodHead
			switch {
			case strings.HasPrefix(r.pattern, "/health") || strings.HasPrefix(r.pattern, "/metrics") || strings.HasPrefix(r.pattern, "/auth/"):
				require.Equal(t, auth.Public, level, r.pattern)
			case reads && !strings.HasPrefix(r.pattern, "/api/v1/pop") && !strings.HasPrefix(r.pattern, "/api/v1/system/") && !strings.HasPrefix(r.pattern, "/internal/"):
				require.Equal(t, auth.ReadOnly, level, "%s %s", method, r.pattern)
			default:
				require.NotEqual(t, auth.Public, level, "%s %s", method, r.pattern)
			}
		}
	}
}

// The check that is there for tokens must cost nothing while there are none.
func BenchmarkPushWithAndWithoutTokens(b *testing.B) {
	for name, verifier := range map[string]*auth.Verifier{"off": nil, "on": func() *auth.Verifier {
		settings := auth.DefaultSettings()
		settings.Secret = tokenSecret
		return auth.New(settings, zap.NewNop())
	}()} {
		b.Run(name, func(b *testing.B) {
			d := &double{push: func(context.Context, []broker.PushItem) []broker.PushResult {
				return []broker.PushResult{{MessageID: uuid.Max, Status: broker.Queued}}
			}}
			registry := prometheus.NewRegistry()
			server, err := New(Settings{}, Parts{
				Broker: silent{d}, Reads: d, Cluster: d, Mesh: d, Health: d, Maintenance: d, Process: d, Auth: verifier, Draining: func() bool { return false },
				Gatherer: registry, Registerer: registry, Logger: zap.NewNop(),
			})
			require.NoError(b, err)
			r, err := http.NewRequest("POST", "/api/v1/push", nil)
			require.NoError(b, err)
			r.RequestURI = "/api/v1/push"
			r.Header.Set("Authorization", tokenOf(b, "write-only", "user-1"))
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				r.Body = reader{strings.NewReader(onePush)}
				server.ServeHTTP(w, r)
			}
		})
	}
}

// silent keeps no notes, which would grow with the benchmark.
type silent struct{ *double }

func (s silent) Push(ctx context.Context, _ uuid.UUID, _ string, items []broker.PushItem) []broker.PushResult {
	return s.push(ctx, items)
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

type reader struct{ *strings.Reader }

func (reader) Close() error { return nil }
