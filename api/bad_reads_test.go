package api

import (
	"net/http"
)

// badReads are the wrong parameters and names of routes without a body.
func badReads() map[string][]BadInput {
	inputs := map[string][]BadInput{}
	wrong := func(name string, rows ...BadInput) { inputs[name] = append(inputs[name], rows...) }
	tolerate := func(name, section string, targets ...string) {
		for _, target := range targets {
			wrong(name, BadInput{Target: target, Tolerated: section})
		}
	}
	window := func(path, more string) (rows []BadInput) {
		for parameters, says := range map[string]string{
			"from=yesterday": "from must be an ISO 8601 time", "to=7": "to must be an ISO 8601 time", "from=2031-13-01": "from must be", "to=%00": "to must be",
		} {
			rows = append(rows, BadInput{Target: path + "?" + parameters + more, Says: says})
		}
		return rows
	}
	filter := func(path string, names ...string) (rows []BadInput) {
		for _, name := range names {
			rows = append(rows, BadInput{Target: path + "?" + name + "=" + longName, Says: name + tooLong}, BadInput{Target: path + "?" + name + "=a%00b", Says: name + control})
		}
		return rows
	}
	for _, path := range []string{
		"/api/v1/status", "/api/v1/status/queues", "/api/v1/status/analytics", "/api/v1/analytics/queue-lag", "/api/v1/analytics/queue-ops",
		"/api/v1/analytics/queue-parked-replicas", "/api/v1/analytics/retention", "/api/v1/analytics/workload", "/api/v1/analytics/worker-metrics",
	} {
		wrong("GET "+path, append(window(path, ""), filter(path, "queue", "namespace", "task")...)...)
	}
	wrong("GET /api/v1/analytics/system-metrics", window("/api/v1/analytics/system-metrics", "")...)
	for _, value := range []string{"year", "-1", "%00"} {
		wrong("GET /api/v1/status/analytics", BadInput{Target: "/api/v1/status/analytics?interval=" + value, Says: "interval must be minute, hour or day"})
		wrong("GET /api/v1/analytics/retention", BadInput{Target: "/api/v1/analytics/retention?groupBy=" + value, Says: "bad groupBy"})
		wrong("GET /api/v1/analytics/workload", BadInput{Target: "/api/v1/analytics/workload?groupBy=" + value, Says: "bad groupBy"})
	}
	wrong("GET /api/v1/cluster/mesh/ping", append(filter("/api/v1/cluster/mesh/ping", "name"),
		BadInput{Target: "/api/v1/cluster/mesh/ping?name=nobody", Says: "no other broker is called nobody", Status: http.StatusNotFound})...)
	paged := func(path, more string) []string {
		return []string{path + "?limit=x" + more, path + "?limit=-1" + more, path + "?limit=" + overflow + more, path + "?offset=-1" + more, path + "?offset=x" + more}
	}
	tolerate("GET /api/v1/status/queues", "1.3", paged("/api/v1/status/queues", "")...)
	tolerate("GET /api/v1/analytics/partition-liveness", "1.3", paged("/api/v1/analytics/partition-liveness", "")...)
	signatures := "/api/v1/analytics/dlq-signatures"
	wrong("GET "+signatures, append(filter(signatures, "queue"), BadInput{Target: signatures, Says: "queue required"})...)
	tolerate("GET "+signatures, "1.3", paged(signatures, "&queue=q")...)

	for _, pattern := range []string{"/api/v1/resources/queues/:queue", "/api/v1/resources/queues/:queue/depth", "/api/v1/status/queues/:queue"} {
		for _, row := range badNames(pattern, "queue", "") { // sections 6.1 and 6.2
			wrong("GET "+pattern, BadInput{Target: row.Target, Says: "Queue not found", Status: http.StatusNotFound})
		}
	}
	for _, row := range badNames("/api/v1/resources/queues/:queue", "queue", "") {
		tolerate("DELETE /api/v1/resources/queues/:queue", "4.9", row.Target)
	}

	wrong("GET /api/v1/messages", append(window("/api/v1/messages", ""), filter("/api/v1/messages", "queue", "partition", "namespace", "task")...)...)
	wrong("GET /api/v1/messages", BadInput{Target: "/api/v1/messages?status=lost", Says: "status must be pending, processing, completed or dead_letter"})
	tolerate("GET /api/v1/messages", "1.3", paged("/api/v1/messages", "")...)
	wrong("GET /api/v1/dlq", filter("/api/v1/dlq", "queue")...)
	wrong("GET /api/v1/dlq", BadInput{Target: "/api/v1/dlq?consumerGroup=" + longName, Says: "consumerGroup" + tooLong})
	tolerate("GET /api/v1/dlq", "1.3", paged("/api/v1/dlq", "")...)
	tolerate("GET /api/v1/dlq", "6.4", "/api/v1/dlq?from=yesterday&to=%00&partition="+longName)
	wrong("DELETE /api/v1/dlq", append(filter("/api/v1/dlq", "queue"), BadInput{Target: "/api/v1/dlq", Says: "queue is required"},
		BadInput{Target: "/api/v1/dlq?queue=q&consumerGroup=" + longName, Says: "consumerGroup" + tooLong})...)

	message := "/api/v1/messages/:partitionId/:transactionId"
	for _, names := range [][2]string{{"nonsense", "t"}, {"-1", "t"}, {"a\x00b", "t"}, {somePartition, "\x00"}, {somePartition, longID}} {
		target := named(message, "partitionId", names[0], "transactionId", names[1])
		missing := BadInput{Target: target, Says: "Message not found", Status: http.StatusNotFound} // section 6.3
		wrong("GET "+message, missing)
		wrong("DELETE "+message, missing)
		missing.Target += "/retry"
		wrong("POST "+message+"/retry", missing)
		traces := "/api/v1/traces/:partitionId/:transactionId"
		tolerate("GET "+traces, "3", named(traces, "partitionId", names[0], "transactionId", names[1]))
	}
	byName := "/api/v1/traces/by-name/:traceName"
	tolerate("GET "+byName, "1.3", paged(named(byName), "")...)
	tolerate("GET "+byName, "6.7", named(byName, "traceName", "a\x00b"), named(byName, "traceName", longName))
	tolerate("GET /api/v1/traces/names", "1.3", paged("/api/v1/traces/names", "")...)

	lagging := "/api/v1/consumer-groups/lagging"
	tolerate("GET "+lagging, "1.3", lagging+"?minLagSeconds=x", lagging+"?minLagSeconds=-1", lagging+"?minLagSeconds="+overflow)
	tolerate("DELETE "+lagging, "1.3", lagging+"?deleteMetadata=maybe")
	group := "/api/v1/consumer-groups/:group"
	for _, name := range []string{longName, "a\x00b", "a\xffb"} {
		tolerate("GET "+group, "6.5", named(group, "group", name))
		tolerate("DELETE "+group, "6.6", named(group, "group", name))
		tolerate("DELETE "+group+"/queues/:queue", "6.6", named(group+"/queues/:queue", "group", name), named(group+"/queues/:queue", "queue", name))
	}
	tolerate("DELETE "+group, "1.3", named(group)+"?deleteMetadata=maybe")
	tolerate("DELETE "+group+"/queues/:queue", "1.3", named(group+"/queues/:queue")+"?deleteMetadata=maybe")
	return inputs
}
