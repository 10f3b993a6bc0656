package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestStreamsOverHTTP(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	const queries, state, cycle = "/streams/v1/queries", "/streams/v1/state/get", "/streams/v1/cycle"
	body := `{"name":"totals","source_queue":"in","sink_queue":null,"config_hash":"h1"`
	made := l.object(http.StatusOK, "POST", queries, body+`}`)
	id := made["query_id"].(string)
	exactly := func(status int, target, body, want string) {
		t.Helper()
		code, text := l.send("POST", target, body)
		require.Equal(t, want, text)
		require.Equal(t, status, code)
	}
	exactly(http.StatusOK, queries, body+`}`, `{"success":true,"query_id":"`+id+`","name":"totals","config_hash":"h1","fresh":false,"reset":false}`)
	exactly(http.StatusConflict, queries, strings.Replace(body, "h1", "h2", 1)+`}`,
		`{"success":false,"error":"config_hash mismatch: query \"totals\" is registered with another configuration","query_id":"`+id+`","name":"totals","config_hash":"h1"}`)

	l.push("in", "p", 0, 3)
	partition := l.partitionID("in", "p")
	_, lease := l.pop("in", "consumerGroup=streams.totals")
	here := `{"query_id":"` + id + `","partition_id":"` + partition + `"`
	exactly(http.StatusOK, cycle, here+`,"consumer_group":"streams.totals","state_ops":[{"type":"upsert","key":"a\u001fw","value":{"windowEnd":5}},{"type":"delete","key":"b"}],`+
		`"push_items":[{"queue":"out","partition":"x","payload":1},{"queue":"","payload":2}],"ack":{"leaseId":"nobody","status":"completed","count":3}}`,
		`{"success":false,"query_id":"`+id+`","partition_id":"`+partition+`","error":"invalid or expired lease"}`)
	exactly(http.StatusOK, cycle, here+`,"consumer_group":"streams.totals","state_ops":[{"type":"upsert","key":"a\u001fw","value":{"windowEnd":5}},{"type":"delete","key":"b"}],`+
		`"push_items":[{"queue":"out","partition":"x","payload":1},{"queue":"","payload":2}],"ack":{"transactionId":"t-2","leaseId":"`+lease+`","status":"completed","count":3}}`,
		`{"success":true,"query_id":"`+id+`","partition_id":"`+partition+`","queueName":"in","state_ops_applied":2,`+
			`"push_results":[{"queue":"out","partition":"x","status":"queued","baseOffset":0}],"ack_result":{"success":true,"count":3,"lease_released":true,"dlq":false}}`)
	exactly(http.StatusOK, cycle, here+`}`, `{"success":true,"query_id":"`+id+`","partition_id":"`+partition+`","queueName":"in","state_ops_applied":0,"push_results":[],"ack_result":null}`)
	rows := l.object(http.StatusOK, "POST", state, here+`,"keys":[],"ripe_at_or_before":5}`)["rows"].([]any)
	require.Len(t, rows, 1)
	require.Equal(t, "a\x1fw", rows[0].(map[string]any)["key"])

	foreign := []string{"X-Queen-Tenant", uuid.NewString()}
	for _, target := range []string{state, cycle} {
		code, text := l.send("POST", target, here+`}`, foreign...)
		require.Equal(t, http.StatusNotFound, code)
		require.Equal(t, `{"error":"not found"}`, text)
	}
	for _, test := range []struct{ target, body, says string }{
		{queries, `{`, "bad body"},
		{queries, `[]`, "bad body: expected an object"},
		{queries, `{"source_queue":"in","config_hash":"h"}`, "name is required"},
		{queries, `{"name":"","source_queue":"in","config_hash":"h"}`, "name is required"},
		{queries, `{"name":"n","config_hash":"h"}`, "source_queue is required"},
		{queries, `{"name":"n","source_queue":"in"}`, "config_hash is required"},
		{queries, body + `,"reset":1}`, "reset must be true or false"},
		{queries, `{"name":"` + strings.Repeat("x", 1025) + `","source_queue":"in","config_hash":"h"}`, "name is longer"},
		{state, `{"partition_id":"p"}`, "query_id is required"},
		{state, `{"query_id":"q"}`, "partition_id is required"},
		{state, here + `,"keys":"k"}`, "keys must be an array"},
		{state, here + `,"keys":[1]}`, "keys[0]"},
		{state, here + `,"ripe_at_or_before":"5"}`, "ripe_at_or_before must be a number"},
		{cycle, `{"partition_id":"p"}`, "query_id is required"},
		{cycle, `{"query_id":"q"}`, "partition_id is required"},
		{cycle, here + `,"state_ops":{}}`, "state_ops must be an array"},
		{cycle, here + `,"state_ops":[{"type":"put","key":"k","value":1}]}`, "state_ops[0].type"},
		{cycle, here + `,"state_ops":[{"type":"upsert","key":"k"}]}`, "state_ops[0].value is required"},
		{cycle, here + `,"state_ops":[{"type":"upsert"}]}`, "state_ops[0].key is required"},
		{cycle, here + `,"push_items":[{"queue":"out"},{"queue":"o\u0001"}]}`, "push_items[1].queue"},
		{cycle, here + `,"release_lease":"no"}`, "release_lease must be true or false"},
		{cycle, here + `,"ack":[]}`, "ack must be an object"},
		{cycle, here + `,"ack":{"leaseId":5}}`, "ack.leaseId"},
		{cycle, here + `,"ack":{"count":-1}}`, "ack.count"},
	} {
		code, text := l.send("POST", test.target, test.body)
		require.Equal(t, http.StatusBadRequest, code, test.body)
		require.Contains(t, text, test.says, test.body)
	}
}

