package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"waggle/broker"
)

// BadInput is a request with something wrong in it.
type BadInput struct {
	// Target is the path with the query.
	Target, Body string
	// Says is the part of the error that names the field and what is wrong with it.
	Says string
	// Tolerated is the section of the contract that makes the odd value no error; Says is empty then.
	Tolerated string
	// Status is 400 unless the contract has another one.
	Status int
	// Deep is what the broker finds out and not the HTTP side.
	Deep bool
}

// noInput are the routes that read nothing of a request but its tenant.
var noInput = map[string]bool{
	"GET /api/v1/resources/queues": true, "GET /api/v1/resources/overview": true, "GET /api/v1/resources/namespaces": true,
	"GET /api/v1/resources/tasks": true, "POST /api/v1/stats/refresh": true, "GET /api/v1/status/buffers": true,
	"GET /api/v1/analytics/postgres-stats": true, "GET /api/v1/system/maintenance": true, "GET /api/v1/system/maintenance/pop": true,
	"GET /api/v1/system/shared-state": true, "GET /api/v1/consumer-groups": true, "GET /api/v1/openapi.json": true,
	"GET /api/v1/cluster": true, "GET /api/v1/cluster/leader": true, "POST /api/v1/cluster/leader/step-down": true,
	"POST /api/v1/cluster/leader/jobs/:job/run": true, "GET /api/v1/cluster/mesh": true, "GET /api/v1/cluster/mesh/members": true,
	"GET /api/v1/cluster/mesh/keys": true, "POST /api/v1/cluster/mesh/keys/rotate": true, "GET /health": true, "GET /health/live": true, "GET /health/ready": true,
	"GET /internal/api/shared-state/stats": true, "GET /internal/api/inter-instance/stats": true,
	"GET /auth/me": true, "GET /auth/login": true, "POST /auth/logout": true, "GET /status": true, "GET /metrics": true, "GET /metrics/prometheus": true,
}

var (
	longName = strings.Repeat("n", maxName+1)
	longID   = strings.Repeat("i", maxTransactionID+1)
)

const (
	somePartition = "5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77"
	notJSON       = "bad body: "
	noObject      = "bad body: expected an object"
	tooLong       = " is longer than 1024 bytes"
	control       = " holds a control character"
	overflow      = "9223372036854775808"
)

// BadInputs are wrong requests by method and pattern.
func BadInputs() map[string][]BadInput {
	inputs := map[string][]BadInput{}
	for name, add := range map[string]func(method, pattern string) []BadInput{
		"POST /api/v1/push":                                      badPushes,
		"GET /api/v1/pop":                                        badDiscoveries,
		"GET /api/v1/pop/queue/:queue":                           badPops,
		"GET /api/v1/pop/queue/:queue/partition/:partition":      badPops,
		"POST /api/v1/ack":                                       badAcks,
		"POST /api/v1/ack/batch":                                 badBatches,
		"POST /api/v1/transaction":                               badTransactions,
		"POST /api/v1/lease/:leaseId/extend":                     badExtends,
		"POST /api/v1/configure":                                 badConfigures,
		"POST /api/v1/fetch":                                     badFetches,
		"POST /api/v1/partitions/changed":                        badChanges,
		"POST /streams/v1/queries":                               badStreamQueries,
		"POST /streams/v1/state/get":                             badStates,
		"POST /streams/v1/cycle":                                 badCycles,
		"POST /api/v1/traces":                                    badTraces,
		"POST /internal/api/notify":                              badHints,
		"POST /api/v1/system/maintenance":                        badSwitches,
		"POST /api/v1/system/maintenance/pop":                    badSwitches,
		"POST /api/v1/cluster/leader/jobs/:job":                  badSwitches,
		"POST /api/v1/dlq/:id/replay":                            badReplays,
		"POST /api/v1/consumer-groups/:group/subscription":       badSubscriptions,
		"POST /api/v1/consumer-groups/:group/queues/:queue/seek": badSeeks,
		"POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek": badSeeks,
	} {
		method, pattern, _ := strings.Cut(name, " ")
		inputs[name] = add(method, pattern)
	}
	for name, rows := range badReads() {
		inputs[name] = rows
	}
	return inputs
}

// Every route that takes anything from a client says which part of it is wrong. A new route has to stand in one of the lists.
func TestBadInputIsRefusedWithTheFieldOnEveryRoute(t *testing.T) {
	t.Parallel()
	inputs := BadInputs()
	f := setup(t)
	served := map[string]bool{}
	for _, r := range f.server.routes() {
		for method := range r.methods {
			name := method + " " + r.pattern
			if method == http.MethodHead || r.stub {
				continue
			}
			served[name] = true
			require.True(t, noInput[name] != (len(inputs[name]) > 0), "%s must stand in one of the two lists", name)
		}
	}
	for name := range noInput {
		require.True(t, served[name], name)
	}
	for name, rows := range inputs {
		require.True(t, served[name], name)
		method, pattern, _ := strings.Cut(name, " ")
		for _, row := range rows {
			if row.Deep {
				continue
			}
			f := setup(t)
			f.transact = func(broker.Transaction) ([]broker.OperationResult, error) {
				return nil, &broker.Rollback{Reason: "ack_rejected"}
			}
			path, _, _ := strings.Cut(row.Target, "?")
			found, _, _ := f.server.router.find(method, path)
			require.Equal(t, pattern, found.pattern, "%.200s", row.Target)
			w := f.do(method, row.Target, row.Body)
			row.Check(t, method, w.Code, w.Body.String())
		}
	}
}

// Check holds an answer against what it should be.
func (row *BadInput) Check(t *testing.T, method string, status int, answer string) {
	t.Helper()
	if row.Tolerated != "" {
		assert.Less(t, status, 300, "%s %.200s %.200s is tolerated by section %s: %s", method, row.Target, row.Body, row.Tolerated, answer)
		return
	}
	want := row.Status
	if want == 0 {
		want = http.StatusBadRequest
	}
	assert.Equal(t, want, status, "%s %.200s %.200s: %s", method, row.Target, row.Body, answer)
	assert.Contains(t, strings.ReplaceAll(answer, `\"`, `"`), row.Says, "%s %.200s %.200s", method, row.Target, row.Body)
}
