package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func (l *live) messages(parameters string) []map[string]any {
	l.Helper()
	answer := l.object(http.StatusOK, "GET", "/api/v1/messages?"+parameters, "")
	var out []map[string]any
	for _, m := range answer["messages"].([]any) {
		out = append(out, m.(map[string]any))
	}
	require.EqualValues(l, len(out), answer["total"])
	return out
}

func (l *live) message(queue, partition, transaction string) map[string]any {
	l.Helper()
	return l.object(http.StatusOK, "GET", "/api/v1/messages/"+l.partitionID(queue, partition)+"/"+url.PathEscape(transaction), "")
}

func TestMessagesAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	require.Empty(t, l.messages(""))
	l.push("bills", "a", 0, 3)
	l.push("bills", "b", 3, 5)
	l.push("other", "a", 5, 7)
	l.ask(http.StatusOK, "POST", "/api/v1/configure", `{"queue":"other","namespace":"ns","task":"tk","options":{"priority":7}}`)
	require.Equal(t, []int{6, 5, 4, 3, 2, 1, 0}, numbersOf(l.messages("")))
	for parameters, want := range map[string][]int{
		"queue=bills": {4, 3, 2, 1, 0}, "queue=bills&partition=a": {2, 1, 0}, "namespace=ns": {6, 5}, "ns=ns&task=tk": {6, 5},
		"task=no": nil, "queue=nothing": nil, "limit=2": {6, 5}, "limit=3&offset=3": {3, 2, 1}, "offset=6": {0}, "offset=7": nil, "limit=0": nil,
		"limit=x&offset=-1": {6, 5, 4, 3, 2, 1, 0}, "from=2099-01-01": nil, "to=2001-01-01": nil, "from=2001-01-01&to=2099-01-01": {6, 5, 4, 3, 2, 1, 0},
		"limit=99999999999999": {6, 5, 4, 3, 2, 1, 0}, "queue=": {6, 5, 4, 3, 2, 1, 0},
	} {
		require.Equal(t, want, numbersOf(l.messages(parameters)), parameters)
	}
	_, err := l.db.Pool().Exec(t.Context(), "update waggle.segment set created_at = created_at - interval '2 hours' where partition_id in (select id from waggle.partition where name = 'a')")
	require.NoError(t, err)
	require.Equal(t, []int{4, 3}, numbersOf(l.messages("")), "the last hour, unless it says more")
	require.Equal(t, []int{6, 5, 2, 1, 0}, numbersOf(l.messages("from=2001-01-01&to="+url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))))

	code, text := l.send("GET", "/api/v1/messages?queue=other&limit=1&from=2001-01-01", "")
	require.Equal(t, http.StatusOK, code)
	require.Regexp(t, `^{"messages":\[{"id":"[0-9a-f-]{36}","transactionId":"t-6","txnHash":"[0-9a-f]{32}","partitionId":"`+l.partitionID("other", "a")+
		`","queuePath":"other/a","queue":"other","partition":"a","namespace":"ns","task":"tk","status":"pending","queueStatus":null,"queuePriority":7,`+
		`"busStatus":{"consumedBy":0,"totalGroups":0},"traceId":null,"producerSub":null,"payloadAvailable":true,"segment":{"seq":0,"frameIdx":1},`+
		`"createdAt":"[^"]{23}Z","leaseExpiresAt":null,"data":{"n":6},"payload":{"n":6},"isEncrypted":false}\],`+
		`"mode":{"hasQueueMode":false,"busGroupsCount":0,"type":"none"},"total":1}$`, text)
}