func TestReplayOverHTTP(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	l.ask(http.StatusOK, "POST", "/api/v1/configure", `{"queue":"bills","options":{"retryLimit":0}}`)
	bury := func(n int) (id string) {
		l.push("bills", "acme", n, n+1)
		messages, lease := l.pop("bills", "")
		l.ack("", lease, "failed", messages...)
		letters := l.object(http.StatusOK, "GET", "/api/v1/dlq?queue=bills", "")["messages"].([]any)
		return letters[0].(map[string]any)["id"].(string)
	}
	id := bury(0)
	partition := l.partitionID("bills", "acme")
	foreign := []string{"X-Queen-Tenant", uuid.NewString()}
	code, text := l.send("POST", "/api/v1/dlq/"+id+"/replay", "", foreign...)
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, `{"success":false,"result":"gone","dlqId":"`+id+`","error":"Message not found","message":"There is no such dead letter, or it has been replayed or deleted"}`, text)
	code, text = l.send("POST", "/api/v1/messages/"+partition+"/t-0/retry", "{}", foreign...)
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, `{"success":false,"partitionId":"`+partition+`","transactionId":"t-0","error":"Message not found","message":"No dead letter of this message exists"}`, text)

	code, text = l.send("POST", "/api/v1/messages/"+partition+"/t-0/retry", "")
	require.Equal(t, http.StatusOK, code, text)
	require.Regexp(t, fmt.Sprintf(`^\{"success":true,"result":"moved","queue":"bills","partition":"acme","consumerGroup":"__QUEUE_MODE__","dlqId":"%s","originalTransactionId":"t-0",`+
		`"replayedAs":\{"index":0,"message_id":"[0-9a-f-]{36}","transaction_id":"dlq:%s","queueName":"bills","status":"queued","offset":1\},"dlqRowRemoved":true\}$`, id, id), text)
	messages, lease := l.pop("bills", "")
	l.ack("", lease, "completed", messages...)

	id = bury(1)
	for body, says := range map[string]string{
		`{"queue":" "}`: "queue must not be blank", `{"partition":""}`: "partition must not be blank", `{"queue":5}`: "queue must be a string",
		`[]`: "expected an object", `{`: "bad body", `{"queue":"q\u0001"}`: "queue holds a control character",
	} {
		code, text := l.send("POST", "/api/v1/dlq/"+id+"/replay", body)
		require.Equal(t, http.StatusBadRequest, code, body)
		require.Contains(t, text, says)
	}
	moved := l.object(http.StatusOK, "POST", "/api/v1/dlq/"+id+"/replay", `{"queue":"again","partition":"x"}`)
	require.Equal(t, "again", moved["queue"])
	require.Equal(t, "x", moved["partition"])
	messages, _ = l.pop("again", "")
	require.Equal(t, []int{1}, numbersOf(messages))
}
