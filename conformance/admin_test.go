package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	counts = "total:int,pending:int,processing:int"
	stats  = "{" + counts + ",completed:int,failed:null,deadLetter:int}"
)

func TestResources(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("res")
	push(t, s, q+".task", "p", "1", "2")
	q += ".task"
	pop(t, s, q, "batch=1")
	for _, path := range []string{"/api/v1/resources/queues", "/api/v1/resources/queues?stats=cached&unknown=1"} {
		got := s.get(t, path).is(t, 200, "{queues:[{id:uuid,name:string,namespace:string,task:string,createdAt:millis,partitions:int,"+
			"retainedBytes:int,segments:{segments:int,messages:int},messages:{"+counts+"}}]}")
		require.Contains(t, string(got.body), q)
	}
	got := s.get(t, "/api/v1/resources/queues/"+q).is(t, 200, "{id:uuid,name:string,namespace:string,task:string,createdAt:millis,"+
		"priority?:int,options:object,partitions:[{id:uuid,name:string,createdAt:millis,stats:"+stats+",oldestMessage:string|null,"+
		"newestMessage:string|null}],totals:"+stats+",retainedBytes:int,segments:{segments:int,messages:int}}")
	require.Equal(t, 60, got.number(t, "options", "leaseTime"), "created by a push")
	s.get(t, "/api/v1/resources/queues/"+unique("none")).is(t, 404, "{error:=Queue not found}")
	got = s.get(t, "/api/v1/resources/queues/"+q+"/depth").is(t, 200, "{queue:string,group:null,pending:int,processing:int,ready:int,"+
		"partitionsPending:int,partitionsReady:int,conflation:false,effectivePending:int,effectiveReady:int,"+
		"partitions:[{partition:string,pending:int,processing:int,ready:int}]}")
	require.Equal(t, 2, got.number(t, "pending"))
	require.Equal(t, 1, got.number(t, "processing"))
	require.Equal(t, "g", s.get(t, "/api/v1/resources/queues/"+q+"/depth?group=g").is(t, 200, "{queue:string}").text(t, "group"))
	s.get(t, "/api/v1/resources/queues/"+unique("none")+"/depth").is(t, 404, "{error:=Queue not found}")
	const four = "{avg:number|null,median:number|null,min:number|null,max:number|null}"
	s.get(t, "/api/v1/resources/overview").is(t, 200, "{queues:int,partitions:int,namespaces:int,tasks:int,messages:{"+counts+
		",completed:int,failed:int|null,deadLetter:int},lag:{time:"+four+",offset:"+four+"},throughput:{ingestedPerSecond:number,"+
		"processedPerSecond:number},timestamp:string,statsAge:number}")
	s.post(t, "/api/v1/stats/refresh", nil).is(t, 200, "{engine:string,segPartitions:int}")
	s.post(t, "/api/v1/stats/refresh", "{}").is(t, 200, "{engine:string,segPartitions:int}")
	s.get(t, "/api/v1/resources/namespaces").is(t, 200, "{namespaces:[{namespace:string,queues:int,partitions:int,messages:{total:int,pending:int}}]}")
	s.get(t, "/api/v1/resources/tasks").is(t, 200, "{tasks:[{task:string,queues:int,partitions:int,messages:{total:int,pending:int}}]}")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("status")
	push(t, s, q, "p", "1")
	s.get(t, "/api/v1/status?from=&to=&queue=").is(t, 200, "{timeRange:{from:string,to:string},bucketMinutes:int,pointCount:int,statsAge:number,"+
		"throughput:[{timestamp:secs,ingested:int,processed:int,popMessages:int,ingestedPerSecond:number,processedPerSecond:number,"+
		"popPerSecond:number,avgLagMs:number|null,maxLagMs:number|null,avgEventLoopLagMs:number|null,maxEventLoopLagMs:number|null,"+
		"minFreeSlots:number|null,dbErrors:int,ackFailed:int,dlqCount:int,queenCpuUserPct:number|null,queenCpuSysPct:number|null,"+
		"queenRssMb:number|null,dbPoolActive:number|null,dbPoolIdle:number|null,dbPoolSize:number|null}],"+
		"queues:[{id:uuid,name:string,namespace:string,task:string,partitions:int,totalConsumed:int}],"+
		"messages:{"+counts+",completed:int,failed:int|null,deadLetter:int,requests:{push:int,pop:int,ack:int},"+
		"batchEfficiency:{push:number|null,pop:number|null,ack:number|null}},"+
		"leases:{active:int,partitionsWithLeases:int,totalBatchSize:int,totalAcked:int},"+
		"deadLetterQueue:{totalMessages:int,currentMessages:int,affectedPartitions:int,topErrors:[{error:string,count:int}]},"+
		"workers:[{hostname:string,workerId:any,avgEventLoopLagMs:number|null,maxEventLoopLagMs:number|null,freeSlots:number|null,"+
		"dbConnections:number|null,jobQueueSize:null,messagesProcessed:int}],errors:{dbErrors:int,ackFailed:int,dlqMessages:int}}")
	s.get(t, "/api/v1/status/queues?limit=5&offset=0").is(t, 200, "{queues:[{id:uuid,name:string,namespace:string,task:string,"+
		"createdAt:string,partitions:int,messages:{"+counts+",completed:int,deadLetter:int}}],pagination:{limit:int,offset:int}}")
	require.Len(t, s.get(t, "/api/v1/status/queues?queue="+q).is(t, 200, "{queues:[any]}").items(t, "queues"), 1)
	got := s.get(t, "/api/v1/status/queues/"+q+"?includePartitions=true").is(t, 200, "{queue:{id:uuid,name:string,namespace:string,"+
		"task:string,priority:int,createdAt:string,config:{leaseTime:int,retryLimit:int,retryDelay:int,ttl:int,maxQueueSize:int,"+
		"deadLetterQueue:bool}},partitions:[{id:uuid,name:string,createdAt:string,messages:object,stats:object,"+
		"cursor:{totalConsumed:int,batchesConsumed:int},lastActivity:string|null,oldestMessage:string|null,newestMessage:string|null}],"+
		"totals:{messages:object}}")
	require.Equal(t, q, got.text(t, "queue", "name"))
	s.get(t, "/api/v1/status/queues/"+unique("none")).is(t, 404, "{error:string}")
	for _, interval := range []string{"", "?interval=minute", "?interval=hour", "?interval=day"} {
		s.get(t, "/api/v1/status/analytics"+interval).is(t, 200, "{dataPoints:[{timestamp:string,messages:int}],interval:string,from:string,to:string}")
	}
	s.get(t, "/api/v1/status/buffers").is(t, 200, "{pending:int,failed:int,dbHealthy:true,worker:int}")
}

