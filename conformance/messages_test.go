package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	detailForm = "{id:v7,transactionId:string,data:any,payload:any,traceId:string|null,producerSub:string|null,createdAt:string," +
		"partitionId:uuid,partition:string,isEncrypted:bool,queue:string,queuePath:string,namespace:string|null,task:string|null," +
		"status:=pending|=processing|=completed|=dead_letter,errorMessage:string|null,retryCount:int|null,leaseExpiresAt:string|null," +
		"queueConfig:{leaseTime:int,retryLimit:int,retryDelay:int,ttl:int,priority:int}," +
		"consumerGroups:[{name:string,group:string,consumed:bool,leaseExpiresAt:string|null}],mode:any}"
	movedForm = "{success:true,result:=moved|=duplicate,queue:string,partition:string,consumerGroup:string,dlqId:string," +
		"originalTransactionId:string,replayedAs:{index:int,message_id:v7,transaction_id:string,queueName:string,status:string," +
		"offset:int},dlqRowRemoved:true}"
)

// deadLetter pushes a message and has the group dead-letter it.
func deadLetter(t testing.TB, s *server, queue, group, transaction string) (partitionID string) {
	t.Helper()
	push(t, s, queue, "p", transaction)
	popped := pop(t, s, queue, "batch=1&subscriptionMode=all&consumerGroup="+group)
	require.Equal(t, true, ack(t, s, popped, 0, "dlq").at(t, 0, "dlq"))
	return popped.text(t, "partitionId")
}

func letterID(t testing.TB, s *server, queue string) string {
	t.Helper()
	return fmt.Sprint(s.get(t, "/api/v1/dlq?queue="+queue).is(t, 200, letterForm).at(t, "messages", 0, "id"))
}

func TestB16MessageDetail(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("detail")
	push(t, s, q, "p", "1", "2")
	popped := pop(t, s, q, "batch=1")
	partition := popped.text(t, "partitionId")
	state := func(transaction string) string {
		t.Helper()
		got := s.get(t, "/api/v1/messages/"+partition+"/"+transaction).is(t, 200, detailForm)
		require.Equal(t, transaction, got.text(t, "transactionId"))
		require.Equal(t, q+"/p", got.text(t, "queuePath"))
		require.Equal(t, transaction, got.text(t, "data", "id"))
		require.Equal(t, transaction, got.text(t, "payload", "id"))
		return got.text(t, "status")
	}
	require.Equal(t, "processing", state("1"))
	require.Equal(t, "pending", state("2"))
	ackAll(t, s, popped)
	require.Equal(t, "completed", state("1"))
	ack(t, s, pop(t, s, q, "batch=1"), 0, "dlq")
	require.Equal(t, "dead_letter", state("2"))
	s.get(t, "/api/v1/messages/"+partition+"/none").is(t, 404, "{error:=Message not found}")
	s.get(t, "/api/v1/messages/no-uuid/none").is(t, 404, "{error:=Message not found}")
}

func TestMessageList(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("list")
	const form = "{messages:[{id:v7,transactionId:string,txnHash:string|int|null,partitionId:uuid,queuePath:string,queue:string," +
		"partition:string,namespace:string|null,task:string|null,status:string,queueStatus:string,queuePriority?:int," +
		"busStatus:{consumedBy:int,totalGroups:int},traceId:string|null,producerSub:string|null,payloadAvailable:bool," +
		"segment:{seq:int,frameIdx:int},createdAt:string,leaseExpiresAt:string|null,data:any,payload:any,isEncrypted:bool}]," +
		"mode:{hasQueueMode:bool,busGroupsCount:int,type:=queue|=bus|=hybrid|=none},total:int}"
	push(t, s, q, "p", "1", "2", "3")
	ackAll(t, s, pop(t, s, q, "batch=1"))
	list := func(query string) []any {
		return s.get(t, "/api/v1/messages?queue="+q+query).is(t, 200, form).items(t, "messages")
	}
	require.Len(t, list(""), 3)
	require.Len(t, list("&limit=2"), 2)
	require.Len(t, list("&limit=nonsense&offset="), 3, "what does not parse falls back")
	require.Len(t, list("&offset=2"), 1)
	require.Len(t, list("&status=completed"), 1)
	require.Len(t, list("&status=pending&partition=p"), 2)
	require.Empty(t, list("&partition=other"))
	require.Equal(t, 2, s.get(t, "/api/v1/messages?limit=2&queue="+q).number(t, "total"), "the length of the page")
}

