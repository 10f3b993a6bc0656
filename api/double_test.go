package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/admin"
	"waggle/api/auth"
	"waggle/broker"
)

// double stands for everything behind the HTTP side: it notes what it was asked and answers what a test put in.
type double struct {
	Broker          // for what no test asks of it
	StatisticsReads // likewise

	mu       sync.Mutex // guards the notes, because servers call from many goroutines
	tenant   uuid.UUID
	sub      string
	pushed   []broker.PushItem
	popped   []broker.PopRequest
	returned []*broker.PopAnswer
	group    string
	acked    []broker.AckItem
	lease    string
	seconds  int
	asked    broker.ConfigureRequest
	deleted  string
	filter   admin.DeadLetterFilter
	looked   string

	push      func(ctx context.Context, items []broker.PushItem) []broker.PushResult
	pop       func(ctx context.Context, request broker.PopRequest) (*broker.PopAnswer, error)
	ackResult func(item broker.AckItem) broker.AckResult
	extended  broker.ExtendResult
	answer    broker.ConfigureAnswer
	existed   bool
	err       error

	queues  []admin.QueueSummary
	queue   *admin.QueueDetail
	letters []admin.DeadLetter

	exchanged   *Exchange
	mesh        MeshStatus
	view        ClusterView
	leader      *Leader
	jobs        []Job
	steered     []string
	database    error
	readiness   Readiness
	draining    bool
	meshMembers []MeshMember
	meshKeys    MeshKeys
	pings       []MeshPing

	transaction broker.Transaction
	transact    func(t broker.Transaction) ([]broker.OperationResult, error)

	paused  bool
	fetches broker.FetchRequest
	fetched []broker.Fetched
	changed []broker.ChangedEntry
	changes broker.Changes
	hinted  []string
}

func (d *double) Transact(_ context.Context, t broker.Transaction) ([]broker.OperationResult, error) {
	for i := range t.Operations {
		if push := t.Operations[i].Push; push != nil {
			push.Payload = append([]byte(nil), push.Payload...)
		}
	}
	d.tenant, d.transaction = t.Tenant, t
	return d.transact(t)
}

func (d *double) ProcessMetrics() ProcessMetrics {
	return ProcessMetrics{Uptime: 90 * time.Second, Requests: 7, Messages: 9, PoolSize: 4, PoolIdle: 3, Resident: 1, HeapTotal: 2, HeapUsed: 1, CPUUser: time.Second}
}

func (d *double) PopsPaused() bool { return d.paused }

func (d *double) PopMaintenance(context.Context) (bool, error) { return d.paused, d.err }

func (d *double) SetPopMaintenance(_ context.Context, on bool) error {
	d.paused = on
	return d.err
}

func (d *double) Fetch(_ context.Context, request broker.FetchRequest) ([]broker.Fetched, func(), error) {
	d.tenant, d.fetches = request.Tenant, request
	return d.fetched, func() {}, d.err
}

func (d *double) Changed(_ context.Context, tenant uuid.UUID, entries []broker.ChangedEntry) (broker.Changes, error) {
	d.tenant, d.changed = tenant, entries
	return d.changes, d.err
}

func (d *double) HandleWake(_ *uuid.UUID, queue, partition string) {
	d.hinted = append(d.hinted, queue+"/"+partition)
}

func (d *double) Push(ctx context.Context, tenant uuid.UUID, producerSub string, items []broker.PushItem) []broker.PushResult {
	d.mu.Lock()
	d.tenant, d.sub = tenant, producerSub
	for _, item := range items {
		item.Payload = append([]byte(nil), item.Payload...)
		d.pushed = append(d.pushed, item)
	}
	d.mu.Unlock()
	if d.push != nil {
		return d.push(ctx, items)
	}
	results := make([]broker.PushResult, len(items))
	for i, item := range items {
		results[i] = broker.PushResult{MessageID: uuid.Max, TransactionID: item.TransactionID, Status: broker.Queued}
	}
	return results
}

func (d *double) Pop(ctx context.Context, request broker.PopRequest) (*broker.PopAnswer, error) {
	d.mu.Lock()
	d.tenant = request.Tenant
	d.popped = append(d.popped, request)
	d.mu.Unlock()
	if d.pop == nil {
		return nil, d.err
	}
	return d.pop(ctx, request)
}

func (d *double) GiveBack(answer *broker.PopAnswer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.returned = append(d.returned, answer)
}

func (d *double) Ack(_ context.Context, tenant uuid.UUID, group string, items []broker.AckItem) []broker.AckResult {
	d.tenant, d.group, d.acked = tenant, group, items
	results := make([]broker.AckResult, len(items))
	for i, item := range items {
		results[i].Success = true
		if d.ackResult != nil {
			results[i] = d.ackResult(item)
		}
	}
	return results
}

func (d *double) Extend(_ context.Context, tenant uuid.UUID, lease string, seconds int) (broker.ExtendResult, error) {
	d.tenant, d.lease, d.seconds = tenant, lease, seconds
	return d.extended, d.err
}

func (d *double) Configure(_ context.Context, request broker.ConfigureRequest) (broker.ConfigureAnswer, error) {
	d.tenant, d.asked = request.Tenant, request
	return d.answer, d.err
}

func (d *double) DeleteQueue(_ context.Context, tenant uuid.UUID, queue string) (bool, error) {
	d.tenant, d.deleted = tenant, queue
	return d.existed, d.err
}

