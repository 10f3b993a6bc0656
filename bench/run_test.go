package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"waggle/api"
	"waggle/broker"
	"waggle/pg/pgtest"
)

// TestMain lets the test binary stand in for the waggle program, which bench starts for the no-store yardstick.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "bench" && os.Args[2] == "no-store" {
		if err := ServeNoStore(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// memory is a cluster's data plane in memory: queue mode only, one lease per partition, no expiry. Several brokers may
// share one. A change wakes one parked pop of its queue; the others look again by themselves.
type memory struct {
	api.Broker
	mu         sync.Mutex // guards what follows
	partitions []*memoryPartition
	byName     map[string]*memoryPartition
	byID       map[string]*memoryPartition
	parked     map[string][]chan struct{}
}

const memoryRecheck = 20 * time.Millisecond

type memoryPartition struct {
	queue, name string
	id, lease   uuid.UUID
	messages    []broker.Message
	committed   int
	batchEnd    int
}

func newMemory() *memory {
	return &memory{byName: map[string]*memoryPartition{}, byID: map[string]*memoryPartition{}, parked: map[string][]chan struct{}{}}
}

func (m *memory) Push(_ context.Context, _ uuid.UUID, _ string, items []broker.PushItem) []broker.PushResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]broker.PushResult, len(items))
	for i, item := range items {
		key := item.Queue + "\x00" + item.Partition
		p := m.byName[key]
		if p == nil {
			p = &memoryPartition{queue: item.Queue, name: item.Partition, id: uuid.New()}
			m.byName[key], m.byID[p.id.String()] = p, p
			m.partitions = append(m.partitions, p)
		}
		p.messages = append(p.messages, broker.Message{
			ID: uuid.New(), TransactionID: item.TransactionID, Payload: bytes.Clone(item.Payload), CreatedAt: time.Now(),
		})
		results[i] = broker.PushResult{MessageID: uuid.New(), TransactionID: item.TransactionID, Status: broker.Queued}
		m.wake(item.Queue)
	}
	return results
}

// wake is called with the lock held.
func (m *memory) wake(queue string) {
	if parked := m.parked[queue]; len(parked) > 0 {
		close(parked[0])
		m.parked[queue] = parked[1:]
	}
}

func (m *memory) Pop(ctx context.Context, r broker.PopRequest) (*broker.PopAnswer, error) {
	deadline := time.Now().Add(r.Timeout)
	for {
		answer, woken := m.take(r)
		if answer != nil || !r.Wait || time.Now().After(deadline) {
			return answer, nil
		}
		select {
		case <-woken:
		case <-time.After(memoryRecheck):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *memory) take(r broker.PopRequest) (*broker.PopAnswer, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answer := &broker.PopAnswer{Lease: uuid.New(), Group: broker.QueueMode}
	if r.SubscriptionMode == "new" {
		for _, p := range m.partitions {
			if p.queue == r.Queue {
				p.committed = len(p.messages)
			}
		}
	}
	left := max(r.Batch, 1)
	for _, p := range m.partitions {
		if p.queue != r.Queue || p.lease != uuid.Nil || p.committed == len(p.messages) || left == 0 ||
			r.Partitions > 0 && len(answer.Parts) == r.Partitions {
			continue
		}
		p.lease = answer.Lease
		p.batchEnd = min(len(p.messages), p.committed+left)
		left -= p.batchEnd - p.committed
		answer.Parts = append(answer.Parts, broker.PopPart{
			Queue: p.queue, Partition: p.name, PartitionID: p.id, Attempt: 1, Messages: p.messages[p.committed:p.batchEnd],
		})
	}
	if len(answer.Parts) == 0 {
		woken := make(chan struct{})
		m.parked[r.Queue] = append(m.parked[r.Queue], woken)
		return nil, woken
	}
	return answer, nil
}

func (m *memory) GiveBack(*broker.PopAnswer) {}

func (m *memory) Ack(_ context.Context, _ uuid.UUID, _ string, items []broker.AckItem) []broker.AckResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]broker.AckResult, len(items))
	for i, item := range items {
		p := m.byID[item.PartitionID]
		if p == nil || p.lease.String() != item.Lease {
			continue
		}
		for at := p.committed; at < p.batchEnd; at++ {
			if p.messages[at].TransactionID == item.TransactionID {
				p.committed = at + 1
				results[i].Success = true
				break
			}
		}
		if p.committed == p.batchEnd {
			p.lease = uuid.Nil
			m.wake(p.queue)
		}
	}
	return results
}

// Transact has nothing to undo: what it is given is right.
func (m *memory) Transact(ctx context.Context, t broker.Transaction) ([]broker.OperationResult, error) {
	var items []broker.PushItem
	var acks []broker.AckItem
	for _, o := range t.Operations {
		if o.Push != nil {
			items = append(items, *o.Push)
		} else {
			acks = append(acks, *o.Ack)
		}
	}
	for _, result := range m.Ack(ctx, t.Tenant, broker.QueueMode, acks) {
		if !result.Success {
			return nil, &broker.Rollback{Reason: broker.ReasonAckRejected}
		}
	}
	m.Push(ctx, t.Tenant, t.ProducerSub, items)
	return make([]broker.OperationResult, len(t.Operations)), nil
}