func TestRetryMovesADeadLetter(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	for _, body := range []any{nil, "", "{}"} {
		q := unique("retry")
		partition := deadLetter(t, s, q, "ledger", "b-1")
		id := letterID(t, s, q)
		got := s.post(t, "/api/v1/messages/"+partition+"/b-1/retry", body).is(t, 200, movedForm)
		require.Equal(t, id, got.text(t, "dlqId"))
		require.Equal(t, "dlq:"+id, got.text(t, "replayedAs", "transaction_id"))
		require.Equal(t, "b-1", got.text(t, "originalTransactionId"))
		require.Equal(t, []string{"dlq:" + id}, transactions(t, pop(t, s, q, "consumerGroup=ledger")))
		require.Equal(t, []string{"b-1", "dlq:" + id}, transactions(t, pop(t, s, q, "")), "for all groups")
		s.post(t, "/api/v1/messages/"+partition+"/b-1/retry", body).is(t, 404, "{success:false,error:=Message not found}")
	}
}

func TestReplayByID(t *testing.T) {
	t.Parallel()
	s, q, other := plainServer.get(t), unique("replay"), unique("replayed")
	deadLetter(t, s, q, "g", "1")
	id := letterID(t, s, q)
	for _, blank := range []string{`{"queue":" "}`, `{"partition":""}`} {
		got := s.post(t, "/api/v1/dlq/"+id+"/replay", blank)
		require.Equal(t, 400, got.status, "%s", got.body)
	}
	s.post(t, "/api/v1/dlq/"+id+"/replay", object{"queue": other, "partition": "x"}).is(t, 200, movedForm)
	require.Equal(t, []string{"dlq:" + id}, transactions(t, pop(t, s, other, "")))
	s.post(t, "/api/v1/dlq/"+id+"/replay", nil).is(t, 404, "{success:false,result:=gone,dlqId:string,error:=Message not found,message:string}")
	s.post(t, "/api/v1/dlq/nonsense/replay", nil).is(t, 404, "{success:false}")
}

func TestDeletionOfDeadLetters(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("forget")
	partition := deadLetter(t, s, q, "g", "1")
	s.delete(t, "/api/v1/messages/"+partition+"/1").is(t, 200, "{success:true,partitionId:uuid,transactionId:string,message:=Message deleted successfully}")
	s.delete(t, "/api/v1/messages/"+partition+"/1").
		is(t, 404, "{success:false,partitionId:uuid,transactionId:string,error:=Message not found,message:string}")
	deadLetter(t, s, q, "g", "2")
	deadLetter(t, s, q, "g", "3")
	const form = "{success:true,deleted:int,queue:string,consumerGroup:string|null}"
	require.Equal(t, 0, s.delete(t, "/api/v1/dlq?consumerGroup=other&queue="+q).is(t, 200, form).number(t, "deleted"))
	require.Equal(t, 2, s.delete(t, "/api/v1/dlq?queue="+q).is(t, 200, form).number(t, "deleted"))
	require.Equal(t, "queue is required", s.delete(t, "/api/v1/dlq").is(t, 400, "{error:string}").text(t, "error"))
}

