package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

// keysOf lists the keys of a JSON text in the order in which they stand, each once, nested ones behind a dot.
func keysOf(t *testing.T, text string) []string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	var keys []string
	seen := map[string]bool{}
	var value func(path string)
	value = func(path string) {
		token, err := decoder.Token()
		require.NoError(t, err, text)
		switch token {
		case json.Delim('{'):
			for decoder.More() {
				name, err := decoder.Token()
				require.NoError(t, err)
				key := path + name.(string)
				if !seen[key] {
					seen[key] = true
					keys = append(keys, key)
				}
				value(key + ".")
			}
			_, _ = decoder.Token()
		case json.Delim('['):
			for decoder.More() {
				value(path)
			}
			_, _ = decoder.Token()
		}
	}
	value("")
	return keys
}

// flushActivity writes what the brokers did, as a node does every minute.
func (l *live) flushActivity() {
	l.Helper()
	for i, b := range l.brokers {
		err := l.db.WriteMetrics(l.Context(), []string{"b1", "b2"}[i], b.TakeActivity(), pg.BrokerActivity{
			Samples: 1, CPUUser: time.Second, CPUSystem: time.Second, Elapsed: time.Minute, Memory: 64 << 20, PoolSize: 8, PoolIdle: 6,
		})
		require.NoError(l, err)
	}
}