func (m *memory) DeleteQueue(_ context.Context, _ uuid.UUID, queue string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var kept []*memoryPartition
	for _, p := range m.partitions {
		if p.queue != queue {
			kept = append(kept, p)
		} else {
			delete(m.byName, p.queue+"\x00"+p.name)
		}
	}
	existed := len(kept) < len(m.partitions)
	m.partitions = kept
	return existed, nil
}

// startCluster serves brokers that share one memory.
func startCluster(t *testing.T, plane api.Broker, brokers int) Cluster {
	t.Helper()
	var c Cluster
	for range brokers {
		registry := prometheus.NewRegistry()
		handler, err := api.New(api.Settings{}, api.Parts{
			Broker: plane, Reads: nothingStored{}, Cluster: nothingStored{}, Health: nothingStored{}, Maintenance: nothingStored{}, Mesh: noMesh{}, Process: nothingStored{},
			Draining: func() bool { return false }, Gatherer: registry, Registerer: registry, Logger: zap.NewNop(),
		})
		require.NoError(t, err)
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		c.Brokers = append(c.Brokers, Broker{HTTP: server.URL, PID: os.Getpid()})
	}
	return c
}

func shortConfig(t *testing.T, rows ...string) Config {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	return Config{
		Rows: rows, Rounds: 2, Side: 500 * time.Millisecond, WarmUp: 50 * time.Millisecond, Records: 5000, Idle: 100,
		Program: program, Version: "1.2.3", Progress: testLog{t},
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(string(bytes.TrimSpace(p)))
	return len(p), nil
}

func TestEveryRowIsMeasured(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	plane := newMemory()
	cluster := startCluster(t, plane, 2)
	cluster.Postgres = database.URL
	config := shortConfig(t, RowNames()...)
	config.Rounds, config.Side = 1, time.Second
	report, err := Run(t.Context(), cluster, config)
	require.NoError(t, err)
	require.Len(t, report.Rows, len(budget))
	for i, row := range report.Rows {
		require.Equal(t, budget[i].name, row.Name)
		require.Positive(t, row.Value, row.Name)
		require.NotNil(t, row.Met, row.Name)
		require.NotNil(t, row.Budget, row.Name)
		require.Len(t, row.Rounds, 1)
		require.Zero(t, row.Failed, row.Name)
		require.LessOrEqual(t, row.P50, row.P99)
		if row.Name == "wake" {
			require.Nil(t, row.Yardstick)
			require.NotNil(t, row.UpdateP50)
			require.Zero(t, row.Audit.Lost)
			require.Positive(t, row.Audit.Delivered)
			continue
		}
		require.InDelta(t, row.Value / *row.Yardstick, *row.Ratio, 1e-9, row.Name)
		require.NotNil(t, row.BrokerMicros, row.Name)
		require.NotNil(t, row.PostgresMicros, row.Name)
		require.NotNil(t, row.WAL, row.Name)
	}
	drain := report.Rows[3]
	require.Equal(t, "drain100", drain.Name)
	require.True(t, drain.Audit.clean(), drain.Audit)
	require.Equal(t, int64(5000), drain.Audit.Delivered)
	require.True(t, report.Rows[4].Audit.clean(), report.Rows[4].Audit)
	require.True(t, report.Rows[5].Audit.clean(), report.Rows[5].Audit)
	require.Equal(t, 2, report.Run.Brokers)
	require.NotEmpty(t, report.Run.Postgres)
	require.Empty(t, plane.partitions, "queues are deleted")

	conn, err := pgx.Connect(t.Context(), database.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var left int
	require.NoError(t, conn.QueryRow(t.Context(), "select count(*) from pg_namespace where nspname = 'waggle_bench'").Scan(&left))
	require.Zero(t, left, "scratch tables are dropped")

	var text bytes.Buffer
	report.WriteText(&text)
	require.Contains(t, text.String(), "drain100")
	encoded, err := json.Marshal(report)
	require.NoError(t, err)
	var back struct {
		Rows []map[string]any `json:"rows"`
	}
	require.NoError(t, json.Unmarshal(encoded, &back))
	for _, row := range back.Rows {
		for _, key := range []string{"name", "value", "yardstick", "ratio", "budget", "met"} {
			require.Contains(t, row, key)
		}
	}
}

func TestWithoutADatabaseThereAreNoYardsticksOnIt(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), startCluster(t, newMemory(), 1), shortConfig(t, "push1", "push100", "wake"))
	require.NoError(t, err)
	require.Len(t, report.Rows, 2, "wake needs two brokers")
	require.NotNil(t, report.Rows[0].Ratio)
	require.Nil(t, report.Rows[1].Ratio)
	require.Nil(t, report.Rows[1].Met)
	require.Nil(t, report.Rows[0].WAL)
	require.Len(t, report.Notes, 2)
}