func TestTraces(t *testing.T) {
	t.Parallel()
	s, q, name := plainServer.get(t), unique("trace"), unique("name")
	push(t, s, q, "p", "1")
	partition := pop(t, s, q, "").text(t, "partitionId")
	for _, names := range []any{list{name, "other-" + name}, name} {
		s.post(t, "/api/v1/traces", object{
			"transactionId": "1", "partitionId": partition, "consumerGroup": "g", "traceNames": names,
			"eventType": "step", "data": object{"n": 1},
		}).is(t, 201, "{success:true,traceId:uuid}")
	}
	s.post(t, "/api/v1/traces", object{"transactionId": "1", "partitionId": partition, "data": "plain"}).is(t, 201, "{success:true,traceId:uuid}")
	const form = "id:uuid,event_type:string,data:any,consumer_group:string,worker_id:string|null,created_at:string,trace_names:[string]"
	got := s.get(t, "/api/v1/traces/"+partition+"/1").is(t, 200, "{traces:[{"+form+"}]}")
	require.Len(t, got.items(t, "traces"), 3)
	require.Equal(t, "step", got.text(t, "traces", 0, "event_type"), "oldest first")
	require.Equal(t, "info", got.text(t, "traces", 2, "event_type"))
	require.Equal(t, "__QUEUE_MODE__", got.text(t, "traces", 2, "consumer_group"))
	got = s.get(t, "/api/v1/traces/by-name/"+name+"?limit=1").is(t, 200, "{traces:[{id:uuid,event_type:string,data:any}],total:int,pagination:object}")
	require.Equal(t, 2, got.number(t, "total"))
	require.Len(t, got.items(t, "traces"), 1)
	require.Equal(t, q, got.text(t, "traces", 0, "queue_name"))
	require.Contains(t, string(got.body), `"message_payload":null`)
	s.get(t, "/api/v1/traces/names?limit=1").is(t, 200, "{trace_names:[{trace_name:string,trace_count:int,message_count:int,last_seen:string}],total:int,pagination:object}")
	require.Empty(t, s.get(t, "/api/v1/traces/"+partition+"/none").is(t, 200, "{traces:[any]}").items(t, "traces"))
	const required = "transactionId and partitionId are required"
	require.Equal(t, required, s.post(t, "/api/v1/traces", object{"transactionId": "1", "data": 1}).is(t, 400, "{error:string}").text(t, "error"))
	require.Equal(t, required, s.post(t, "/api/v1/traces", object{"partitionId": partition, "data": 1}).is(t, 400, "{error:string}").text(t, "error"))
	s.post(t, "/api/v1/traces", object{"transactionId": "1", "partitionId": partition}).refuses(t, 400, "data is required")
	s.post(t, "/api/v1/traces", "{").refuses(t, 400, "bad body")
}

func TestFetchReadsWithoutCursors(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("fetch")
	push(t, s, q, "p", "1", "2", "3")
	const form = "{entries:[{queue:string,partition:string,records:[{offset:int,transactionId:string,payload:any,ts:any}],highWatermark:int,logStartOffset:int}]}"
	fetch := func(body object) *answer { return s.post(t, "/api/v1/fetch", body) }
	got := fetch(object{"entries": list{object{"queue": q, "partition": "p", "offset": 1}}}).is(t, 200, form)
	require.Equal(t, "2", got.text(t, "entries", 0, "records", 0, "transactionId"))
	require.Equal(t, 1, got.number(t, "entries", 0, "records", 0, "offset"))
	require.Equal(t, 3, got.number(t, "entries", 0, "highWatermark"))
	got = fetch(object{"entries": list{
		object{"queue": unique("none"), "offset": 0}, object{"queue": q, "partition": "p", "offset": 99}, object{"queue": q, "partition": "new", "offset": 0},
	}}).is(t, 200, "{entries:[object]}")
	require.Equal(t, "UNKNOWN_TOPIC_OR_PARTITION", got.text(t, "entries", 0, "error"))
	require.Equal(t, "OFFSET_OUT_OF_RANGE", got.text(t, "entries", 1, "error"))
	require.Equal(t, 0, got.number(t, "entries", 2, "highWatermark"))
	require.Empty(t, fetch(object{"entries": list{}}).is(t, 200, "{entries:[any]}").items(t, "entries"))
	fetch(object{"entries": list{object{"queue": q, "offset": -1}}}).refuses(t, 400, "offset")
	fetch(object{"entries": list{object{"offset": 0}}}).refuses(t, 400, "queue")
	began := time.Now()
	fetch(object{"entries": list{object{"queue": q, "partition": "p", "offset": 3}}, "maxWaitMs": 300}).is(t, 200, form)
	require.GreaterOrEqual(t, time.Since(began), 250*time.Millisecond)

	changed := s.post(t, "/api/v1/partitions/changed", object{"entries": list{object{"queue": q}, object{"queue": unique("none")}}}).
		is(t, 200, "{safeTime:any,safeTimeDegraded:bool,entries:[{queue:string}]}")
	require.NoError(t, conforms(s.post(t, "/api/v1/partitions/changed", object{"entries": list{object{"queue": q}}}).body,
		"{entries:[{queue:string,partitions:[{name:string,lastOffset:int,logStart:int,lastWriteAt:any}],next:any}]}"))
	require.Equal(t, "UNKNOWN_TOPIC_OR_PARTITION", changed.text(t, "entries", 1, "error"))
	got = s.post(t, "/api/v1/partitions/changed", object{"entries": list{object{"queue": q, "after": "nonsense"}}}).is(t, 200, "{safeTime:any}")
	require.Equal(t, "BAD_CURSOR", got.text(t, "entries", 0, "error"))
	s.post(t, "/api/v1/partitions/changed", object{"entries": list{}}).is(t, 200, "{safeTime:any}")
}
