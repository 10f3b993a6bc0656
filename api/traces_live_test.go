package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestTracesAreFoundByMessageAndByName(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	l.push("bills", "acme", 0, 2)
	id := l.partitionID("bills", "acme")
	trace := func(txn, names, data string) {
		answer := l.object(http.StatusCreated, "POST", "/api/v1/traces", fmt.Sprintf(
			`{"transactionId":%q,"partitionId":%q,"consumerGroup":null,"eventType":null,"traceNames":%s,"data":%s}`, txn, id, names, data,
		))
		require.Equal(t, true, answer["success"])
		require.NoError(t, uuid.Validate(answer["traceId"].(string)))
	}
	trace("t-0", `["order/1","flow","flow",""]`, `{ "z": 1, "a":1.0}`)
	trace("t-0", `"flow"`, `"text"`)
	trace("never pushed/é", `null`, `[null]`)
	trace("t-1", `["flow"]`, `0`)

	code, text := l.send("GET", "/api/v1/traces/"+id+"/t-0", "")
	require.Equal(t, http.StatusOK, code)
	require.Regexp(t, `^{"traces":\[{"id":"[0-9a-f-]{36}","event_type":"info","data":{ "z": 1, "a":1.0},"consumer_group":"__QUEUE_MODE__",`+
		`"worker_id":null,"created_at":"[^"]{23}Z","trace_names":\["order/1","flow"\]},{"id":"[^"]*","event_type":"info","data":"text",`+
		`.*"trace_names":\["flow"\]}\]}$`, text)
	for _, path := range []string{"/never%20pushed/%C3%A9", "/" + url.PathEscape("never pushed/é")} {
		require.Len(t, l.object(http.StatusOK, "GET", "/api/v1/traces/"+id+path, "")["traces"], 1)
	}

	code, text = l.send("GET", "/api/v1/traces/by-name/order/1", "")
	require.Equal(t, http.StatusOK, code)
	require.Regexp(t, `"trace_names":\["order/1","flow"\],"transaction_id":"t-0","partition_id":"`+id+
		`","queue_name":"bills","partition_name":"acme","message_payload":null}\],"total":1,"pagination":{"limit":100,"offset":0}}$`, text)
	named := l.object(http.StatusOK, "GET", "/api/v1/traces/by-name/flow?limit=2&offset=1", "")
	require.Len(t, named["traces"], 2)
	require.EqualValues(t, 3, named["total"])
	require.Equal(t, "t-0", named["traces"].([]any)[0].(map[string]any)["transaction_id"], "newest first")

	code, text = l.send("GET", "/api/v1/traces/names", "")
	require.Equal(t, http.StatusOK, code)
	require.Regexp(t, `^{"trace_names":\[{"trace_name":"flow","trace_count":3,"message_count":2,"last_seen":"[^"]{23}Z"},`+
		`{"trace_name":"order/1","trace_count":1,"message_count":1,"last_seen":"[^"]*"}\],"total":2,"pagination":{"limit":50,"offset":0}}$`, text)
	beyond := l.object(http.StatusOK, "GET", "/api/v1/traces/names?limit=5&offset=7", "")
	require.Empty(t, beyond["trace_names"])
	require.EqualValues(t, 2, beyond["total"])
}

func TestTracesOfAnotherTenantAreNotThere(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	l.push("bills", "acme", 0, 1)
	id := l.partitionID("bills", "acme")
	body := fmt.Sprintf(`{"transactionId":"t-0","partitionId":%q,"traceNames":"flow","data":1}`, id)
	l.ask(http.StatusCreated, "POST", "/api/v1/traces", body)
	foreign := []string{"X-Queen-Tenant", stranger.String()}
	const missing = `{"success":false,"error":"Message not found"}`
	for _, refused := range []struct {
		body    string
		headers []string
	}{
		{body, foreign},
		{strings.Replace(body, id, "no id", 1), nil},
		{strings.Replace(body, id, uuid.NewString(), 1), nil},
		{strings.Replace(body, id, l.ids.Partition(1<<40).String(), 1), nil},
		{strings.Replace(body, id, l.ids.Queue(1).String(), 1), nil},
	} {
		code, text := l.send("POST", "/api/v1/traces", refused.body, refused.headers...)
		require.Equal(t, http.StatusNotFound, code)
		require.Equal(t, missing, text)
	}
	require.Empty(t, l.object(http.StatusOK, "GET", "/api/v1/traces/"+id+"/t-0", "", foreign...)["traces"])
	require.Empty(t, l.object(http.StatusOK, "GET", "/api/v1/traces/by-name/flow", "", foreign...)["traces"])
	require.EqualValues(t, 0, l.object(http.StatusOK, "GET", "/api/v1/traces/names", "", foreign...)["total"])
	require.Empty(t, l.object(http.StatusOK, "GET", "/api/v1/traces/nonsense/t-0", "")["traces"])
}

func TestBadTracesAreRefusedWithTheField(t *testing.T) {
	t.Parallel()
	l := newLive(t, 1)
	long := strings.Repeat("x", 1025)
	for body, want := range map[string]string{
		``:                                      `bad body: expected an object`,
		`[]`:                                    `bad body: expected an object`,
		`{"data":1}`:                            `transactionId and partitionId are required`,
		`{"transactionId":"a","data":1}`:        `transactionId and partitionId are required`,
		`{"transactionId":"a","partitionId":7}`: `bad body: expected a string`,
		`{"transactionId":"a","partitionId":"b"}`:                                                                `data is required`,
		`{"transactionId":"a","partitionId":"b","data":null}`:                                                    `data is required`,
		`{"transactionId":"a","partitionId":"b","data":1,"traceNames":[1]}`:                                      `bad body: expected a string`,
		`{"transactionId":"a","partitionId":"b","data":1,"traceNames":{}}`:                                       `bad body: expected a string`,
		`{"transactionId":"a","partitionId":"b","data":1,"traceNames":["` + long + `"]}`:                         `traceNames[0] is longer than 1024 bytes`,
		`{"transactionId":"a","partitionId":"b","data":1,"eventType":"` + long + `"}`:                            `eventType is longer than 1024 bytes`,
		`{"transactionId":"a","partitionId":"b","data":1,"consumerGroup":"` + long + `"}`:                        `consumerGroup is longer than 1024 bytes`,
		`{"transactionId":"a","partitionId":"b","data":1,"traceNames":["a"` + strings.Repeat(`,"b"`, 100) + `]}`: `traceNames holds more than 100 names`,
		`{"transactionId":"` + strings.Repeat("x", 65536) + `","partitionId":"b","data":1}`:                      `transactionId is longer than 65535 bytes`,
		`{"transactionId":"a","partitionId":"b","data":"` + strings.Repeat("x", 1<<20) + `"}`:                    `data is longer than 1048576 bytes`,
	} {
		answer := l.object(http.StatusBadRequest, "POST", "/api/v1/traces", body)
		require.Contains(t, answer["error"], want, "%.80s", body)
	}
}