// forgetting loses, repeats or swaps messages of what it answers.
type forgetting struct {
	*memory
	mu    sync.Mutex // guards wrong
	wrong func(part *broker.PopPart)
}

func (f *forgetting) Pop(ctx context.Context, r broker.PopRequest) (*broker.PopAnswer, error) {
	answer, err := f.memory.Pop(ctx, r)
	if answer == nil {
		return answer, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if wrong := f.wrong; wrong != nil && len(answer.Parts[0].Messages) == batch100 {
		f.wrong = nil
		wrong(&answer.Parts[0])
	}
	return answer, err
}

func TestAWrongClusterIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		wrong func(part *broker.PopPart)
		check func(t *testing.T, tally *Tally)
	}{
		"a lost message": {
			func(p *broker.PopPart) {
				p.Messages = append(append([]broker.Message{}, p.Messages[:5]...), p.Messages[6:]...)
			},
			func(t *testing.T, tally *Tally) { require.Equal(t, int64(1), tally.Lost) },
		},
		"two messages swapped": {
			func(p *broker.PopPart) {
				p.Messages = append([]broker.Message{}, p.Messages...)
				p.Messages[7], p.Messages[8] = p.Messages[8], p.Messages[7]
			},
			func(t *testing.T, tally *Tally) { require.Equal(t, int64(1), tally.Disordered) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := shortConfig(t)
			config.Rounds, config.Records, config.AckLast = 1, 5000, true
			r := &runner{config: config, cluster: startCluster(t, &forgetting{memory: newMemory(), wrong: row.wrong}, 1), samples: map[string][]*sample{}}
			require.NoError(t, r.open(t.Context()))
			defer func() { require.NoError(t, r.close()) }()
			got, err := r.drainWithin(t.Context(), 3*time.Second)
			require.NoError(t, err)
			row.check(t, got.tally)
			require.False(t, got.tally.clean())
		})
	}
}

func TestRunRefusesAClusterThatIsIll(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	defer server.Close()
	_, err := Run(t.Context(), Cluster{Brokers: []Broker{{HTTP: server.URL}}}, shortConfig(t, "push1"))
	require.ErrorContains(t, err, "is not healthy")
	_, err = Run(t.Context(), Cluster{}, shortConfig(t, "push1"))
	require.ErrorContains(t, err, "no brokers")
	_, err = Run(t.Context(), Cluster{Brokers: []Broker{{HTTP: "https://x"}}}, shortConfig(t, "push1"))
	require.ErrorContains(t, err, "plain http")
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	config := shortConfig(t, "push100")
	config.Side = time.Hour
	timer := time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
	defer timer.Stop()
	plane := newMemory()
	_, err := Run(ctx, startCluster(t, plane, 1), config)
	require.ErrorIs(t, err, why)
	require.Empty(t, plane.partitions, "queues are deleted all the same")
}

func TestLoadCluster(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/cluster.json"
	_, err := LoadCluster(path)
	require.Error(t, err)
	require.NoError(t, os.WriteFile(path, []byte(`{"postgres":"postgres://x","brokers":[{"name":"a","http":"http://127.0.0.1:1","mesh":"m","pid":7}]}`), 0o600))
	got, err := LoadCluster(path)
	require.NoError(t, err)
	require.Equal(t, Cluster{Postgres: "postgres://x", Brokers: []Broker{{Name: "a", HTTP: "http://127.0.0.1:1", PID: 7}}}, got)
	require.NoError(t, os.WriteFile(path, []byte(`{"brokers":[]}`), 0o600))
	_, err = LoadCluster(path)
	require.Error(t, err)
}

func TestStartClusterSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	program := t.TempDir() + "/waggle"
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho no PostgreSQL here >&2\nexit 5\n"), 0o700))
	_, err := StartCluster(t.Context(), program, 2)
	require.ErrorContains(t, err, "no PostgreSQL here")
	require.ErrorContains(t, err, "exit status 5")
}

func TestStartClusterReadsTheClusterFileAndStopCleansUp(t *testing.T) {
	t.Parallel()
	program := t.TempDir() + "/waggle"
	script := `#!/bin/sh
trap 'exit 0' TERM
mkdir -p "$5"
echo '{"postgres":"p","brokers":[{"name":"'"$2 $3 $4"'","http":"http://127.0.0.1:'"$7"'","pid":1}]}' > "$5/cluster.json"
while :; do sleep 0.05; done
`
	require.NoError(t, os.WriteFile(program, []byte(script), 0o700))
	own, err := StartCluster(t.Context(), program, 2)
	require.NoError(t, err)
	require.Equal(t, "--brokers 2 --data", own.Brokers[0].Name)
	require.NoError(t, own.Stop())
	require.NoDirExists(t, own.dir)
}
