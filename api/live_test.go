package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/admin"
	"waggle/api"
	"waggle/broker"
	"waggle/broker/wireid"
	"waggle/pg"
	"waggle/pg/pgtest"
)

// live is HTTP servers over brokers on one database, without hints between them. Requests take turns among the servers.
type live struct {
	*testing.T
	db      *pg.DB
	ids     *wireid.Codec
	servers []*api.Server
	brokers []*broker.Broker
	turn    int
}

func newLive(t *testing.T, brokers int) *live {
	t.Helper()
	database := pgtest.New(t)
	ids, err := wireid.NewCodec([]byte("test"))
	require.NoError(t, err)
	l := &live{T: t, ids: ids}
	for range brokers {
		db, err := pg.Open(context.Background(), pg.Config{
			URL: database.URL, ApplicationName: "api test", MaxConns: 10, Knows: pg.Knows{System: 1, Record: 1},
		})
		require.NoError(t, err)
		registry := prometheus.NewRegistry()
		b := broker.New(broker.Config{DB: db, IDs: ids, Logger: zap.NewNop(), Registerer: registry, Lanes: 2, SubscriptionMode: "all"})
		t.Cleanup(func() { b.Close(); db.Close() })
		server, err := api.New(api.Settings{Tenancy: true}, api.Parts{
			Broker: b, Reads: admin.NewReader(db, ids, broker.ResolveOptions), Cluster: nobody{}, Mesh: nobody{}, Health: nobody{}, Maintenance: db, Process: nobody{},
			Draining: func() bool { return false }, Gatherer: registry, Registerer: registry, Logger: zap.NewNop(),
		})
		require.NoError(t, err)
		l.db, l.servers, l.brokers = db, append(l.servers, server), append(l.brokers, b)
	}
	return l
}

type nobody struct{}

func (nobody) View(context.Context) (api.ClusterView, error) {
	return api.ClusterView{ClusterID: uuid.NewString()}, nil
}

func (nobody) MeshMembers(context.Context) ([]api.MeshMember, error) {
	return []api.MeshMember{{Name: "b1", StartID: uuid.NewString(), Self: true, State: "alive", Keys: api.MeshHolder{Source: "database"}}}, nil
}

func (nobody) MeshKeys(context.Context) (api.MeshKeys, error) {
	return api.MeshKeys{Keys: []api.MeshKey{{Fingerprint: "f", Primary: true}}, Brokers: []api.MeshKeyBroker{{Name: "b1", StartID: uuid.NewString(), MeshHolder: api.MeshHolder{Source: "file"}}}}, nil
}

func (nobody) RotateMeshKey(context.Context) (bool, error) { return true, nil }

func (nobody) PingMesh(_ context.Context, name string) []api.MeshPing {
	if name != "b2" {
		return nil
	}
	return []api.MeshPing{{Name: "b2", StartID: uuid.NewString(), State: "suspect", Error: "no answer"}}
}

func (nobody) ProcessMetrics() api.ProcessMetrics { return api.ProcessMetrics{} }
func (nobody) Exchange() *api.Exchange            { return nil }
func (nobody) Mesh() api.MeshStatus               { return meshed }
func (nobody) Leader() *api.Leader                { return nil }
func (nobody) Database(context.Context) error     { return nil }
func (nobody) Readiness() api.Readiness           { return api.Readiness{Ready: true} }

func (nobody) Jobs(context.Context) ([]api.Job, error) { return nil, nil }

func (nobody) SwitchJob(context.Context, string, bool) error { return api.ErrNoJob }

func (nobody) RunJob(context.Context, string, api.Caller) error { return api.ErrNoJob }

func (nobody) StepDown(context.Context, api.Caller) (string, error) { return "", api.ErrNoLeader }

// stranger is a tenant that owns nothing.
var stranger = uuid.MustParse("99999999-0000-4000-8000-000000000009")

// send returns status and body. Headers are name, value, name, value.
func (l *live) send(method, target, body string, headers ...string) (int, string) {
	l.Helper()
	l.turn++
	r := httptest.NewRequest(method, target, strings.NewReader(body)).WithContext(l.Context())
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	l.servers[l.turn%len(l.servers)].ServeHTTP(w, r)
	api.RequireDescribed(l, method, target, w)
	answer, err := io.ReadAll(w.Body)
	require.NoError(l, err)
	return w.Code, string(answer)
}

// ask requires the status and decodes the answer.
func (l *live) ask(status int, method, target, body string, headers ...string) any {
	l.Helper()
	code, text := l.send(method, target, body, headers...)
	require.Equal(l, status, code, "%s %s: %s", method, target, text)
	if text == "" {
		return nil
	}
	var value any
	require.NoError(l, json.Unmarshal([]byte(text), &value), text)
	return value
}

func (l *live) object(status int, method, target, body string, headers ...string) map[string]any {
	l.Helper()
	value, ok := l.ask(status, method, target, body, headers...).(map[string]any)
	require.True(l, ok, "no object")
	return value
}

// push stores messages {"n":i} with the transaction ids t-i.
func (l *live) push(queue, partition string, from, to int) {
	l.Helper()
	var items []string
	for i := from; i < to; i++ {
		items = append(items, fmt.Sprintf(`{"queue":%q,"partition":%q,"transactionId":"t-%d","payload":{"n":%d}}`, queue, partition, i, i))
	}
	l.ask(http.StatusCreated, "POST", "/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`)
}

// partitionID is the wire id of a partition.
func (l *live) partitionID(queue, partition string) string {
	l.Helper()
	var id int64
	require.NoError(l, l.db.Pool().QueryRow(l.Context(), `select p.id from waggle.partition p join waggle.queue q on q.id = p.queue_id
		where q.name = $1 and p.name = $2`, queue, partition).Scan(&id))
	return l.ids.Partition(id).String()
}
