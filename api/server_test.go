package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"waggle/broker"
)

// counter sums up the series of a family that carry the label value.
func (f *fixture) counter(family, label, value string) (sum float64) {
	f.Helper()
	families, err := f.registry.Gather()
	require.NoError(f, err)
	for _, found := range families {
		if found.GetName() != family {
			continue
		}
		for _, metric := range found.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if pair.GetName() == label && pair.GetValue() == value {
					sum += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

func TestNewNeedsAllItsParts(t *testing.T) {
	t.Parallel()
	_, err := New(Settings{}, Parts{})
	require.Error(t, err)
}

func TestTenancyByHeader(t *testing.T) {
	t.Parallel()
	const tenant = "0A7C4B1E-AAAA-4BBB-8CCC-0123456789AB"
	calls := []struct{ method, target, body string }{
		{"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`},
		{"GET", "/api/v1/pop/queue/q", ""},
		{"GET", "/api/v1/pop/queue/q/partition/p", ""},
		{"GET", "/api/v1/pop?task=t", ""},
		{"POST", "/api/v1/ack", `{"transactionId":"t"}`},
		{"POST", "/api/v1/ack/batch", `{"acknowledgments":[{}]}`},
		{"POST", "/api/v1/lease/l/extend", ""},
		{"POST", "/api/v1/configure", `{"queue":"q"}`},
		{"DELETE", "/api/v1/resources/queues/q", ""},
		{"GET", "/api/v1/resources/queues", ""},
		{"GET", "/api/v1/resources/queues/q", ""},
		{"GET", "/api/v1/dlq", ""},
	}
	off, on := setup(t), setup(t, func(f *fixture) { f.settings.Tenancy = true })
	for _, c := range calls {
		off.tenant = uuid.Nil
		require.Less(t, off.do(c.method, c.target, c.body, "x-queen-tenant", "nonsense").Code, 405)
		require.Equal(t, broker.DefaultTenant, off.tenant, c.target)

		for _, header := range [][]string{nil, {"x-queen-tenant", ""}, {"x-queen-tenant", " \t"}} {
			on.tenant = uuid.Nil
			on.do(c.method, c.target, c.body, header...)
			require.Equal(t, broker.DefaultTenant, on.tenant, c.target)
		}
		on.do(c.method, c.target, c.body, "x-queen-tenant", tenant)
		require.Equal(t, strings.ToLower(tenant), on.tenant.String(), c.target)

		on.tenant = uuid.Nil
		for _, header := range [][]string{
			{"x-queen-tenant", "nonsense"},
			{"x-queen-tenant", "{" + tenant + "}"},
			{"x-queen-tenant", "urn:uuid:" + tenant},
			{"x-queen-tenant", strings.ReplaceAll(tenant, "-", "")},
			{"x-queen-tenant", tenant + "0"},
			{"x-queen-tenant", tenant, "x-queen-tenant", uuid.NewString()},
		} {
			on.requireJSON(on.do(c.method, c.target, c.body, header...), http.StatusBadRequest,
				`{"error":"invalid x-queen-tenant header (must be a UUID)"}`)
		}
		require.Equal(t, uuid.Nil, on.tenant, c.target)
	}
	for _, target := range []string{"/health", "/status", "/metrics/prometheus", "/api/v1/cluster/leader"} {
		require.Equal(t, http.StatusOK, on.do("GET", target, "", "x-queen-tenant", "nonsense").Code, "%s is not scoped", target)
	}
	on.requireJSON(on.do("GET", "/api/v1/nothing", "", "x-queen-tenant", "nonsense"), http.StatusNotFound, noRoute)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.requireJSON(f.do("GET", "/health", ""), http.StatusOK, `{"status":"healthy","database":"connected","engine":"waggle","version":"0.1.0"}`)
	f.database = errors.New("refused")
	f.requireJSON(f.do("GET", "/health", ""), http.StatusServiceUnavailable, `{"status":"unhealthy","database":"disconnected","engine":"waggle","version":"0.1.0"}`)
	f.requireJSON(f.do("GET", "/health/live", ""), http.StatusOK, `{"live":true}`)
	f.requireJSON(f.do("GET", "/status", ""), http.StatusOK, `{"status":"ok","engine":"waggle"}`)

	f.readiness = Readiness{Ready: true}
	f.requireJSON(f.do("GET", "/health/ready", ""), http.StatusOK, `{"ready":true}`)
	f.readiness = Readiness{Reason: "draining"}
	f.requireJSON(f.do("GET", "/health/ready", ""), http.StatusServiceUnavailable, `{"ready":false,"reason":"draining"}`)
	f.readiness = Readiness{Code: "WG0022", Reason: `the "database" is older`}
	f.requireJSON(f.do("GET", "/health/ready", ""), http.StatusServiceUnavailable, `{"ready":false,"code":"WG0022","reason":"the \"database\" is older"}`)
}

func TestClusterAndLeader(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const first, second = "019a7c10-0000-7000-8000-0000000000b1", "019a7c10-0000-7000-8000-0000000000b2"
	f.requireJSON(f.do("GET", "/api/v1/cluster", ""), http.StatusOK, `{"self":"","clusterId":"`+clusterID+`","members":[],"leader":null,"registered":0}`)
	f.requireJSON(f.do("GET", "/api/v1/cluster/leader", ""), http.StatusOK, `{"name":null,"startId":null,"epoch":null,"since":null,"isSelf":false,"jobs":[]}`)

	f.leader = &Leader{Name: "b2", StartID: second, Epoch: 9, Since: created, IsSelf: true}
	f.requireJSON(f.do("GET", "/api/v1/cluster/leader", ""), http.StatusOK,
		`{"name":"b2","startId":"`+second+`","epoch":9,"since":"2031-04-05T06:07:08.123Z","isSelf":true,"jobs":[]}`)
	f.view = ClusterView{Self: "b1", ClusterID: clusterID, Leader: f.leader, Registered: 2, Members: []Member{
		{Name: "b1", StartID: first, State: "alive", Version: "0.1.0", HTTP: "10.0.0.1:6632", FrameMin: 1, FrameMax: 2, SchemaKnows: 3, SchemaNeeds: 1, Draining: true},
		{Name: "b2", StartID: second, State: "suspect", Leader: true},
	}}
	f.requireJSON(f.do("GET", "/api/v1/cluster", ""), http.StatusOK, `{"self":"b1","clusterId":"`+clusterID+`","members":[`+
		`{"name":"b1","startId":"`+first+`","state":"alive","version":"0.1.0","http":"10.0.0.1:6632","frames":{"min":1,"max":2},"schema":{"knows":3,"needs":1},"leader":false,"draining":true},`+
		`{"name":"b2","startId":"`+second+`","state":"suspect","version":"","http":"","frames":{"min":0,"max":0},"schema":{"knows":0,"needs":0},"leader":true,"draining":false}],`+
		`"leader":{"name":"b2","epoch":9},"registered":2}`)
	f.err = errors.New("timeout")
	f.requireJSON(f.do("GET", "/api/v1/cluster", ""), http.StatusInternalServerError, `{"error":"cluster view failed"}`)
}

func TestWhatBrokersToldEachOther(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) { f.settings.ServerID = "b1" })
	for _, path := range []string{"/internal/api/shared-state/stats", "/internal/api/inter-instance/stats"} {
		f.exchanged, f.paused = nil, true
		f.requireJSON(f.do("GET", path, ""), http.StatusOK, `{"server_id":"b1","enabled":false,"running":false,"reason":"no_peers","peer_count":0,"peers":[],`+
			`"maintenance_mode":false,"pop_maintenance_mode":true}`)
		f.paused = false
		f.exchanged = &Exchange{
			Port: 7946, Peers: []string{"10.0.0.2:7946", "10.0.0.3:7946"}, Alive: 2, Dead: 1, Sent: 11, Received: 12, Dropped: 13,
			BadSignatures: 14, BadHandshakes: 15,
		}
		f.requireJSON(f.do("GET", path, ""), http.StatusOK, `{"server_id":"b1","transport":"tcp-mesh","port":7946,"peer_count":2,`+
			`"peers":["10.0.0.2:7946","10.0.0.3:7946"],"servers_alive":2,"servers_dead":1,"eph_members":0,"messages_sent":11,"messages_received":12,`+
			`"messages_dropped":13,"signature_failures":14,"handshake_failures":15,"sequence_rejections":0,"enabled":true,"running":true,`+
			`"maintenance_mode":false,"pop_maintenance_mode":false}`)
	}
	for _, path := range []string{"/api/v1/kv", "/api/v1/timers", "/api/v1/ephemeral/push", "/api/v1/system/kv-timers", "/api/v1/system/ephemeral", "/api/v1/locks"} {
		f.requireJSON(f.do("POST", path, "{}"), http.StatusNotFound, noRoute)
	}
}

// failing is a collector whose values cannot be had.
type failing struct{ desc *prometheus.Desc }

func (c failing) Describe(descs chan<- *prometheus.Desc) { descs <- c.desc }

func (c failing) Collect(metrics chan<- prometheus.Metric) {
	metrics <- prometheus.NewInvalidMetric(c.desc, errors.New("database is away"))
}

func TestMetricsArePlainTextEvenWhenSomeFail(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.registry.MustRegister(failing{prometheus.NewDesc("waggle_broken", "x", nil, nil)})
	f.do("GET", "/health", "")
	w := f.do("GET", "/metrics/prometheus", "", "Accept", "application/openmetrics-text", "Accept-Encoding", "gzip")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	require.Contains(t, w.Body.String(), `waggle_http_requests_total{code="200",method="GET",route="/health"} 1`)
	require.Contains(t, w.Body.String(), `waggle_http_request_duration_seconds_count{route="/health"} 1`)
	require.Contains(t, w.Body.String(), "waggle_http_requests_in_flight 1\n")
	require.NotContains(t, w.Body.String(), "waggle_broken")
}

func TestWhatClientsSendMakesNoNewSeries(t *testing.T) {
	t.Parallel()
	f := setup(t)
	before := f.series()
	for i := range 50 {
		name := strings.Repeat("x", i+1)
		f.do("GET", "/api/v1/pop/queue/"+name, "")
		f.do("GET", "/api/v1/pop/queue/q/partition/"+name, "")
		f.do("GET", "/"+name, "")
		f.do("X"+strings.ToUpper(name), "/health", "")
	}
	require.Equal(t, 50.0, f.counter("waggle_http_requests_total", "route", "/api/v1/pop/queue/:queue"))
	require.Equal(t, 50.0, f.counter("waggle_http_requests_total", "route", "/api/v1/pop/queue/:queue/partition/:partition"))
	require.Equal(t, 50.0, f.counter("waggle_http_requests_total", "route", "unmatched"))
	require.Equal(t, 50.0, f.counter("waggle_http_requests_total", "method", "other"))
	for family, series := range f.series() {
		require.LessOrEqual(t, series-before[family], 4, family)
	}
}

// series counts the series of each family.
func (f *fixture) series() map[string]int {
	f.Helper()
	families, err := f.registry.Gather()
	require.NoError(f, err)
	count := map[string]int{}
	for _, family := range families {
		count[family.GetName()] = len(family.GetMetric())
	}
	return count
}

func TestAPanicIsOne500AndALogLine(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.InfoLevel)
	f := setup(t, func(f *fixture) { f.logger = zap.New(core) })
	server := httptest.NewServer(f.server)
	defer server.Close()
	f.pop = func(context.Context, broker.PopRequest) (*broker.PopAnswer, error) { panic("boom") }
	response, err := server.Client().Get(server.URL + "/api/v1/pop/queue/q")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusInternalServerError, response.StatusCode)
	require.JSONEq(t, `{"error":"internal"}`, string(body))
	lines := logs.FilterMessage("request panicked").All()
	require.Len(t, lines, 1)
	require.Equal(t, "boom", lines[0].ContextMap()["panic"])
	require.Contains(t, lines[0].ContextMap()["stack"], "server_test.go")

	f.pop = nil
	require.Equal(t, http.StatusNoContent, f.do("GET", "/api/v1/pop/queue/q", "").Code)
}

