package conformance

import (
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// inScope is the route index of section 0.1 without key-value pairs, timers, ephemeral queues, locks and dashboard.
var inScope = []string{
	"POST /api/v1/push", "GET /api/v1/pop", "GET /api/v1/pop/queue/:queue", "GET /api/v1/pop/queue/:queue/partition/:partition",
	"POST /api/v1/ack", "POST /api/v1/ack/batch", "POST /api/v1/transaction", "POST /api/v1/lease/:leaseId/extend",
	"POST /api/v1/configure", "DELETE /api/v1/resources/queues/:queue",
	"POST /streams/v1/queries", "POST /streams/v1/state/get", "POST /streams/v1/cycle",
	"GET /api/v1/resources/queues", "GET /api/v1/resources/queues/:queue", "GET /api/v1/resources/queues/:queue/depth",
	"GET /api/v1/resources/overview", "GET /api/v1/resources/namespaces", "GET /api/v1/resources/tasks",
	"GET /api/v1/messages", "GET /api/v1/messages/:partitionId/:transactionId",
	"DELETE /api/v1/messages/:partitionId/:transactionId", "POST /api/v1/messages/:partitionId/:transactionId/retry",
	"GET /api/v1/dlq", "DELETE /api/v1/dlq", "POST /api/v1/dlq/:id/replay",
	"POST /api/v1/traces", "GET /api/v1/traces/names", "GET /api/v1/traces/by-name/:traceName",
	"GET /api/v1/traces/:partitionId/:transactionId",
	"GET /api/v1/consumer-groups", "GET /api/v1/consumer-groups/lagging", "GET /api/v1/consumer-groups/:group",
	"DELETE /api/v1/consumer-groups/:group", "POST /api/v1/consumer-groups/:group/subscription",
	"DELETE /api/v1/consumer-groups/:group/queues/:queue", "POST /api/v1/consumer-groups/:group/queues/:queue/seek",
	"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek",
	"GET /api/v1/status", "GET /api/v1/status/queues", "GET /api/v1/status/queues/:queue", "GET /api/v1/status/analytics",
	"GET /api/v1/status/buffers", "GET /health", "GET /status", "GET /metrics", "GET /metrics/prometheus",
	"GET /api/v1/system/maintenance", "POST /api/v1/system/maintenance", "GET /api/v1/system/maintenance/pop",
	"POST /api/v1/system/maintenance/pop", "GET /api/v1/system/shared-state", "POST /api/v1/stats/refresh",
	"GET /api/v1/analytics/system-metrics", "GET /api/v1/analytics/worker-metrics", "GET /api/v1/analytics/postgres-stats",
	"GET /api/v1/analytics/queue-lag", "GET /api/v1/analytics/queue-ops", "GET /api/v1/analytics/queue-parked-replicas",
	"GET /api/v1/analytics/retention", "POST /api/v1/fetch", "POST /api/v1/partitions/changed",
}

// outOfScope are routes of the index that a broker may leave out. It must then say so in JSON.
var outOfScope = []string{
	"GET /api/v1/resources/kv/namespaces", "POST /api/v1/resources/kv/list", "POST /api/v1/kv", "GET /api/v1/kv/ns/key",
	"PUT /api/v1/kv/ns/key", "DELETE /api/v1/kv/ns/key", "POST /api/v1/timers", "GET /api/v1/timers/q",
	"GET /api/v1/timers/q/k", "DELETE /api/v1/timers/q/k", "POST /api/v1/ephemeral/push", "GET /api/v1/ephemeral/pop",
	"POST /api/v1/ephemeral/ack", "POST /api/v1/ephemeral/configure", "POST /api/v1/ephemeral/reset",
	"GET /api/v1/ephemeral/queues", "GET /api/v1/ephemeral/queues/q/depth", "DELETE /api/v1/ephemeral/queue/q",
	"GET /api/v1/system/kv-timers", "POST /api/v1/system/kv-timers", "GET /api/v1/system/ephemeral",
	"POST /api/v1/system/ephemeral", "POST /api/v1/locks",
}

// neverServed are routes that clients carry methods for and that no release has had (0.1), and some that nobody has.
var neverServed = []string{
	"DELETE /api/v1/queues/q/clear", "GET /api/v1/resources/partitions", "POST /api/v1/messages/p/t/dlq",
	"GET /api/v1/status/queues/q/messages", "POST /api/v1/stream/poll", "POST /api/v1/stream/ack",
	"POST /api/v1/stream/renew-lease", "POST /api/v1/stream/seek", "POST /api/v1/stream/define", "GET /api/v1/messages/t",
	"GET /api/v1/nowhere", "POST /nowhere", "DELETE /", "PATCH /api/v2/push",
}

// recorder notes the route of each request on its way.
type recorder struct{ next http.RoundTripper }

var visited = &visits{seen: map[string]bool{}}

type visits struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(request.URL.Opaque, "//"+request.URL.Host)
	for _, m := range matchers {
		if m.method == request.Method && m.path.MatchString(path) {
			visited.mu.Lock()
			visited.seen[m.route] = true
			visited.mu.Unlock()
			break
		}
	}
	return r.next.RoundTrip(request)
}