func TestStatisticsRoutesHaveTheContractsKeysInOrder(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	l.ask(http.StatusOK, "POST", "/api/v1/configure", `{"queue":"bills","namespace":"money","task":"pay","options":{"retryLimit":0}}`)
	l.push("bills", "acme", 0, 5)
	messages, lease := l.pop("bills", "consumerGroup=ledger")
	l.ack("ledger", lease, "completed", messages[:3]...)
	l.ack("ledger", lease, "failed", messages[3])
	l.pop("bills", "consumerGroup=ledger")
	l.brokers[0].NoteRemoved(0, 0, 0, 0, 0)
	l.flushActivity()
	require.EqualValues(t, 1, l.object(http.StatusOK, "POST", "/api/v1/stats/refresh", "{}")["segPartitions"])

	counts := "total pending processing completed failed deadLetter"
	under := func(prefix, names string) string {
		var out []string
		for _, name := range strings.Fields(names) {
			out = append(out, prefix+name)
		}
		return strings.Join(out, " ")
	}
	spread := func(name string) string { return name + " " + under(name+".", "avg median min max") }
	rangeKeys := "timeRange timeRange.from timeRange.to bucketMinutes "
	for target, keys := range map[string]string{
		"/api/v1/resources/overview": "queues partitions namespaces tasks messages " + under("messages.", counts) + " lag " + spread("lag.time") + " " + spread("lag.offset") +
			" throughput throughput.ingestedPerSecond throughput.processedPerSecond timestamp statsAge",
		"/api/v1/resources/namespaces": "namespaces namespaces.namespace namespaces.queues namespaces.partitions namespaces.messages namespaces.messages.total namespaces.messages.pending",
		"/api/v1/resources/tasks":      "tasks tasks.task tasks.queues tasks.partitions tasks.messages tasks.messages.total tasks.messages.pending",
		"/api/v1/status": rangeKeys + "pointCount statsAge throughput " + under("throughput.", `timestamp ingested processed popMessages ingestedPerSecond processedPerSecond
			popPerSecond avgLagMs maxLagMs avgEventLoopLagMs maxEventLoopLagMs minFreeSlots dbErrors ackFailed dlqCount
			queenCpuUserPct queenCpuSysPct queenRssMb dbPoolActive dbPoolIdle dbPoolSize`) +
			" queues " + under("queues.", "id name namespace task partitions totalConsumed") + " messages " + under("messages.", counts) +
			" messages.requests " + under("messages.requests.", "push pop ack") + " messages.batchEfficiency " + under("messages.batchEfficiency.", "push pop ack") +
			" leases " + under("leases.", "active partitionsWithLeases totalBatchSize totalAcked") +
			" deadLetterQueue " + under("deadLetterQueue.", "totalMessages currentMessages affectedPartitions topErrors topErrors.error topErrors.count") +
			" workers " + under("workers.", "hostname workerId avgEventLoopLagMs maxEventLoopLagMs freeSlots dbConnections jobQueueSize messagesProcessed") +
			" errors " + under("errors.", "dbErrors ackFailed dlqMessages"),
		"/api/v1/status/queues": "queues " + under("queues.", "id name namespace task createdAt partitions messages") + " " +
			under("queues.messages.", "total pending processing completed deadLetter") + " pagination pagination.limit pagination.offset",
		"/api/v1/status/queues/bills?includePartitions=true": "queue " + under("queue.", "id name namespace task priority createdAt config") + " " +
			under("queue.config.", "leaseTime retryLimit retryDelay ttl maxQueueSize deadLetterQueue") + " partitions " +
			under("partitions.", "id name createdAt messages "+under("messages.", counts)+" stats "+under("stats.", counts)+" cursor cursor.totalConsumed cursor.batchesConsumed lastActivity oldestMessage newestMessage") +
			" totals totals.messages " + under("totals.messages.", counts),
		"/api/v1/status/analytics":    "dataPoints dataPoints.timestamp dataPoints.messages interval from to",
		"/api/v1/status/buffers":      "pending failed dbHealthy worker",
		"/api/v1/analytics/queue-lag": "queueName popCount avgLagMs maxLagMs bucketMinutes bucketTime",
		"/api/v1/analytics/queue-ops": rangeKeys + "series " + under("series.", `bucket queueName pushRequests pushMessages popMessages popEmpty ackRequests ackSuccess ackFailed transactions
			partitionsCreated partitionsDeleted partitionCount avgLagMs maxLagMs pushPerSecond popPerSecond ackPerSecond emptyPerSecond parkedCount`) + " queues",
		"/api/v1/analytics/queue-parked-replicas": rangeKeys + "series replicas",
		"/api/v1/analytics/retention":             rangeKeys + "series totals " + under("totals.", "retentionMsgs completedRetentionMsgs evictionMsgs totalMsgs eventCount"),
		"/api/v1/analytics/workload": rangeKeys + "groupBy buckets rows rows.key rows.queues rows.window " +
			under("rows.window.", "pushRequests pushMessages popMessages popEmpty ackSuccess ackFailed transactions deadLetters avgLagMs maxLagMs") +
			" rows.series " + under("rows.series.", "pushMessages popMessages ackSuccess") +
			" rows.now " + under("rows.now.", "partitions "+counts) + " tenant",
		"/api/v1/analytics/partition-liveness": "capturedAt rows " +
			under("rows.", "queue namespace task partitions live1h live24h live7d created24h oldestWriteAt newestWriteAt pending"),
		"/api/v1/analytics/dlq-signatures?queue=bills": "queue rowsNow sample retryCounts retryCounts.0 groups groups.ledger oldest newest avgBytes signatures signatures.text signatures.n signatures.share byDay byDay." + time.Now().UTC().Format("2006-01-02"),
	} {
		code, text := l.send("GET", target, "")
		require.Equal(t, http.StatusOK, code, "%s: %s", target, text)
		require.Equal(t, strings.Fields(keys), keysOf(t, text), target)
	}
	for _, target := range []string{"system-metrics", "worker-metrics", "postgres-stats"} {
		code, text := l.send("GET", "/api/v1/analytics/"+target, "")
		require.Equal(t, http.StatusOK, code, text)
	}
	worker := l.object(http.StatusOK, "GET", "/api/v1/analytics/worker-metrics", "")
	point := worker["timeSeries"].([]any)[0].(map[string]any)
	require.EqualValues(t, 5, point["pushMessages"])
	require.EqualValues(t, 4, point["ackSuccess"])
	require.EqualValues(t, 1, point["dlqCount"])
	require.Len(t, worker["workers"], 2)

	workload := l.object(http.StatusOK, "GET", "/api/v1/analytics/workload?groupBy=namespace", "")["rows"].([]any)[0].(map[string]any)
	require.Equal(t, "money", workload["key"])
	require.EqualValues(t, 5, workload["window"].(map[string]any)["pushMessages"])
	require.Equal(t, []any{5.0}, workload["series"].(map[string]any)["pushMessages"])
	require.EqualValues(t, 5, workload["now"].(map[string]any)["total"])
	alive := l.object(http.StatusOK, "GET", "/api/v1/analytics/partition-liveness?limit=1", "")["rows"].([]any)[0].(map[string]any)
	require.EqualValues(t, 1, alive["live1h"])
	require.EqualValues(t, 1, alive["created24h"])

	status := l.object(http.StatusOK, "GET", "/api/v1/status", "")
	require.EqualValues(t, 5, status["messages"].(map[string]any)["total"])
	require.EqualValues(t, 1, status["deadLetterQueue"].(map[string]any)["totalMessages"])
	require.EqualValues(t, 1, status["leases"].(map[string]any)["active"])

	// Another tenant sees nothing of it.
	foreign := []string{"X-Queen-Tenant", uuid.Nil.String()}
	for _, target := range []string{
		"/api/v1/resources/overview", "/api/v1/resources/namespaces", "/api/v1/status/queues", "/api/v1/status/analytics", "/api/v1/analytics/queue-lag",
		"/api/v1/analytics/queue-ops", "/api/v1/analytics/dlq-signatures?queue=bills", "/api/v1/analytics/workload?groupBy=namespace",
		"/api/v1/analytics/partition-liveness",
	} {
		code, text := l.send("GET", target, "", foreign...)
		require.Equal(t, http.StatusOK, code)
		require.NotContains(t, text, `"acme"`)
		require.NotContains(t, text, "money")
		require.NotContains(t, text, "ledger")
		require.NotContains(t, text, `"queueName"`)
	}
	code, _ := l.send("GET", "/api/v1/status/queues/bills", "", foreign...)
	require.Equal(t, http.StatusNotFound, code)
	for target, says := range map[string]string{
		"/api/v1/analytics/retention?groupBy=color": `{"error":"bad groupBy"}`,
		"/api/v1/analytics/workload?groupBy=color":  `{"error":"bad groupBy"}`,
		"/api/v1/analytics/dlq-signatures":          `{"error":"queue required"}`,
		"/api/v1/status?from=yesterday":             "from",
		"/api/v1/status/analytics?interval=year":    "interval",
		"/api/v1/analytics/queue-lag?to=tomorrow":   "to",
	} {
		code, text := l.send("GET", target, "")
		require.Equal(t, http.StatusBadRequest, code, target)
		require.Contains(t, text, says)
	}
}
