package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	committedForm  = "{transactionId:v7,success:true,results:[{index:int,type:=push|=ack,success:true,transactionId:string}]}"
	rolledBackForm = "{transactionId:v7,success:false,reason:string,error:string,results:[any]}"
)

func ackOperation(popped *answer, t testing.TB, i int, status string) object {
	t.Helper()
	operation := ackOf(popped, t, i, status)
	operation["type"] = "ack"
	return operation
}

func pushOperation(items ...any) object { return object{"type": "push", "items": list(items)} }

func TestB10Transactions(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)

	t.Run("push and ack commit together", func(t *testing.T) {
		t.Parallel()
		q, sink := unique("b10"), unique("b10sink")
		push(t, s, q, "p", "1", "2")
		popped := pop(t, s, q, "")
		trace := "019a7c12-0000-7000-8000-00000000000f"
		got := s.post(t, "/api/v1/transaction", object{"operations": list{
			pushOperation(
				object{"queue": sink, "partition": "x", "payload": 1, "transactionId": "t1", "traceId": trace},
				object{"queue": sink, "data": object{"alias": true}, "transactionId": "t2"},
				object{"queue": sink, "partition": "x", "payload": 1, "transactionId": "t1"},
			),
			ackOperation(popped, t, 0, "completed"), ackOperation(popped, t, 1, "completed"),
			object{"type": "push", "queue": sink, "payload": "flat"},
			object{"type": "push", "queue": sink},
		}}).is(t, 200, committedForm)
		results := got.items(t, "results")
		require.Len(t, results, 7)
		for i, kind := range []string{"push", "push", "push", "ack", "ack", "push", "push"} {
			require.Equal(t, kind, got.text(t, "results", i, "type"))
			require.Equal(t, i, got.number(t, "results", i, "index"))
		}
		require.Equal(t, sink, got.text(t, "results", 0, "queueName"))
		require.Equal(t, true, got.at(t, "results", 2, "duplicate"))
		require.Equal(t, got.text(t, "results", 0, "messageId"), got.text(t, "results", 2, "messageId"))
		require.Equal(t, false, got.at(t, "results", 3, "dlq"))
		popsNothing(t, s, q, "")
		moved := pop(t, s, sink, "partitions=5")
		require.Len(t, moved.items(t, "messages"), 4)
		for i := range 4 {
			switch id := moved.text(t, "messages", i, "transactionId"); id {
			case "t1":
				require.Equal(t, trace, moved.at(t, "messages", i, "traceId"))
			case "t2":
				require.Equal(t, true, moved.at(t, "messages", i, "data", "alias"))
				require.Equal(t, "Default", moved.text(t, "messages", i, "partition"))
			}
		}
	})

	t.Run("the leases may stand beside the operations", func(t *testing.T) {
		t.Parallel()
		q := unique("b10lease")
		push(t, s, q, "p", "1")
		popped := pop(t, s, q, "")
		operation := ackOperation(popped, t, 0, "completed")
		delete(operation, "leaseId")
		s.post(t, "/api/v1/transaction", object{"operations": list{operation}, "requiredLeases": list{popped.text(t, "leaseId")}}).
			is(t, 200, committedForm)
		push(t, s, q, "p", "2")
		popped = pop(t, s, q, "")
		operation = ackOperation(popped, t, 0, "completed")
		delete(operation, "leaseId")
		got := s.post(t, "/api/v1/transaction", object{
			"operations": list{operation}, "requiredLeases": list{"019a7c12-0000-7000-8000-00000000000f"},
		}).is(t, 200, rolledBackForm)
		require.Equal(t, "ack_rejected", got.text(t, "reason"))
	})

	t.Run("an unknown id rolls everything back", func(t *testing.T) {
		t.Parallel()
		q, sink := unique("b10unknown"), unique("b10sink")
		configure(t, s, q, object{"leaseTime": 1})
		push(t, s, q, "p", "1")
		popped := pop(t, s, q, "")
		unknown := ackOperation(popped, t, 0, "completed")
		unknown["transactionId"] = "never pushed"
		got := s.post(t, "/api/v1/transaction", object{"operations": list{
			pushOperation(item(sink, "p", "x", 1)), ackOperation(popped, t, 0, "completed"), unknown,
		}}).is(t, 200, rolledBackForm)
		require.Equal(t, "ack_rejected", got.text(t, "reason"))
		require.Regexp(t, "^QTXN", got.text(t, "error"))
		require.Empty(t, got.items(t, "results"))
		require.Equal(t, []string{"1"}, transactions(t, pop(t, s, q, "")), "back after the lease")
		popsNothing(t, s, sink, "")
	})

	t.Run("a stored transaction id rolls everything back", func(t *testing.T) {
		t.Parallel()
		q := unique("b10dup")
		push(t, s, q, "p", "1")
		got := s.post(t, "/api/v1/transaction", object{"operations": list{pushOperation(item(q, "q", "2", 1), item(q, "p", "1", 1))}}).
			is(t, 200, rolledBackForm)
		require.Equal(t, "duplicate", got.text(t, "reason"))
		require.Regexp(t, "^QDUP", got.text(t, "error"))
		require.Equal(t, []string{"1"}, transactions(t, pop(t, s, q, "partitions=9")))
	})

	t.Run("failed acks count, and touch no other group", func(t *testing.T) {
		t.Parallel()
		q := unique("b10fail")
		configure(t, s, q, object{"retryLimit": 0})
		push(t, s, q, "p", "1")
		a, b := pop(t, s, q, "subscriptionMode=all&consumerGroup=a"), pop(t, s, q, "subscriptionMode=all&consumerGroup=b")
		got := s.post(t, "/api/v1/transaction", object{"operations": list{ackOperation(a, t, 0, "failed")}}).is(t, 200, committedForm)
		require.Equal(t, true, got.at(t, "results", 0, "dlq"))
		popsNothing(t, s, q, "consumerGroup=a")
		require.Equal(t, true, ack(t, s, b, 0, "completed").at(t, 0, "success"))
	})

	t.Run("what is no transaction is refused", func(t *testing.T) {
		t.Parallel()
		const missing = "{transactionId:v7,success:false,reason:=bad_request,error:=transaction requires an operations array,results:[any]}"
		for _, body := range []string{`{}`, `{"operations":7}`, `{"operations":null}`} {
			s.post(t, "/api/v1/transaction", body).is(t, 400, missing)
		}
		s.post(t, "/api/v1/transaction", "{").refuses(t, 400, "bad body")
		s.post(t, "/api/v1/transaction", `{"operations":[{"type":"jump"}]}`).refuses(t, 400, "push", "ack")
		s.post(t, "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"payload":1}]}]}`).refuses(t, 400, "queue")
		s.post(t, "/api/v1/transaction", `{"operations":[{"type":"ack","partitionId":"x"}]}`).refuses(t, 400, "transactionId")
		s.post(t, "/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"x"}]}`).refuses(t, 400, "partitionId")
	})

	t.Run("riders work or the whole is refused", func(t *testing.T) {
		t.Parallel()
		q := unique("b10rider")
		for name, riders := range map[string]list{
			"kv":     {object{"op": "get", "ns": "n", "key": "k"}},
			"timers": {object{"op": "schedule", "queue": q, "timerKey": "k", "fireInMs": 3600000, "payload": 1}},
		} {
			got := s.post(t, "/api/v1/transaction", object{"operations": list{pushOperation(item(q, "p", name, 1))}, name: riders})
			if got.status == 400 {
				got.is(t, 400, "{transactionId:v7,success:false,reason:=bad_request,error:string,results:[any]}")
				popsNothing(t, s, q, "")
				s.post(t, "/api/v1/transaction", object{"operations": list{}, name: list{}}).is(t, 200, "{transactionId:v7,success:true,results:[any]}")
			}
		}
	})
}