func TestAPanicAfterTheFirstByteCutsTheAnswer(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.server.router.static["/half"] = &route{pattern: "/half", methods: map[string]handler{"GET": func(x *exchange) {
		x.begin(http.StatusOK, contentJSON, -1)
		_ = x.write([]byte("{"))
		_ = http.NewResponseController(x.w).Flush()
		panic("boom")
	}}}
	server := httptest.NewServer(f.server)
	defer server.Close()
	response, err := server.Client().Get(server.URL + "/half")
	require.NoError(t, err)
	_, err = io.ReadAll(response.Body)
	require.NoError(t, response.Body.Close())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestDrainingClosesConnections(t *testing.T) {
	t.Parallel()
	f := setup(t)
	require.Empty(t, f.do("GET", "/health", "").Header().Get("Connection"))
	f.draining = true
	for _, target := range []string{"/health", "/api/v1/pop/queue/q", "/nothing", "/api/v1/push", "/metrics/prometheus", "/api/v1/pop/queue/q?batch=x"} {
		require.Equal(t, "close", f.do("GET", target, "").Header().Get("Connection"), target)
	}
}

func TestRequestsAreLoggedAtDebugOnly(t *testing.T) {
	t.Parallel()
	for _, level := range []zapcore.Level{zapcore.InfoLevel, zapcore.DebugLevel} {
		core, logs := observer.New(level)
		f := setup(t, func(f *fixture) { f.logger = zap.New(core) })
		f.do("GET", "/api/v1/pop/queue/a%20b", "", "X-Request-Id", "abc")
		f.do("GET", "/health", "")
		if level == zapcore.InfoLevel {
			require.Zero(t, logs.Len())
			continue
		}
		lines := logs.FilterMessage("request").All()
		require.Len(t, lines, 2)
		fields := lines[0].ContextMap()
		require.Equal(t, "abc", fields["request_id"])
		require.Equal(t, "/api/v1/pop/queue/a%20b", fields["path"])
		require.Equal(t, "/api/v1/pop/queue/:queue", fields["route"])
		require.EqualValues(t, 204, fields["status"])
		require.NotEmpty(t, lines[1].ContextMap()["request_id"])
	}
}

func TestNothingIsCompressedOrAllowedAcrossOrigins(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.do("GET", "/health", "", "Origin", "http://evil", "Accept-Encoding", "gzip, br")
	require.Empty(t, w.Header().Get("Content-Encoding"))
	require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
}