func TestMessagesAreJudgedByTheirGroups(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	statuses := func() (out []string) {
		for _, m := range l.messages("queue=bills") {
			out = append([]string{m["status"].(string)}, out...)
		}
		return out
	}
	mode := func() map[string]any {
		return l.object(http.StatusOK, "GET", "/api/v1/messages?queue=bills", "")["mode"].(map[string]any)
	}
	l.push("bills", "a", 0, 4)
	messages, lease := l.pop("bills", "batch=3")
	l.ack("", lease, "completed", messages[0])
	require.Equal(t, []string{"completed", "processing", "processing", "pending"}, statuses())
	require.Equal(t, "queue", mode()["type"])
	first := l.messages("status=processing")
	require.Equal(t, []int{2, 1}, numbersOf(first))
	require.Regexp(t, `^[^.]*\.\d{6}Z$`, first[0]["leaseExpiresAt"])
	require.Equal(t, "processing", first[0]["queueStatus"])
	for status, want := range map[string][]int{"pending": {3}, "completed": {0}, "dead_letter": nil} {
		require.Equal(t, want, numbersOf(l.messages("status="+status)), status)
	}
	require.Equal(t, []int{1}, numbersOf(l.messages("status=processing&limit=1&offset=1")))

	messages, lease = l.pop("bills", "consumerGroup=one&batch=2")
	l.ack("one", lease, "completed", messages[0])
	require.Equal(t, []string{"completed", "processing", "pending", "pending"}, statuses(), "named groups outrank queue mode")
	require.Equal(t, map[string]any{"hasQueueMode": true, "busGroupsCount": 1.0, "type": "hybrid"}, mode())
	l.pop("bills", "consumerGroup=two&batch=1")
	require.Equal(t, []string{"processing", "processing", "pending", "pending"}, statuses())
	got := l.messages("queue=bills")[3]
	require.Equal(t, map[string]any{"consumedBy": 1.0, "totalGroups": 2.0}, got["busStatus"])
	require.Equal(t, "completed", got["queueStatus"])

	detail := l.message("bills", "a", "t-0")
	views := detail["consumerGroups"].([]any)
	require.Len(t, views, 3)
	require.Equal(t, map[string]any{"name": "__QUEUE_MODE__", "group": "__QUEUE_MODE__", "consumed": true, "leaseExpiresAt": nil}, views[0])
	require.Equal(t, true, views[1].(map[string]any)["consumed"])
	require.NotNil(t, views[2].(map[string]any)["leaseExpiresAt"])
	require.Equal(t, detail["leaseExpiresAt"], views[2].(map[string]any)["leaseExpiresAt"])
}