func (v *visits) missing() (routes []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, route := range inScope {
		if !v.seen[route] {
			routes = append(routes, route)
		}
	}
	return routes
}

type matcher struct {
	route, method string
	path          *regexp.Regexp
}

var (
	parameter = regexp.MustCompile(`:[A-Za-z]+`)
	matchers  = func() (all []matcher) {
		for _, route := range inScope {
			method, pattern, _ := strings.Cut(route, " ")
			all = append(all, matcher{route, method, regexp.MustCompile("^" + parameter.ReplaceAllString(pattern, "[^/]+") + "$")})
		}
		// Static segments win over parameters.
		sort.SliceStable(all, func(i, j int) bool { return strings.Count(all[i].route, ":") < strings.Count(all[j].route, ":") })
		return all
	}()
)

// filled is a route with something for each parameter.
func filled(route string) (method, path string) {
	method, pattern, _ := strings.Cut(route, " ")
	return method, parameter.ReplaceAllString(pattern, "x")
}

const noSuchRoute = "{error:=Not Found,code:=no_such_route}"

func TestRoutesThatAreNotServedAnswerJSON(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	for _, route := range neverServed {
		method, path, _ := strings.Cut(route, " ")
		s.call(t, method, path, "{}").is(t, 404, noSuchRoute)
	}
	for _, route := range outOfScope {
		method, path, _ := strings.Cut(route, " ")
		if got := s.call(t, method, path, "{}"); got.status == http.StatusNotFound {
			got.is(t, 404, "{error:string}")
		} else {
			require.Contains(t, got.header.Get("Content-Type"), "application/json", "%s: %s", route, got.body)
		}
	}
}

// ambiguous are paths that another route serves with this method when a name is like its last segment, or holds a slash that
// the client did not escape (A.1).
var ambiguous = []string{
	"DELETE /api/v1/consumer-groups/lagging", "DELETE /api/v1/resources/queues/:queue/depth",
	"GET /api/v1/messages/:partitionId/:transactionId/retry", "DELETE /api/v1/messages/:partitionId/:transactionId/retry",
	"GET /api/v1/consumer-groups/:group/subscription", "DELETE /api/v1/consumer-groups/:group/subscription",
	"GET /api/v1/consumer-groups/:group/queues/:queue", "GET /api/v1/consumer-groups/:group/queues/:queue/seek",
	"DELETE /api/v1/consumer-groups/:group/queues/:queue/seek", "DELETE /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek",
	"GET /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek",
}

func TestAnotherMethodIs405(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	known := map[string]bool{}
	for _, route := range inScope {
		known[route] = true
	}
	for _, route := range inScope {
		_, path := filled(route)
		_, pattern, _ := strings.Cut(route, " ")
		got := s.call(t, "PATCH", path, "{}")
		require.Equal(t, 405, got.status, "PATCH %s: %s", path, got.body)
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if known[method+" "+pattern] || slices.Contains(ambiguous, method+" "+pattern) {
				continue
			}
			got := s.call(t, method, path, nil)
			require.Equal(t, 405, got.status, "%s %s: %s", method, path, got.body)
		}
	}
}

func TestNoCORSNoCompressionNoOptions(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t).with("Origin", "http://elsewhere").with("Accept-Encoding", "gzip, br")
	got := s.get(t, "/api/v1/resources/queues").is(t, 200, "{queues:list}")
	for _, name := range []string{"Access-Control-Allow-Origin", "Content-Encoding"} {
		require.Empty(t, got.header.Get(name))
	}
	require.Equal(t, 405, s.call(t, "OPTIONS", "/api/v1/push", nil).status)
}

// contains says whether the route holds one of the texts.
func contains(route string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(route, text) })
}
