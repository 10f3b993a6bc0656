package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/api"
	"waggle/pg"
)

// What real brokers answer is what the document says.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	checked := map[string]bool{}
	check := func(status int, method, path, target, body string) any {
		t.Helper()
		checked[method+" "+path] = true
		if status < 300 {
			api.RequireRequestDescribed(t, method, path, body)
		}
		return l.ask(status, method, target, body) // which holds the answer against the document
	}
	plain := func(status int, method, path, body string) any {
		t.Helper()
		return check(status, method, path, path, body)
	}

	plain(200, "POST", "/api/v1/configure", `{"queue":"bills","options":{"retryLimit":0}}`)
	plain(201, "POST", "/api/v1/push", `{"items":[{"queue":"bills","partition":"acme","payload":{"n":1},"transactionId":"t-1"},{"queue":"bills","partition":"acme","payload":null},{"queue":"news.eu","payload":1}]}`)
	popped := check(200, "GET", "/api/v1/pop/queue/{queue}", "/api/v1/pop/queue/bills?consumerGroup=ledger", "").(map[string]any)
	lease, partition := popped["leaseId"].(string), popped["partitionId"].(string)
	check(200, "POST", "/api/v1/lease/{leaseId}/extend", "/api/v1/lease/"+lease+"/extend", "")
	check(200, "POST", "/api/v1/lease/{leaseId}/extend", "/api/v1/lease/nobody/extend", "")
	message := "/api/v1/messages/{partitionId}/{transactionId}"
	check(200, "GET", message, "/api/v1/messages/"+partition+"/t-1", "")
	item := `{"transactionId":"t-1","partitionId":"` + partition + `","leaseId":"` + lease + `","status":"failed","error":"refused"`
	ack := item + `,"consumerGroup":"ledger"}`
	plain(200, "POST", "/api/v1/ack", ack)
	plain(200, "POST", "/api/v1/ack", ack)
	plain(200, "POST", "/api/v1/ack/batch", `{"acknowledgments":[`+item+`}],"consumerGroup":"ledger"}`)
	check(200, "GET", "/api/v1/pop/queue/{queue}/partition/{partition}", "/api/v1/pop/queue/bills/partition/acme", "")
	check(200, "GET", "/api/v1/pop", "/api/v1/pop?namespace=news&consumerGroup=other", "")
	plain(200, "POST", "/api/v1/transaction", `{"operations":[{"type":"push","queue":"bills","partition":"acme","transactionId":"t-9"}]}`)
	plain(200, "POST", "/api/v1/transaction", `{"operations":[{"type":"push","queue":"bills","partition":"acme","transactionId":"t-9"}]}`)
	plain(200, "POST", "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"bills","data":1}]},`+
		`{"type":"ack","transactionId":"t-9","partitionId":"`+partition+`"}],"requiredLeases":null}`)
	plain(400, "POST", "/api/v1/transaction", `{}`)
	plain(200, "POST", "/api/v1/fetch", `{"entries":[{"queue":"bills","partition":"acme","offset":0},{"queue":"none"}]}`)
	plain(200, "POST", "/api/v1/partitions/changed", `{"entries":[{"queue":"bills","limit":1},{"queue":"none"},{"queue":"bills","after":"?"}]}`)

	query := plain(200, "POST", "/streams/v1/queries", `{"name":"q","source_queue":"bills","config_hash":"h"}`).(map[string]any)["query_id"].(string)
	plain(409, "POST", "/streams/v1/queries", `{"name":"q","source_queue":"bills","config_hash":"i"}`)
	here := `{"query_id":"` + query + `","partition_id":"` + partition + `"`
	plain(200, "POST", "/streams/v1/cycle", here+`,"state_ops":[{"type":"upsert","key":"k","value":1}],"push_items":[{"queue":"out","payload":1}]}`)
	plain(200, "POST", "/streams/v1/cycle", here+`,"ack":{"leaseId":"nobody"}}`)
	plain(200, "POST", "/streams/v1/state/get", here+`}`)
	plain(404, "POST", "/streams/v1/state/get", `{"query_id":"x","partition_id":"y"}`)

	plain(200, "GET", "/api/v1/resources/queues", "")
	check(200, "GET", "/api/v1/resources/queues/{queue}", "/api/v1/resources/queues/bills", "")
	check(404, "GET", "/api/v1/resources/queues/{queue}", "/api/v1/resources/queues/none", "")
	check(200, "GET", "/api/v1/resources/queues/{queue}/depth", "/api/v1/resources/queues/bills/depth?group=ledger", "")
	plain(200, "GET", "/api/v1/messages", "")
	check(404, "GET", message, "/api/v1/messages/"+partition+"/nobody", "")
	letters := plain(200, "GET", "/api/v1/dlq", "").(map[string]any)["messages"].([]any)
	letter := letters[0].(map[string]any)["id"].(string)
	check(200, "POST", "/api/v1/dlq/{id}/replay", "/api/v1/dlq/"+letter+"/replay", "")
	check(404, "POST", "/api/v1/dlq/{id}/replay", "/api/v1/dlq/"+letter+"/replay", "")
	check(404, "POST", message+"/retry", "/api/v1/messages/"+partition+"/t-1/retry", "")
	check(404, "DELETE", message, "/api/v1/messages/"+partition+"/t-1", "")
	check(200, "DELETE", "/api/v1/dlq", "/api/v1/dlq?queue=bills", "")
	plain(400, "DELETE", "/api/v1/dlq", "")

	group := "/api/v1/consumer-groups/{group}"
	plain(200, "GET", "/api/v1/consumer-groups", "")
	check(200, "GET", "/api/v1/consumer-groups/lagging", "/api/v1/consumer-groups/lagging?minLagSeconds=0", "")
	check(200, "GET", group, "/api/v1/consumer-groups/ledger", "")
	check(200, "POST", group+"/queues/{queue}/seek", "/api/v1/consumer-groups/ledger/queues/bills/seek", `{"timestamp":"2001-01-01"}`)
	check(404, "POST", group+"/queues/{queue}/seek", "/api/v1/consumer-groups/ledger/queues/none/seek", `{"toEnd":true}`)
	check(200, "POST", group+"/queues/{queue}/partitions/{partition}/seek", "/api/v1/consumer-groups/ledger/queues/bills/partitions/acme/seek", "")
	check(200, "POST", group+"/subscription", "/api/v1/consumer-groups/ledger/subscription", `{"subscriptionTimestamp":"2001-01-01T00:00:00Z"}`)
	plain(200, "DELETE", "/api/v1/consumer-groups/lagging", "")
	check(200, "DELETE", group+"/queues/{queue}", "/api/v1/consumer-groups/ledger/queues/bills", "")
	check(200, "DELETE", group, "/api/v1/consumer-groups/ledger?deleteMetadata=true", "")

	plain(201, "POST", "/api/v1/traces", `{"transactionId":"t-1","partitionId":"`+partition+`","data":{"a":1},"traceNames":["n"]}`)
	plain(200, "GET", "/api/v1/traces/names", "")
	check(200, "GET", "/api/v1/traces/by-name/{traceName}", "/api/v1/traces/by-name/n", "")
	check(200, "GET", "/api/v1/traces/{partitionId}/{transactionId}", "/api/v1/traces/"+partition+"/t-1", "")

	plain(200, "GET", "/api/v1/system/maintenance", "")
	plain(501, "POST", "/api/v1/system/maintenance", `{"enabled":true}`)
	plain(200, "GET", "/api/v1/system/maintenance/pop", "")
	plain(200, "POST", "/api/v1/system/maintenance/pop", `{"enabled":false}`)
	plain(200, "GET", "/api/v1/system/shared-state", "")
	plain(200, "GET", "/internal/api/shared-state/stats", "")
	plain(200, "GET", "/internal/api/inter-instance/stats", "")
	plain(200, "POST", "/internal/api/notify", `{"queue":"bills"}`)
	for i, b := range l.brokers {
		require.NoError(t, l.db.WriteMetrics(t.Context(), []string{"b1", "b2"}[i], b.TakeActivity(), pg.BrokerActivity{Samples: 1, Elapsed: time.Minute}))
	}
	plain(200, "POST", "/api/v1/stats/refresh", "")
	for _, path := range []string{
		"/api/v1/resources/overview", "/api/v1/resources/namespaces", "/api/v1/resources/tasks", "/api/v1/status", "/api/v1/status/queues",
		"/api/v1/status/analytics", "/api/v1/status/buffers", "/api/v1/analytics/queue-lag", "/api/v1/analytics/queue-ops",
		"/api/v1/analytics/queue-parked-replicas", "/api/v1/analytics/retention", "/api/v1/analytics/system-metrics",
		"/api/v1/analytics/worker-metrics", "/api/v1/analytics/postgres-stats", "/api/v1/analytics/workload",
		"/api/v1/analytics/partition-liveness", "/metrics",
	} {
		plain(200, "GET", path, "")
	}
	check(200, "GET", "/api/v1/analytics/retention", "/api/v1/analytics/retention?groupBy=queue", "")
	check(200, "GET", "/api/v1/analytics/dlq-signatures", "/api/v1/analytics/dlq-signatures?queue=bills", "")
	check(200, "GET", "/api/v1/status/queues/{queue}", "/api/v1/status/queues/bills", "")
	check(404, "GET", "/api/v1/status/queues/{queue}", "/api/v1/status/queues/none", "")
	plain(200, "GET", "/api/v1/cluster", "")
	plain(200, "GET", "/api/v1/cluster/leader", "")
	plain(200, "GET", "/api/v1/cluster/mesh", "")
	plain(409, "POST", "/api/v1/cluster/leader/step-down", "")
	check(404, "POST", "/api/v1/cluster/leader/jobs/{job}/run", "/api/v1/cluster/leader/jobs/none/run", "")
	check(404, "POST", "/api/v1/cluster/leader/jobs/{job}", "/api/v1/cluster/leader/jobs/none", `{"enabled":true}`)
	plain(200, "GET", "/api/v1/cluster/mesh/members", "")
	plain(200, "GET", "/api/v1/cluster/mesh/keys", "")
	plain(202, "POST", "/api/v1/cluster/mesh/keys/rotate", "")
	check(200, "GET", "/api/v1/cluster/mesh/ping", "/api/v1/cluster/mesh/ping?name=b2", "")
	plain(200, "GET", "/api/v1/openapi.json", "")
	plain(200, "GET", "/health", "")
	plain(200, "GET", "/health/live", "")
	plain(200, "GET", "/health/ready", "")
	plain(200, "GET", "/status", "")
	plain(200, "GET", "/auth/me", "")
	plain(200, "POST", "/auth/logout", "")
	check(200, "DELETE", "/api/v1/resources/queues/{queue}", "/api/v1/resources/queues/bills", "")

	// Nothing is described that was not asked for here, but what is no JSON.
	for path, methods := range l.object(http.StatusOK, "GET", "/api/v1/openapi.json", "")["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			require.True(t, checked[strings.ToUpper(method)+" "+path] || path == "/metrics/prometheus" || path == "/auth/login", "%s %s has no case", method, path)
		}
	}
}
