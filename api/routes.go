package api

import "net/http"

// routes is the table of everything this build serves. Routes of the contract that are not in it answer 404
// no_such_route, which clients know how to take.
func (s *Server) routes() []*route {
	get := func(h handler) map[string]handler {
		return map[string]handler{http.MethodGet: h, http.MethodHead: h}
	}
	// A pop changes the queue: it must not answer HEAD, whose sender sees no messages.
	pop := func(h handler) map[string]handler { return map[string]handler{http.MethodGet: h} }
	post := func(h handler) map[string]handler { return map[string]handler{http.MethodPost: h} }

	getOrPost := func(read, write handler) map[string]handler {
		methods := get(read)
		methods[http.MethodPost] = write
		return methods
	}
	remove := func(h handler) map[string]handler { return map[string]handler{http.MethodDelete: h} }

	queue := get(s.describeQueue)
	queue[http.MethodDelete] = s.deleteQueue
	letters := get(s.listDeadLetters)
	letters[http.MethodDelete] = s.deleteDeadLetters
	message := get(s.showMessage)
	message[http.MethodDelete] = s.deleteMessage
	group := get(s.describeGroup)
	group[http.MethodDelete] = s.deleteGroup
	// A group may be called like the route.
	lagging := get(s.listLagging)
	lagging[http.MethodDelete] = s.deleteGroupCalled("lagging")

	return []*route{
		{pattern: "/api/v1/push", scoped: true, methods: post(s.push)},
		{pattern: "/api/v1/pop", scoped: true, methods: pop(s.popDiscovery)},
		{pattern: "/api/v1/pop/queue/:queue/partition/:partition", scoped: true, methods: pop(s.popPinned)},
		{pattern: "/api/v1/pop/queue/:queue", scoped: true, methods: pop(s.popQueue)},
		{pattern: "/api/v1/ack", scoped: true, methods: post(s.ack)},
		{pattern: "/api/v1/ack/batch", scoped: true, methods: post(s.ackBatch)},
		{pattern: "/api/v1/transaction", scoped: true, methods: post(s.transaction)},
		{pattern: "/api/v1/lease/:leaseId/extend", scoped: true, methods: post(s.extend)},
		{pattern: "/api/v1/configure", scoped: true, methods: post(s.configure)},

		{pattern: "/api/v1/resources/queues", scoped: true, methods: get(s.listQueues)},
		{pattern: "/api/v1/resources/queues/:queue/depth", scoped: true, methods: get(s.showDepth)},
		{pattern: "/api/v1/resources/queues/:queue", scoped: true, methods: queue},
		{pattern: "/api/v1/resources/overview", scoped: true, methods: get(s.showOverview)},
		{pattern: "/api/v1/resources/namespaces", scoped: true, methods: get(s.listNamespaces)},
		{pattern: "/api/v1/resources/tasks", scoped: true, methods: get(s.listTasks)},
		{pattern: "/api/v1/stats/refresh", methods: post(s.refreshStatistics)},
		{pattern: "/api/v1/dlq", scoped: true, methods: letters},
		{pattern: "/api/v1/messages", scoped: true, methods: get(s.listMessages)},
		// Clients still carry methods for routes that have never been; names with slashes in them must not be seen there.
		{pattern: "/api/v1/messages/:partitionId/:transactionId/dlq", stub: true, methods: post(noSuchRoute)},
		{pattern: "/api/v1/status/queues/:queue/messages", stub: true, methods: get(noSuchRoute)},
		{pattern: "/api/v1/status", methods: get(s.showStatus)},
		{pattern: "/api/v1/status/queues", scoped: true, methods: get(s.listQueueStatus)},
		{pattern: "/api/v1/status/queues/:queue", scoped: true, methods: get(s.describeQueueStatus)},
		{pattern: "/api/v1/status/analytics", scoped: true, methods: get(s.showAnalytics)},
		{pattern: "/api/v1/status/buffers", methods: get(s.showBuffers)},
		{pattern: "/api/v1/analytics/queue-lag", scoped: true, methods: get(s.showQueueLag)},
		{pattern: "/api/v1/analytics/queue-ops", scoped: true, methods: get(s.showQueueOps)},
		{pattern: "/api/v1/analytics/queue-parked-replicas", scoped: true, methods: get(s.showParkedReplicas)},
		{pattern: "/api/v1/analytics/retention", scoped: true, methods: get(s.showRetention)},
		{pattern: "/api/v1/analytics/dlq-signatures", scoped: true, methods: get(s.showSignatures)},
		{pattern: "/api/v1/analytics/workload", scoped: true, methods: get(s.showWorkload)},
		{pattern: "/api/v1/analytics/partition-liveness", scoped: true, methods: get(s.showLiveness)},
		{pattern: "/api/v1/analytics/system-metrics", methods: get(s.showSystemMetrics)},
		{pattern: "/api/v1/analytics/worker-metrics", methods: get(s.showWorkerMetrics)},
		{pattern: "/api/v1/analytics/postgres-stats", methods: get(s.showPostgres)},
		{pattern: "/api/v1/messages/:partitionId/:transactionId/retry", scoped: true, methods: post(s.retryMessage)},
		{pattern: "/api/v1/messages/:partitionId/:transactionId", scoped: true, methods: message},

		{pattern: "/api/v1/dlq/:id/replay", scoped: true, methods: post(s.replayDeadLetter)},

		{pattern: "/streams/v1/queries", scoped: true, methods: post(s.registerStream)},
		{pattern: "/streams/v1/state/get", scoped: true, methods: post(s.readState)},
		{pattern: "/streams/v1/cycle", scoped: true, methods: post(s.cycle)},

		{pattern: "/api/v1/fetch", scoped: true, methods: post(s.fetch)},
		{pattern: "/api/v1/partitions/changed", scoped: true, methods: post(s.changedPartitions)},

		{pattern: "/api/v1/system/maintenance", methods: getOrPost(s.showMaintenance, s.setMaintenance)},
		{pattern: "/api/v1/system/maintenance/pop", methods: getOrPost(s.showPopMaintenance, s.setPopMaintenance)},
		{pattern: "/api/v1/system/shared-state", methods: get(s.showSharedState)},
		{pattern: "/internal/api/notify", methods: post(s.notify)},
		{pattern: "/internal/api/shared-state/stats", methods: get(s.showExchange)},
		{pattern: "/internal/api/inter-instance/stats", methods: get(s.showExchange)},
		{pattern: "/api/v1/consumer-groups", scoped: true, methods: get(s.listGroups)},
		{pattern: "/api/v1/consumer-groups/lagging", scoped: true, methods: lagging},
		{pattern: "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", scoped: true, methods: post(s.seekPartition)},
		{pattern: "/api/v1/consumer-groups/:group/queues/:queue/seek", scoped: true, methods: post(s.seekQueue)},
		{pattern: "/api/v1/consumer-groups/:group/subscription", scoped: true, methods: post(s.resubscribe)},
		{pattern: "/api/v1/consumer-groups/:group/queues/:queue", scoped: true, methods: remove(s.deleteQueueGroup)},
		{pattern: "/api/v1/consumer-groups/:group", scoped: true, methods: group},

		{pattern: "/api/v1/traces", scoped: true, methods: post(s.writeTrace)},
		{pattern: "/api/v1/traces/names", scoped: true, methods: get(s.listTraceNames)},
		{pattern: "/api/v1/traces/by-name/:traceName", scoped: true, methods: get(s.listTracesByName)},
		{pattern: "/api/v1/traces/:partitionId/:transactionId", scoped: true, methods: get(s.listTraces)},

		{pattern: "/auth/me", methods: get(s.showIdentity)},
		{pattern: "/auth/login", methods: get(s.showLogin)},
		{pattern: "/auth/logout", methods: post(s.logout)},

		{pattern: "/api/v1/openapi.json", methods: get(s.showOpenAPI)},
		{pattern: "/api/v1/cluster", methods: get(s.showCluster)},
		{pattern: "/api/v1/cluster/leader", methods: get(s.showLeader)},
		{pattern: "/api/v1/cluster/mesh", methods: get(s.showMesh)},
		{pattern: "/api/v1/cluster/leader/step-down", methods: post(s.stepDown)},
		{pattern: "/api/v1/cluster/leader/jobs/:job/run", methods: post(s.runJob)},
		{pattern: "/api/v1/cluster/leader/jobs/:job", methods: post(s.switchJob)},
		{pattern: "/api/v1/cluster/mesh/members", methods: get(s.listMeshMembers)},
		{pattern: "/api/v1/cluster/mesh/keys", methods: get(s.showMeshKeys)},
		{pattern: "/api/v1/cluster/mesh/keys/rotate", methods: post(s.rotateMeshKey)},
		{pattern: "/api/v1/cluster/mesh/ping", methods: get(s.pingMesh)},
		{pattern: "/health", methods: get(s.health)},
		{pattern: "/health/live", methods: get(s.live)},
		{pattern: "/health/ready", methods: get(s.ready)},
		{pattern: "/status", methods: get(s.statusPage)},
		{pattern: "/metrics", methods: get(s.showMetrics)},
		{pattern: "/metrics/prometheus", methods: get(s.prometheus)},
	}
}