func (d *double) Queues(_ context.Context, tenant uuid.UUID) ([]admin.QueueSummary, error) {
	d.tenant = tenant
	return d.queues, d.err
}

func (d *double) Queue(_ context.Context, tenant uuid.UUID, name string) (*admin.QueueDetail, error) {
	d.tenant, d.looked = tenant, name
	return d.queue, d.err
}

func (d *double) DeadLetters(_ context.Context, tenant uuid.UUID, filter admin.DeadLetterFilter) ([]admin.DeadLetter, error) {
	d.tenant, d.filter = tenant, filter
	return d.letters, d.err
}

func (d *double) View(context.Context) (ClusterView, error) { return d.view, d.err }

func (d *double) Leader() *Leader { return d.leader }

func (d *double) Jobs(context.Context) ([]Job, error) { return d.jobs, d.err }

func (d *double) SwitchJob(_ context.Context, name string, on bool) error {
	d.steered = append(d.steered, fmt.Sprintf("%s %t", name, on))
	return d.err
}

func (d *double) RunJob(_ context.Context, name string, caller Caller) error {
	d.steered = append(d.steered, fmt.Sprintf("run %s for %q %t", name, caller.Authorization, caller.Forwarded))
	return d.err
}

func (d *double) StepDown(_ context.Context, caller Caller) (string, error) {
	d.steered = append(d.steered, fmt.Sprintf("step down for %q %t", caller.Authorization, caller.Forwarded))
	return "b1", d.err
}

func (d *double) Exchange() *Exchange { return d.exchanged }

func (d *double) Mesh() MeshStatus { return d.mesh }

func (d *double) Database(context.Context) error { return d.database }

func (d *double) Readiness() Readiness { return d.readiness }

// fixture is a server on a double.
type fixture struct {
	*testing.T
	*double
	server   *Server
	registry *prometheus.Registry
	logger   *zap.Logger
	settings Settings
	auth     *auth.Verifier
}

const clusterID = "6f1d0c52-3a4b-4c5d-8e6f-708192a3b4c5"

// storedOptions are all options of a queue, in the types that they have once stored.
func storedOptions() map[string]any {
	return map[string]any{
		"leaseTime": json.Number("300"), "retryLimit": 3, "retryDelay": 1000, "priority": int64(0), "maxSize": 0, "ttl": 3600,
		"deadLetterQueue": true, "dlqAfterMaxRetries": true, "delayedProcessing": 0, "windowBuffer": 0, "retentionEnabled": false,
		"retentionSeconds": 0, "completedRetentionSeconds": 0, "maxWaitTimeSeconds": 0, "encryptionEnabled": false, "minPopWaitTime": 0,
		"dedupWindowSeconds": 3600, "retentionSinkHold": "", "retentionSinkHoldMaxSeconds": 604800,
	}
}

// storedOptionsText is their JSON.
const storedOptionsText = `{"completedRetentionSeconds":0,"deadLetterQueue":true,"dedupWindowSeconds":3600,"delayedProcessing":0,` +
	`"dlqAfterMaxRetries":true,"encryptionEnabled":false,"leaseTime":300,"maxSize":0,"maxWaitTimeSeconds":0,"minPopWaitTime":0,"priority":0,` +
	`"retentionEnabled":false,"retentionSeconds":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800,"retryDelay":1000,` +
	`"retryLimit":3,"ttl":3600,"windowBuffer":0}`

func setup(t *testing.T, adjust ...func(*fixture)) *fixture {
	t.Helper()
	f := &fixture{T: t, double: &double{}, registry: prometheus.NewRegistry(), logger: zap.NewNop(), settings: Settings{Version: "0.1.0"}}
	f.view.ClusterID, f.answer.Options = clusterID, storedOptions()
	for _, change := range adjust {
		change(f)
	}
	var err error
	f.server, err = New(f.settings, Parts{
		Broker: f.double, Reads: f.double, Cluster: f.double, Mesh: f.double, Health: f.double, Maintenance: f.double, Process: f.double, Auth: f.auth,
		Draining: func() bool { return f.draining },
		Gatherer: f.registry, Registerer: f.registry, Logger: f.logger,
	})
	require.NoError(t, err)
	return f
}

// do sends one request past the network. Headers are name, value, name, value.
func (f *fixture) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	f.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	RequireDescribed(f, method, target, w)
	return w
}

// requireJSON checks status, type and the exact text of an answer: key order is not promised to anybody, but a change
// of it should be meant.
func (f *fixture) requireJSON(w *httptest.ResponseRecorder, status int, body string) {
	f.Helper()
	require.Equal(f, body, w.Body.String())
	require.Equal(f, status, w.Code)
	require.Equal(f, "application/json", w.Header().Get("Content-Type"))
}

func (f *fixture) requireText(w *httptest.ResponseRecorder, status int) {
	f.Helper()
	require.Equal(f, status, w.Code)
	require.Equal(f, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
}

func (f *fixture) requireNoContent(w *httptest.ResponseRecorder) {
	f.Helper()
	require.Equal(f, http.StatusNoContent, w.Code)
	require.Empty(f, w.Body.Bytes())
	require.NotContains(f, w.Header(), "Content-Type")
	require.NotContains(f, w.Header(), "Content-Length")
}

const noRoute = `{"error":"Not Found","code":"no_such_route"}`