func TestMessageDetailHasEveryKey(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	l.ask(http.StatusCreated, "POST", "/api/v1/push", `{"items":[{"queue":"bills.due","partition":"ac/me","transactionId":"b/1 é","payload":{ "n": 1}},
		{"queue":"bills.due","partition":"ac/me","payload":null}]}`)
	id := l.partitionID("bills.due", "ac/me")
	const keys = `"partitionId":"[^"]*","partition":"ac/me","isEncrypted":false,"queue":"bills.due","queuePath":"bills.due/ac/me","namespace":"bills","task":"due",` +
		`"status":"pending","errorMessage":null,"retryCount":0,"leaseExpiresAt":null,` +
		`"queueConfig":{"leaseTime":60,"retryLimit":3,"retryDelay":1000,"ttl":3600,"priority":0},"consumerGroups":\[\],` +
		`"mode":{"hasQueueMode":false,"busGroupsCount":0,"type":"none"}}$`
	for _, name := range []string{"b/1%20%C3%A9", "b%2F1%20%C3%A9"} {
		code, text := l.send("GET", "/api/v1/messages/"+id+"/"+name, "")
		require.Equal(t, http.StatusOK, code, text)
		require.Regexp(t, `^{"id":"[0-9a-f-]{36}","transactionId":"b/1 é","data":{ "n": 1},"payload":{ "n": 1},"traceId":null,"producerSub":null,`+
			`"createdAt":"[^"]{23}Z",`+keys, text)
	}
	// A message without a transaction id of its own is named by its message id; one with it, by either.
	for _, m := range l.messages("queue=bills.due") {
		name := m["id"].(string)
		code, text := l.send("GET", "/api/v1/messages/"+id+"/"+name, "")
		require.Equal(t, http.StatusOK, code, text)
		require.Regexp(t, `^{"id":"`+name+`",.*`+keys, text)
	}

	const missing = `{"error":"Message not found"}`
	other := l.messages("queue=bills.due")[0]["id"].(string)
	for _, path := range []string{
		id + "/b", id + "/" + strings.Repeat("x", 70000), "nonsense/b%2F1%20%C3%A9", uuid.NewString() + "/b%2F1%20%C3%A9",
		l.ids.Partition(1<<40).String() + "/b", l.ids.Queue(1).String() + "/b",
		id + "/" + other[:8] + "-ffff" + other[13:], // another moment
		id + "/" + uuid.NewString(), id + "/%00",
	} {
		code, text := l.send("GET", "/api/v1/messages/"+path, "")
		require.Equal(t, http.StatusNotFound, code, path)
		require.Equal(t, missing, text)
	}
	code, text := l.send("GET", "/api/v1/messages/"+id+"/b%2F1%20%C3%A9", "", "X-Queen-Tenant", stranger.String())
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, missing, text)
	require.Empty(t, l.object(http.StatusOK, "GET", "/api/v1/messages", "", "X-Queen-Tenant", stranger.String())["messages"])

	_, err := l.db.Pool().Exec(t.Context(), `update waggle.segment set body = '\x07'`)
	require.NoError(t, err)
	code, text = l.send("GET", "/api/v1/messages/"+id+"/b%2F1%20%C3%A9", "")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Equal(t, `{"error":"frame decode failed"}`, text)
	listed := l.messages("queue=bills.due")
	require.Len(t, listed, 2)
	require.Equal(t, false, listed[0]["payloadAvailable"])
	require.Nil(t, listed[0]["data"])
	_, err = l.db.Pool().Exec(t.Context(), `update waggle.segment set body = null`)
	require.NoError(t, err)
	code, text = l.send("GET", "/api/v1/messages/"+id+"/b%2F1%20%C3%A9", "")
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, missing, text)
	require.Empty(t, l.messages("queue=bills.due"))
}