func TestAnalytics(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	get := func(path, form string) { t.Helper(); s.get(t, "/api/v1/analytics/"+path).is(t, 200, form) }
	q := unique("analytics")
	deadLetter(t, s, q, "g", "1")
	get("queue-lag", "[{queueName:string,popCount:int,avgLagMs:number|null,maxLagMs:number|null,bucketMinutes:int,bucketTime:string}]")
	get("queue-ops", "{timeRange:object,bucketMinutes:int,series:[{bucket:string,queueName:string,pushRequests:int,pushMessages:int,"+
		"popMessages:int,popEmpty:int,ackRequests:int,ackSuccess:int,ackFailed:int,transactions:int,partitionsCreated:int,"+
		"partitionsDeleted:int,partitionCount:int|null,avgLagMs:number|null,maxLagMs:number|null,pushPerSecond:number,popPerSecond:number,"+
		"ackPerSecond:number,emptyPerSecond:number,parkedCount:number|null}],queues:[any]}")
	get("queue-parked-replicas", "{series:[{bucket:string,queueName:string,hostname:string,workerId:any,parkedCount:number}],replicas:any}")
	get("retention?from=2001-01-01T00:00:00Z", "{timeRange:object,bucketMinutes:int,series:[{bucket:string,retentionMsgs:int,"+
		"completedRetentionMsgs:int,evictionMsgs:int,totalMsgs:int,eventCount:int}],totals:object}")
	s.get(t, "/api/v1/analytics/retention?groupBy=nonsense").is(t, 400, "{error:=bad groupBy}")
	get("system-metrics", "{timeRange:object,bucketMinutes:int,pointCount:int,replicas:[{hostname:string,timeSeries:[{timestamp:string,metrics:object}]}]}")
	get("worker-metrics", "{timeRange:object,bucketMinutes:int,pointCount:int,timeSeries:[{timestamp:string,pushMessages:int,popMessages:int,"+
		"ackMessages:int,pushRequests:int,popRequests:int,ackRequests:int,jobsDone:int,pushPerSecond:number,popPerSecond:number,"+
		"ackPerSecond:number,avgEventLoopLagMs:number|null,maxEventLoopLagMs:number|null,avgFreeSlots:number|null,minFreeSlots:number|null,"+
		"dbConnections:number|null,avgJobQueueSize:number|null,maxJobQueueSize:number|null,backoffSize:number|null,avgLagMs:number|null,"+
		"maxLagMs:number|null,lagCount:int,dbErrors:int,ackSuccess:int,ackFailed:int,dlqCount:int}],workers:any,"+
		"queues:[{queueName:string,popCount:int,avgLagMs:number|null,maxLagMs:number|null}],summary:any}")
	get("postgres-stats", "{timestamp:string,database:any,databaseCache:any,tableCache:any,indexCache:any,cacheSummary:any,deadTuples:any,"+
		"hotUpdates:any,activeQueries:any,autovacuumStatus:any,bufferConfig:any,bufferUsage:any,tableSizes:any}")
	if got := s.get(t, "/api/v1/analytics/dlq-signatures?queue="+q); got.status != 404 {
		got.is(t, 200, "{queue:string,rowsNow:int,sample:int,retryCounts:any,groups:any,oldest:string|null,newest:string|null,"+
			"avgBytes:number|null,signatures:[{text:string,n:int,share:number}],byDay:any}")
		s.get(t, "/api/v1/analytics/dlq-signatures").refuses(t, 400, "queue required")
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	s, q, g := plainServer.get(t), unique("groups"), unique("g")
	push(t, s, q, "p", "1", "2")
	pop(t, s, q, "batch=1&subscriptionMode=all&consumerGroup="+g)
	got := s.get(t, "/api/v1/consumer-groups").is(t, 200, "[{name:string,topics:[string],queueName:string,members:int,partitionCursors:int,"+
		"partitionsWithLag:int,totalLag:int,maxTimeLag:number,state:=Stable|=Lagging|=Dead,storage:=segments,subscriptionMode:string|null,"+
		"subscriptionTimestamp:string|null,subscriptionCreatedAt:string|null,conflation:bool}]")
	require.Contains(t, string(got.body), g)
	got = s.get(t, "/api/v1/consumer-groups/"+g).is(t, 200, "{"+q+":{conflation:false,partitions:[{partition:string,workerId:string|null,"+
		"lastConsumedAt:null,totalConsumed:int,offsetLag:int,timeLagSeconds:number,leaseActive:bool}]}}")
	require.Equal(t, true, got.at(t, q, "partitions", 0, "leaseActive"))
	require.Equal(t, "{}", strings.TrimSpace(string(s.get(t, "/api/v1/consumer-groups/"+unique("none")).is(t, 200, "{}").body)))
	got = s.get(t, "/api/v1/consumer-groups/lagging?minLagSeconds=0").is(t, 200, "[{consumer_group:string,queue_name:string,partition_name:string,"+
		"partition_id:uuid,worker_id:string|null,offset_lag:int,time_lag_seconds:number,lag_hours:number,oldest_unconsumed_at:string|null,"+
		"last_consumed_at:null}]")
	require.Contains(t, string(got.body), g)
	s.get(t, "/api/v1/consumer-groups/lagging").is(t, 200, "[any]")
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	s.get(t, "/health").is(t, 200, "{status:=healthy,database:=connected,engine:string,version:string}")
	s.get(t, "/status").is(t, 200, "{status:=ok,engine:string}")
	s.get(t, "/metrics").is(t, 200, "{uptime:number,requests:{total:int,rate:number},messages:{total:int,rate:number},"+
		"database:{poolSize:int,idleConnections:int,waitingRequests:int},memory:{rss:int,heapTotal:int,heapUsed:int,external:int,"+
		"arrayBuffers:int},cpu:{user:number,system:number}}")
	got := s.get(t, "/metrics/prometheus")
	require.Equal(t, 200, got.status)
	require.Contains(t, got.header.Get("Content-Type"), "text/plain; version=0.0.4")
	require.Equal(t, "no-cache", got.header.Get("Cache-Control"))
	for _, family := range []string{
		"event_loop_lag_avg_milliseconds", "process_push_requests_total", "process_pop_messages_total", "process_ack_messages_total",
		"process_resident_memory_bytes", "uptime_seconds", "maintenance_mode_enabled", "file_buffer_pending", "file_buffer_db_healthy",
		"db_pool_size", "db_pool_idle", "db_pool_active", "dlq_depth",
	} {
		require.True(t, strings.Contains(string(got.body), "\nqueen_"+family), "no family queen_%s", family)
	}
	for _, path := range []string{"/health", "/status", "/metrics", "/metrics/prometheus", "/api/v1/resources/queues"} {
		head := s.call(t, "HEAD", path, nil)
		require.Equal(t, 200, head.status, path)
		require.Empty(t, head.body)
	}
	s.get(t, "/api/v1/system/shared-state").is(t, 200, "{enabled:bool,maintenance_mode:false,pop_maintenance_mode:bool}")
}

func TestMetricsOfTheCluster(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("families")
	push(t, s, q, "p", "1")
	got := s.get(t, "/metrics/prometheus")
	for _, family := range []string{
		"cluster_push_messages_total", "cluster_pop_requests_total", "cluster_ack_messages_total", "cluster_ack_total",
		"cluster_db_errors_total", "cluster_dlq_total", "cluster_transactions_total", "dlq_depth",
		"batches_fired_total", "batch_items_fired_total", "fusion_items_per_batch", "batch_rtt_milliseconds", "pop_fill_wait_total",
		"pop_fill_wait_microseconds_total", "pop_targeted_total", "pop_wildcard_total", "admission_budget", "admission_cycle_ms",
		"admission_inflight", "admission_waiting", "admission_trains_per_s", "admission_txn_per_train",
	} {
		require.True(t, strings.Contains(string(got.body), "\nqueen_"+family), "no family queen_%s", family)
	}
}

// Maintenance is the whole cluster's: these tests do not run beside others.
func TestB13Maintenance(t *testing.T) {
	s, q := plainServer.get(t), unique("b13")
	const path = "/api/v1/system/maintenance"
	s.get(t, path).is(t, 200, "{maintenanceMode:false,popMaintenanceMode:false,bufferedMessages:int,bufferHealthy:bool,bufferStats:{pendingCount:int,"+
		"failedCount:int,dbHealthy:bool,failedFiles:{count:int,totalBytes:int,totalMB:number,failoverCount:int,qos0Count:int}}}")
	on := s.post(t, path, object{"enabled": true})
	if on.status == 501 {
		on.is(t, 501, "{error:string}")
		require.NotEmpty(t, on.text(t, "error"))
		require.Equal(t, false, s.get(t, path).at(t, "maintenanceMode"))
		require.Equal(t, "queued", push(t, s, q, "p", "1").text(t, 0, "status"))
		return
	}
	on.is(t, 200, "{maintenanceMode:true,bufferedMessages:int,bufferHealthy:bool,message:string}")
	defer s.post(t, path, object{"enabled": false})
	eventually(t, 10*time.Second, "all brokers buffer", func() bool {
		id := unique("x")
		for range 3 * len(s.urls) {
			if push(t, s, unique("b13other"), "p", id).text(t, 0, "status") != "buffered" {
				return false
			}
		}
		return true
	})
	push(t, s, q, "p", numbered("m", 20)...)
	s.post(t, path, object{"enabled": false}).is(t, 200, "{maintenanceMode:false}")
	eventually(t, 30*time.Second, "the buffer is empty", func() bool { return s.get(t, path).number(t, "bufferedMessages") == 0 })
	received := 0
	for received < 20 {
		received += len(pop(t, s, q, "autoAck=true").items(t, "messages"))
	}
	for _, bad := range []string{"{}", `{"enabled":"yes"}`} {
		require.Equal(t, "enabled (boolean) is required", s.post(t, path, bad).is(t, 400, "{error:string}").text(t, "error"))
	}
}

func TestPopMaintenance(t *testing.T) {
	s, q := plainServer.get(t), unique("paused")
	const path = "/api/v1/system/maintenance/pop"
	got := s.get(t, path).is(t, 200, "{popMaintenanceMode:false,message:string}")
	require.Equal(t, "Pop maintenance mode is OFF. Normal operation.", got.text(t, "message"))
	for _, bad := range []string{"{}", `{"enabled":"yes"}`, `{"enabled":null}`} {
		require.Equal(t, "enabled (boolean) is required", s.post(t, path, bad).is(t, 400, "{error:string}").text(t, "error"))
	}
	push(t, s, q, "p", "1")
	got = s.post(t, path, object{"enabled": true}).is(t, 200, "{popMaintenanceMode:true,message:string}")
	defer s.post(t, path, object{"enabled": false})
	require.Equal(t, "Pop maintenance mode ENABLED. All POP operations will return empty arrays.", got.text(t, "message"))
	eventually(t, 10*time.Second, "every broker knows", func() bool {
		for range 4 * len(s.urls) {
			if s.get(t, path).at(t, "popMaintenanceMode") != true {
				return false
			}
		}
		return true
	})
	popsNothing(t, s, q, "")
	paused := s.get(t, popPath(q, "conflation=true&consumerGroup=c")).is(t, 200, "{messages:[any],paused:true,conflation:true}")
	require.Empty(t, paused.items(t, "messages"))
	require.Equal(t, true, s.get(t, "/api/v1/system/maintenance").at(t, "popMaintenanceMode"))
	s.post(t, "/api/v1/fetch", object{"entries": list{object{"queue": q, "partition": "p", "offset": 0}}}).is(t, 200, "{entries:[{records:[{offset:int}]}]}")
	s.post(t, path, object{"enabled": false}).is(t, 200, "{popMaintenanceMode:false}")
	require.Len(t, pop(t, s, q, "").items(t, "messages"), 1)
}

func TestB14Retention(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	empty := func(q string) bool {
		got := s.post(t, "/api/v1/fetch", object{"entries": list{object{"queue": q, "partition": "p", "offset": 0}}})
		return got.number(t, "entries", 0, "logStartOffset") == got.number(t, "entries", 0, "highWatermark")
	}
	t.Run("what all have consumed vanishes", func(t *testing.T) {
		t.Parallel()
		q := unique("b14done")
		configure(t, s, q, object{"retentionEnabled": true, "completedRetentionSeconds": 1})
		push(t, s, q, "p", "1")
		popped := pop(t, s, q, "")
		partition := popped.text(t, "partitionId")
		ackAll(t, s, popped)
		eventually(t, 20*time.Second, "retention ran", func() bool { return empty(q) })
		s.get(t, "/api/v1/messages/"+partition+"/1").is(t, 404, "{error:=Message not found}")
	})
	t.Run("what nobody consumes in time vanishes", func(t *testing.T) {
		t.Parallel()
		q := unique("b14wait")
		configure(t, s, q, object{"maxWaitTimeSeconds": 1})
		push(t, s, q, "p", "1")
		eventually(t, 20*time.Second, "retention ran", func() bool { return empty(q) })
		popsNothing(t, s, q, "")
		push(t, s, q, "p", "2")
		require.Equal(t, []string{"2"}, transactions(t, pop(t, s, q, "")))
	})
}
