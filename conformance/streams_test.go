package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	registeredForm = "{success:true,query_id:uuid,name:string,config_hash:string,fresh:bool,reset:bool}"
	cycleForm      = "{success:true,query_id:uuid,partition_id:uuid,queueName:string,state_ops_applied:int," +
		"push_results:[{queue:string,partition:string,status:string,baseOffset:int}],ack_result:object|null}"
	failedCycleForm = "{success:false,query_id:uuid,partition_id:uuid,error:string}"
)

func register(t testing.TB, s *server, name, source, hash string, reset bool) *answer {
	t.Helper()
	return s.post(t, "/streams/v1/queries", object{"name": name, "source_queue": source, "sink_queue": nil, "config_hash": hash, "reset": reset})
}

func stateOf(t testing.TB, s *server, query, partition string, filters object) (keys []string) {
	t.Helper()
	body := object{"query_id": query, "partition_id": partition}
	for name, value := range filters {
		body[name] = value
	}
	got := s.post(t, "/streams/v1/state/get", body).is(t, 200, "{success:true,rows:[{key:string,value:any,updated_at:string}]}")
	for i := range got.items(t, "rows") {
		keys = append(keys, got.text(t, "rows", i, "key"))
	}
	return keys
}

func upsert(key string, value any) object {
	return object{"type": "upsert", "key": key, "value": value}
}

func TestB16Streams(t *testing.T) {
	t.Parallel()
	s, q, name := plainServer.get(t), unique("b16"), unique("stream")
	first := register(t, s, name, q, "h1", false).is(t, 200, registeredForm)
	query := first.text(t, "query_id")
	require.Equal(t, true, first.at(t, "fresh"))
	again := register(t, s, name, q, "h1", false).is(t, 200, registeredForm)
	require.Equal(t, query, again.text(t, "query_id"))
	require.Equal(t, false, again.at(t, "fresh"))
	register(t, s, name, q, "h2", false).is(t, 409, "{success:false,error:string}")
	for _, missing := range []string{"name", "source_queue", "config_hash"} {
		for _, value := range []any{nil, ""} {
			body := object{"name": name, "source_queue": q, "config_hash": "h1"}
			body[missing] = value
			got := s.post(t, "/streams/v1/queries", body).is(t, 400, "{error:string}")
			require.Equal(t, missing+" is required", got.text(t, "error"))
		}
	}

	push(t, s, q, "p", numbered("m", 6)...)
	group := "streams." + name
	popQuery := "batch=200&partitions=4&subscriptionMode=all&leaseSeconds=1&consumerGroup=" + group
	popped := pop(t, s, q, popQuery)
	partition, lease := popped.text(t, "partitionId"), popped.text(t, "leaseId")
	sink := unique("b16sink")
	window := "tag\x1f0\x1fkey \"ü\""
	cycle := func(ack any, release bool, operations, items list) object {
		return object{
			"query_id": query, "partition_id": partition, "consumer_group": group, "state_ops": operations,
			"push_items": items, "ack": ack, "release_lease": release,
		}
	}
	ackOf := func(lease string, last, count int, status string) object {
		return object{"transactionId": fmt.Sprintf("m-%d", last), "leaseId": lease, "status": status, "count": count}
	}

	// A gate lets two of six through and keeps the lease.
	got := s.post(t, "/streams/v1/cycle", cycle(ackOf(lease, 1, 2, "completed"), false, list{
		upsert(window, object{"acc": 1, "windowStart": 0, "windowEnd": 1000}), upsert("__wm__", object{"eventTimeMs": 5}),
		upsert("gone", 1),
		object{"type": "delete", "key": "gone"},
	}, list{object{"queue": sink, "partition": "x", "payload": 1}, object{"queue": "", "payload": 2}})).is(t, 200, cycleForm)
	require.Equal(t, q, got.text(t, "queueName"))
	require.Len(t, got.items(t, "push_results"), 1)
	require.NoError(t, conforms(got.body, "{ack_result:{success:true,count:int,lease_released:false,dlq:false}}"))
	require.ElementsMatch(t, []string{"__wm__", window}, stateOf(t, s, query, partition, nil))
	require.Equal(t, []string{window}, stateOf(t, s, query, partition, object{"key_prefix": "tag\x1f"}))
	require.Equal(t, []string{"__wm__"}, stateOf(t, s, query, partition, object{"keys": list{"__wm__", "none"}}))
	require.Equal(t, []string{window}, stateOf(t, s, query, partition, object{"ripe_at_or_before": 1000}))
	require.Empty(t, stateOf(t, s, query, partition, object{"ripe_at_or_before": 999}))
	require.Len(t, pop(t, s, sink, "").items(t, "messages"), 1)

	// The rest comes back in order when the lease has expired.
	popped = pop(t, s, q, "batch=200&partitions=4&leaseSeconds=60&consumerGroup="+group)
	require.Equal(t, []string{"m-2", "m-3", "m-4", "m-5"}, transactions(t, popped))
	stale := lease
	lease = popped.text(t, "leaseId")

	// A wrong lease fails the whole cycle, its state and its pushes.
	s.post(t, "/streams/v1/cycle", cycle(ackOf(stale, 5, 4, "completed"), true, list{upsert("never", 1)},
		list{object{"queue": sink, "partition": "x", "payload": 3}})).is(t, 200, failedCycleForm)
	require.NotContains(t, stateOf(t, s, query, partition, nil), "never")
	popsNothing(t, s, sink, "partitions=9")

	// An idle flush has no ack. A failure gives the messages back at once.
	got = s.post(t, "/streams/v1/cycle", cycle(nil, true, list{}, list{})).is(t, 200, cycleForm)
	require.Equal(t, 0, got.number(t, "state_ops_applied"))
	s.post(t, "/streams/v1/cycle", cycle(ackOf(lease, 5, 4, "failed"), true, list{}, list{}))
	popped = pop(t, s, q, "batch=200&leaseSeconds=60&consumerGroup="+group)
	require.Len(t, popped.items(t, "messages"), 4)
	got = s.post(t, "/streams/v1/cycle", cycle(ackOf(popped.text(t, "leaseId"), 5, 4, "completed"), true, list{}, list{})).is(t, 200, cycleForm)
	require.NoError(t, conforms(got.body, "{ack_result:{success:true,count:int,lease_released:true,dlq:false}}"))
	popsNothing(t, s, q, "consumerGroup="+group)

	got = register(t, s, name, q, "h2", true).is(t, 200, registeredForm)
	require.Equal(t, query, got.text(t, "query_id"))
	require.Equal(t, true, got.at(t, "reset"))
	require.Empty(t, stateOf(t, s, query, partition, nil))

	for _, route := range []string{"/streams/v1/state/get", "/streams/v1/cycle"} {
		for _, missing := range []string{"query_id", "partition_id"} {
			body := object{"query_id": query, "partition_id": partition}
			delete(body, missing)
			s.post(t, route, body).refuses(t, 400, missing)
		}
		s.post(t, route, object{"query_id": "019a7d00-0000-7000-8000-000000000001", "partition_id": partition}).is(t, 404, "{error:=not found}")
		s.post(t, route, object{"query_id": query, "partition_id": "019a7d00-0000-7000-8000-000000000001"}).is(t, 404, "{error:=not found}")
		s.post(t, route, "[").refuses(t, 400, "bad body")
	}
}
