package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsolationOfTenants(t *testing.T) {
	t.Parallel()
	s := tenantServer.get(t)
	const uuidA, uuidB = "aaaaaaaa-0000-4000-8000-", "BBBBBBBB-0000-4000-8000-"
	run := unique("")[1:13]
	ours, theirs := s.with("x-queen-tenant", uuidA+run), s.with("x-queen-tenant", uuidB+run)
	q, g, name := unique("own"), unique("g"), unique("n")

	configure(t, ours, q, object{"retryLimit": 0})
	push(t, ours, q, "p", "dead", "live", "rest")
	dead := pop(t, ours, q, "batch=1&subscriptionMode=all&consumerGroup="+g)
	ack(t, ours, dead, 0, "dlq")
	popped := pop(t, ours, q, "batch=1&consumerGroup="+g)
	partition, lease := popped.text(t, "partitionId"), popped.text(t, "leaseId")
	letter := letterID(t, ours, q)
	query := register(t, ours, name, q, "h", false).is(t, 200, registeredForm).text(t, "query_id")
	ours.post(t, "/api/v1/traces", object{"transactionId": "live", "partitionId": partition, "traceNames": name, "data": 1}).is(t, 201, "{success:true}")

	for who, stranger := range map[string]*server{"another tenant": theirs, "the default tenant": s} {
		t.Run(who, func(t *testing.T) {
			stolen := ackOf(popped, t, 0, "completed")
			got := stranger.post(t, "/api/v1/ack", stolen).is(t, 200, ackedForm)
			require.Equal(t, "partition not owned by tenant", got.text(t, 0, "error"))
			delete(stolen, "leaseId")
			got = stranger.post(t, "/api/v1/ack/batch", object{"acknowledgments": list{stolen}, "consumerGroup": g}).is(t, 200, ackedForm)
			require.Equal(t, "partition not owned by tenant", got.text(t, 0, "error"))
			got = stranger.post(t, "/api/v1/transaction", object{"operations": list{ackOperation(popped, t, 0, "completed")}}).is(t, 200, rolledBackForm)
			require.Equal(t, "ack_rejected", got.text(t, "reason"))
			message := "/api/v1/messages/" + partition + "/"
			stranger.get(t, message+"live").is(t, 404, "{error:=Message not found}")
			stranger.delete(t, message+"dead").is(t, 404, "{success:false,error:=Message not found}")
			stranger.post(t, message+"dead/retry", "{}").is(t, 404, "{success:false,error:=Message not found}")
			stranger.post(t, "/api/v1/dlq/"+letter+"/replay", nil).is(t, 404, "{success:false,result:=gone}")
			stranger.post(t, "/api/v1/traces", object{"transactionId": "live", "partitionId": partition, "data": 1}).
				is(t, 404, "{success:false,error:=Message not found}")
			require.Empty(t, stranger.get(t, "/api/v1/traces/"+partition+"/live").is(t, 200, "{traces:[any]}").items(t, "traces"))
			require.Empty(t, stranger.get(t, "/api/v1/traces/by-name/"+name).is(t, 200, "{traces:[any]}").items(t, "traces"))
			require.Equal(t, 0, stranger.post(t, "/api/v1/lease/"+lease+"/extend", "{}").is(t, 200, extendedForm).number(t, "renewed"))
			for _, route := range []string{"/streams/v1/state/get", "/streams/v1/cycle"} {
				stranger.post(t, route, object{"query_id": query, "partition_id": partition}).is(t, 404, "{error:=not found}")
			}
			fresh := register(t, stranger, name, q, "other", false).is(t, 200, registeredForm)
			require.NotEqual(t, query, fresh.text(t, "query_id"))
			stranger.post(t, "/streams/v1/cycle", object{"query_id": fresh.text(t, "query_id"), "partition_id": partition, "state_ops": list{upsert("k", 1)}}).
				is(t, 404, "{error:=not found}")
			stranger.post(t, "/streams/v1/state/get", object{"query_id": fresh.text(t, "query_id"), "partition_id": partition}).is(t, 404, "{error:=not found}")

			// What is addressed by name is another thing of the same name, or nothing.
			stranger.get(t, "/api/v1/resources/queues/"+q).is(t, 404, "{error:string}")
			stranger.get(t, "/api/v1/resources/queues/"+q+"/depth").is(t, 404, "{error:string}")
			stranger.get(t, "/api/v1/status/queues/"+q).is(t, 404, "{error:string}")
			stranger.get(t, "/api/v1/pop/queue/"+q+"/partition/p").isEmpty(t)
			stranger.get(t, "/api/v1/pop?namespace="+q).isEmpty(t)
			require.Empty(t, stranger.get(t, "/api/v1/messages?queue="+q).is(t, 200, "{messages:[any]}").items(t, "messages"))
			require.Empty(t, stranger.get(t, "/api/v1/dlq?queue="+q).is(t, 200, "{messages:[any]}").items(t, "messages"))
			require.Equal(t, 0, stranger.delete(t, "/api/v1/dlq?queue="+q).is(t, 200, "{success:true}").number(t, "deleted"))
			require.JSONEq(t, "{}", string(stranger.get(t, "/api/v1/consumer-groups/"+g).is(t, 200, "{}").body))
			require.Equal(t, 0, stranger.delete(t, "/api/v1/consumer-groups/"+g+"?deleteMetadata=true").is(t, 200, "{success:true}").number(t, "deletedPartitions"))
			stranger.delete(t, "/api/v1/consumer-groups/"+g+"/queues/"+q+"?deleteMetadata=true").is(t, 200, "{success:true}")
			stranger.post(t, "/api/v1/consumer-groups/"+g+"/queues/"+q+"/seek", object{"toEnd": true}).is(t, 404, "{success:false}")
			stranger.post(t, "/api/v1/consumer-groups/"+g+"/queues/"+q+"/partitions/p/seek", nil).is(t, 404, "{error:=Partition not found}")
			require.Equal(t, 0, stranger.post(t, "/api/v1/consumer-groups/"+g+"/subscription", object{"subscriptionTimestamp": "2001-01-01T00:00:00Z"}).
				is(t, 200, "{success:bool}").number(t, "rowsUpdated"))
			fetched := stranger.post(t, "/api/v1/fetch", object{"entries": list{object{"queue": q, "partition": "p", "offset": 0}}})
			require.Equal(t, "UNKNOWN_TOPIC_OR_PARTITION", fetched.text(t, "entries", 0, "error"))
			changed := stranger.post(t, "/api/v1/partitions/changed", object{"entries": list{object{"queue": q}}})
			require.Equal(t, "UNKNOWN_TOPIC_OR_PARTITION", changed.text(t, "entries", 0, "error"))
			for _, path := range []string{
				"/api/v1/resources/queues", "/api/v1/resources/namespaces", "/api/v1/resources/tasks", "/api/v1/status/queues",
				"/api/v1/consumer-groups", "/api/v1/consumer-groups/lagging?minLagSeconds=0", "/api/v1/traces/names", "/api/v1/dlq",
				"/api/v1/messages", "/api/v1/analytics/queue-lag", "/api/v1/analytics/queue-ops",
			} {
				got := stranger.get(t, path)
				require.Equal(t, 200, got.status, "%s: %s", path, got.body)
				for _, secret := range []string{q, g, partition} {
					require.NotContains(t, string(got.body), secret, path)
				}
			}
			stranger.delete(t, "/api/v1/resources/queues/"+q).is(t, 200, "{deleted:false,queue:string,existed:false}")
		})
	}

	// Nothing of all that has left a trace.
	require.Equal(t, true, ack(t, ours, popped, 0, "completed").at(t, 0, "success"))
	require.Equal(t, letter, letterID(t, ours, q))
	require.Equal(t, []string{"rest"}, transactions(t, pop(t, ours, q, "consumerGroup="+g)))
	upper := s.with("x-queen-tenant", "AAAAAAAA-0000-4000-8000-"+run)
	upper.get(t, "/api/v1/resources/queues/"+q).is(t, 200, "{id:uuid}")
	for _, bad := range []string{"x", "aaaaaaaa00004000800000000000000a", "{" + uuidA + run + "}", uuidA + run + "0"} {
		got := s.with("x-queen-tenant", bad).get(t, "/api/v1/resources/queues").is(t, 400, "{error:string}")
		require.Equal(t, "invalid x-queen-tenant header (must be a UUID)", got.text(t, "error"))
	}
	for _, blank := range []string{"", " "} {
		s.with("x-queen-tenant", blank).get(t, "/api/v1/resources/queues").is(t, 200, "{queues:[any]}")
	}
}

func TestTheTenantHeaderIsNotReadUnlessAskedFor(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("unread")
	push(t, s.with("x-queen-tenant", "nonsense"), q, "p", "1")
	require.Equal(t, []string{"1"}, transactions(t, pop(t, s, q, fmt.Sprintf("batch=%d", 1))))
}