func TestDeadLettersAreShownAndDeletedAsMessages(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	l.push("bills", "a", 0, 3)
	for _, group := range []string{"ledger", "audit"} {
		messages, lease := l.pop("bills", "consumerGroup="+group)
		l.ack(group, lease, "dlq", messages[0])
	}
	id := l.partitionID("bills", "a")
	require.Equal(t, []int{0}, numbersOf(l.messages("status=dead_letter")))
	detail := l.message("bills", "a", "t-0")
	require.Equal(t, "dead_letter", detail["status"])
	require.Equal(t, "card refused", detail["errorMessage"])
	require.EqualValues(t, 0, detail["retryCount"])
	created, message := detail["createdAt"], detail["id"]

	// It outlives the log.
	_, err := l.db.Pool().Exec(t.Context(), `update waggle.segment set body = null`)
	require.NoError(t, err)
	buried := l.message("bills", "a", "t-0")
	require.Equal(t, detail, buried)
	require.Equal(t, map[string]any{"n": 0.0}, buried["data"])
	require.Equal(t, created, buried["createdAt"])
	require.Equal(t, buried, l.message("bills", "a", message.(string)))
	_, err = l.db.Pool().Exec(t.Context(), `update waggle.dead_letter set sealed = true`)
	require.NoError(t, err)
	sealed := l.message("bills", "a", "t-0")
	require.Nil(t, sealed["data"])
	require.Equal(t, true, sealed["isEncrypted"])

	target := "/api/v1/messages/" + id + "/t-0"
	refused := func(target, id, transaction string, headers ...string) {
		t.Helper()
		code, text := l.send("DELETE", target, "", headers...)
		require.Equal(t, http.StatusNotFound, code)
		require.Equal(t, fmt.Sprintf(`{"success":false,"partitionId":%q,"transactionId":%q,"error":"Message not found",`+
			`"message":"No dead letter of this message exists; a message in the log cannot be deleted"}`, id, transaction), text)
	}
	refused(target, id, "t-0", "X-Queen-Tenant", stranger.String())
	refused("/api/v1/messages/"+id+"/t-1", id, "t-1")
	refused("/api/v1/messages/nonsense/t-0", "nonsense", "t-0")
	code, text := l.send("DELETE", target, "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, fmt.Sprintf(`{"success":true,"partitionId":%q,"transactionId":"t-0","message":"Message deleted successfully"}`, id), text)
	refused(target, id, "t-0")
	require.Empty(t, l.object(http.StatusOK, "GET", "/api/v1/dlq", "")["messages"], "of both groups")
	l.ask(http.StatusNotFound, "GET", target, "")
}

func TestDeadLettersOfAQueueAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	for _, queue := range []string{"bills", "other"} {
		l.push(queue, "a", 0, 3)
		for _, group := range []string{"ledger", "audit"} {
			messages, lease := l.pop(queue, "consumerGroup="+group)
			l.ack(group, lease, "dlq", messages[0])
		}
	}
	left := func() int {
		return len(l.object(http.StatusOK, "GET", "/api/v1/dlq", "")["messages"].([]any))
	}
	drop := func(parameters, want string, headers ...string) {
		t.Helper()
		code, text := l.send("DELETE", "/api/v1/dlq?"+parameters, "", headers...)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, want, text)
	}
	drop("queue=bills", `{"success":true,"deleted":0,"queue":"bills","consumerGroup":null}`, "X-Queen-Tenant", stranger.String())
	drop("queue=nothing", `{"success":true,"deleted":0,"queue":"nothing","consumerGroup":null}`)
	require.Equal(t, 4, left())
	drop("queue=bills&consumerGroup=ledger", `{"success":true,"deleted":1,"queue":"bills","consumerGroup":"ledger"}`)
	require.Equal(t, 3, left())
	drop("queue=bills&consumerGroup=", `{"success":true,"deleted":1,"queue":"bills","consumerGroup":null}`)
	require.Equal(t, 2, left())
	for parameters, want := range map[string]string{
		"": "queue is required", "queue=": "queue is required", "consumerGroup=x": "queue is required", "queue=%01": "queue holds a control character",
		"queue=q&consumerGroup=" + strings.Repeat("x", 1025): "consumerGroup is longer than 1024 bytes",
		"queue=" + strings.Repeat("x", 1025):                 "queue is longer than 1024 bytes",
	} {
		require.Equal(t, want, l.object(http.StatusBadRequest, "DELETE", "/api/v1/dlq?"+parameters, "")["error"])
	}
	require.Equal(t, 2, left())
}

func TestBadMessageFiltersAreRefusedWithTheField(t *testing.T) {
	t.Parallel()
	l := newLive(t, 1)
	for parameters, want := range map[string]string{
		"status=failed": "status must be pending, processing, completed or dead_letter",
		"from=soon":     "from must be an ISO 8601 time", "to=7": "to must be an ISO 8601 time",
		"queue=%00": "queue holds a control character", "partition=%1f": "partition holds a control character",
		"ns=" + strings.Repeat("x", 1025): "namespace is longer than 1024 bytes", "task=%0a": "task holds a control character",
	} {
		require.Equal(t, want, l.object(http.StatusBadRequest, "GET", "/api/v1/messages?"+parameters, "")["error"], parameters)
	}
}

func TestADeadLetterIsNotThatOfALaterMessageWithItsID(t *testing.T) {
	t.Parallel()
	l := newLive(t, 1)
	l.ask(http.StatusOK, "POST", "/api/v1/configure", `{"queue":"bills","options":{"dedupWindowSeconds":0}}`)
	l.push("bills", "a", 0, 1)
	messages, lease := l.pop("bills", "")
	l.ack("", lease, "dlq", messages[0])
	l.push("bills", "a", 0, 1)
	detail := l.message("bills", "a", "t-0")
	require.Equal(t, "pending", detail["status"])
	require.Nil(t, detail["errorMessage"])
	require.Equal(t, "dead_letter", l.message("bills", "a", messages[0]["id"].(string))["status"])
}
