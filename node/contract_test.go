package node_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// anyBroker speaks plain HTTP to a broker of the cluster, each time to another one.
type anyBroker struct {
	cluster cluster
}

func (a anyBroker) call(t *testing.T, method, path string, body any) answer {
	t.Helper()
	text := ""
	if body != nil {
		content, err := json.Marshal(body)
		require.NoError(t, err)
		text = string(content)
	}
	return call(t, method, a.cluster[rand.IntN(len(a.cluster))].url+path, text)
}

type object = map[string]any

type pushedItem struct {
	MessageID string `json:"message_id"`
	Status    string
}

func (a anyBroker) push(t *testing.T, items ...object) []pushedItem {
	t.Helper()
	for _, item := range items {
		if _, given := item["payload"]; !given {
			item["payload"] = nil
		}
	}
	if items == nil {
		items = []object{}
	}
	got := a.call(t, http.MethodPost, "/api/v1/push", object{"items": items})
	require.Equal(t, http.StatusCreated, got.status, got.body)
	var results []pushedItem
	require.NoError(t, json.Unmarshal([]byte(got.body), &results))
	require.Len(t, results, len(items))
	return results
}

type poppedMessage struct {
	TransactionID, PartitionID, Partition, LeaseID string
	DeliveryAttempt                                int
	Data                                           json.RawMessage
}

// pop returns nothing for a 204.
func (a anyBroker) pop(t *testing.T, queue string, query ...string) []poppedMessage {
	t.Helper()
	values := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		values.Set(query[i], query[i+1])
	}
	got := a.call(t, http.MethodGet, "/api/v1/pop/queue/"+queue+"?"+values.Encode(), nil)
	if got.status == http.StatusNoContent {
		require.Empty(t, got.body)
		return nil
	}
	require.Equal(t, http.StatusOK, got.status, got.body)
	var answer struct {
		LeaseID  string
		Messages []poppedMessage
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &answer))
	for _, m := range answer.Messages {
		require.Equal(t, answer.LeaseID, m.LeaseID)
	}
	return answer.Messages
}

func (a anyBroker) ack(t *testing.T, group any, m poppedMessage, status, reason string) object {
	t.Helper()
	got := a.call(t, http.MethodPost, "/api/v1/ack", object{
		"transactionId": m.TransactionID, "partitionId": m.PartitionID, "leaseId": m.LeaseID, "status": status,
		"consumerGroup": group, "error": reason,
	})
	require.Equal(t, http.StatusOK, got.status, got.body)
	var results []object
	require.NoError(t, json.Unmarshal([]byte(got.body), &results))
	require.Len(t, results, 1)
	require.Equal(t, true, results[0]["success"], got.body)
	return results[0]
}

func (a anyBroker) configure(t *testing.T, queue string, options object) object {
	t.Helper()
	got := a.call(t, http.MethodPost, "/api/v1/configure", object{"queue": queue, "options": options})
	require.Equal(t, http.StatusOK, got.status, got.body)
	var answer object
	require.NoError(t, json.Unmarshal([]byte(got.body), &answer))
	require.Equal(t, true, answer["configured"])
	return answer["options"].(object)
}

// The numbered list of the contract's appendix B, each request to any of three brokers: that they are three must not
// show. Points 1 to 9; those after them have their tests where their subjects are.
func TestContractOnAnyBroker(t *testing.T) {
	t.Parallel()
	a := anyBroker{startCluster(t, pgtest.New(t).URL, 3)}
	for name, test := range map[string]func(*testing.T, anyBroker){
		"1 every option is echoed":                 optionsAreEchoed,
		"2 a push is found by the next pop":        pushIsFound,
		"3 duplicates within their partition":      duplicates,
		"4 payloads survive":                       payloadsSurvive,
		"5 delayedProcessing":                      delayedProcessing,
		"5 windowBuffer":                           windowBuffer,
		"6 a lease ends":                           leaseEnds,
		"7 several partitions under one lease":     severalPartitions,
		"8 groups and where they start":            groupsStart,
		"9 dead letters of queue mode":             func(t *testing.T, a anyBroker) { deadLetters(t, a, nil) },
		"9 dead letters of a group":                func(t *testing.T, a anyBroker) { deadLetters(t, a, "workers") },
		"a path that is no route is told so":       noRoute,
		"an empty queue answers 204 in due course": emptyQueue,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

func optionsAreEchoed(t *testing.T, a anyBroker) {
	options := object{
		"leaseTime": 17.0, "retryLimit": 5.0, "retryDelay": 250.0, "priority": 7.0, "maxSize": 12345.0, "ttl": 99.0,
		"deadLetterQueue": false, "dlqAfterMaxRetries": false, "delayedProcessing": 3.0, "windowBuffer": 4.0,
		"retentionSeconds": 60.0, "retentionEnabled": true, "completedRetentionSeconds": 61.0, "maxWaitTimeSeconds": 62.0,
		"encryptionEnabled": true,
	}
	for option, value := range options {
		require.Equal(t, value, a.configure(t, "options-"+option, object{option: value})[option], option)
	}
	echoed := a.configure(t, "options", options)
	for option, value := range options {
		require.Equal(t, value, echoed[option], option)
	}
	merged := a.configure(t, "options", object{"leaseTime": 18})
	require.Equal(t, 18.0, merged["leaseTime"])
	require.Equal(t, 250.0, merged["retryDelay"])
	got := a.call(t, http.MethodDelete, "/api/v1/resources/queues/options", nil)
	require.Contains(t, got.body, `"deleted":true`)
	got = a.call(t, http.MethodDelete, "/api/v1/resources/queues/options", nil)
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, `"deleted":false`)
}

func pushIsFound(t *testing.T, a anyBroker) {
	for n := range 20 {
		queue := fmt.Sprint("fresh-", n)
		require.Equal(t, "queued", a.push(t, object{"queue": queue, "partition": "new", "payload": n})[0].Status)
		got := a.pop(t, queue)
		require.Len(t, got, 1, "the pop began after the push was answered")
		require.Equal(t, "new", got[0].Partition)
		require.Equal(t, fmt.Sprint(n), string(got[0].Data))
		require.Equal(t, 1, got[0].DeliveryAttempt)
	}
}

func duplicates(t *testing.T, a anyBroker) {
	item := func(partition, id string) object {
		return object{"queue": "dedup", "partition": partition, "transactionId": id, "payload": rand.Int()}
	}
	first := a.push(t, item("p", "same"))[0]
	require.Equal(t, "queued", first.Status)
	again := a.push(t, item("p", "same"))[0]
	require.Equal(t, pushedItem{first.MessageID, "duplicate"}, again)
	require.Equal(t, "queued", a.push(t, item("elsewhere", "same"))[0].Status)

	var pushing sync.WaitGroup
	results := make([]pushedItem, 8)
	for i := range results {
		pushing.Go(func() { results[i] = a.push(t, item("p", "at once"))[0] })
	}
	pushing.Wait()
	queued := 0
	for _, r := range results {
		require.Equal(t, results[0].MessageID, r.MessageID)
		if r.Status == "queued" {
			queued++
		}
	}
	require.Equal(t, 1, queued)

	three := a.push(t, item("p", "thrice"), item("p", "thrice"), item("p", "thrice"))
	require.Equal(t, "queued", three[0].Status)
	require.Equal(t, pushedItem{three[0].MessageID, "duplicate"}, three[1])
	require.Equal(t, three[1], three[2])

	ids := map[string]bool{}
	hundred := make([]object, 100)
	for i := range hundred {
		hundred[i] = object{"queue": "dedup", "partition": "anonymous"}
	}
	for _, r := range a.push(t, hundred...) {
		ids[r.MessageID] = true
	}
	require.Len(t, ids, 100)
	require.Empty(t, a.push(t))
}

func payloadsSurvive(t *testing.T, a anyBroker) {
	big := strings.Repeat("größer ", 200_000)
	for i, payload := range []any{nil, object{}, []any{}, "", 0, false, big, object{"nested": []any{1.5, "é\"\\\u0000"}}} {
		queue := fmt.Sprint("payload-", i)
		want, err := json.Marshal(payload)
		require.NoError(t, err)
		a.push(t, object{"queue": queue, "payload": payload})
		got := a.pop(t, queue)
		require.Len(t, got, 1)
		require.True(t, string(want) == string(got[0].Data), "payload %d changed", i)
	}
	thousand := make([]object, 1000)
	text := strings.Repeat("x", 10<<10)
	for i := range thousand {
		thousand[i] = object{"queue": "payload-batch", "payload": text}
	}
	a.push(t, thousand...)
	seen := 0
	for seen < 1000 {
		got := a.pop(t, "payload-batch", "batch", "1000", "autoAck", "true")
		require.NotEmpty(t, got)
		seen += len(got)
	}
	require.Equal(t, 1000, seen)
}

func delayedProcessing(t *testing.T, a anyBroker) {
	a.configure(t, "later", object{"delayedProcessing": 2})
	pushed := time.Now()
	a.push(t, object{"queue": "later"})
	require.Empty(t, a.pop(t, "later"))
	require.Len(t, a.pop(t, "later", "wait", "true", "timeout", "6000"), 1)
	require.GreaterOrEqual(t, time.Since(pushed), 1900*time.Millisecond)
	require.Less(t, time.Since(pushed), 3300*time.Millisecond)
}

func windowBuffer(t *testing.T, a anyBroker) {
	a.configure(t, "window", object{"windowBuffer": 2})
	var pushed time.Time
	for range 3 {
		a.push(t, object{"queue": "window"})
		pushed = time.Now()
		require.Empty(t, a.pop(t, "window", "batch", "4"))
	}
	require.Len(t, a.pop(t, "window", "batch", "4", "wait", "true", "timeout", "6000"), 3)
	require.GreaterOrEqual(t, time.Since(pushed), 1900*time.Millisecond)
	require.Less(t, time.Since(pushed), 3300*time.Millisecond)
}

func leaseEnds(t *testing.T, a anyBroker) {
	a.configure(t, "short", object{"leaseTime": 1})
	a.push(t, object{"queue": "short"})
	first := a.pop(t, "short")
	require.Len(t, first, 1)
	require.Empty(t, a.pop(t, "short"))
	second := a.pop(t, "short", "wait", "true", "timeout", "5000")
	require.Len(t, second, 1)
	require.Equal(t, first[0].TransactionID, second[0].TransactionID)
	require.NotEqual(t, first[0].LeaseID, second[0].LeaseID)
	require.Equal(t, 2, second[0].DeliveryAttempt)
}

func severalPartitions(t *testing.T, a anyBroker) {
	a.configure(t, "wide", object{"leaseTime": 1})
	for p := range 3 {
		a.push(t, object{"queue": "wide", "partition": fmt.Sprint(p)}, object{"queue": "wide", "partition": fmt.Sprint(p)})
	}
	got := a.pop(t, "wide", "partitions", "3", "batch", "100")
	require.Len(t, got, 6)
	partitions := map[string]bool{}
	for _, m := range got {
		partitions[m.PartitionID] = true
		require.Equal(t, got[0].LeaseID, m.LeaseID)
	}
	require.Len(t, partitions, 3)
	for range 2 { // longer than the lease
		time.Sleep(700 * time.Millisecond)
		extended := a.call(t, http.MethodPost, "/api/v1/lease/"+got[0].LeaseID+"/extend", object{"seconds": 1})
		require.Contains(t, extended.body, `"renewed":3`)
		require.Empty(t, a.pop(t, "wide", "partitions", "3"))
	}

	for p := range 5 {
		for range 5 {
			a.push(t, object{"queue": "capped", "partition": fmt.Sprint(p)})
		}
	}
	require.Len(t, a.pop(t, "capped", "batch", "10", "partitions", "5"), 10)
	require.Len(t, a.pop(t, "capped", "batch", "100"), 5, "one partition unless asked for more")
}

func groupsStart(t *testing.T, a anyBroker) {
	push := func(number int) {
		a.push(t, object{"queue": "groups", "payload": number})
	}
	push(1)
	push(2)
	for _, group := range []string{"one", "two"} {
		require.Len(t, a.pop(t, "groups", "consumerGroup", group, "subscriptionMode", "from_beginning"), 2)
	}
	require.Len(t, a.pop(t, "groups"), 2, "queue mode is independent of both")

	newcomers := map[string][]string{
		"new": {"subscriptionMode", "new"}, "new-only": {"subscriptionMode", "new-only"}, "now": {"subscriptionFrom", "now"},
		"default": nil,
	}
	for group, query := range newcomers {
		require.Empty(t, a.pop(t, "groups", append(query, "consumerGroup", group)...), group)
	}
	time.Sleep(5 * time.Millisecond) // the timestamp lies between two pushes
	from := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	push(3)
	for group := range newcomers {
		got := a.pop(t, "groups", "consumerGroup", group)
		require.Len(t, got, 1, group)
		require.Equal(t, "3", string(got[0].Data))
	}
	got := a.pop(t, "groups", "consumerGroup", "since", "subscriptionFrom", from)
	require.Len(t, got, 1)
	require.Equal(t, "3", string(got[0].Data))
}

func deadLetters(t *testing.T, a anyBroker, group any) {
	queue := fmt.Sprint("poison-", group)
	query := []string{}
	if group != nil {
		query = []string{"consumerGroup", group.(string), "subscriptionMode", "all"}
	}
	a.configure(t, queue, object{"retryLimit": 1})
	a.push(t, object{"queue": queue, "payload": object{"bad": true}})
	for attempt := 1; attempt <= 2; attempt++ {
		got := a.pop(t, queue, query...)
		require.Len(t, got, 1)
		require.Equal(t, attempt, got[0].DeliveryAttempt)
		result := a.ack(t, group, got[0], "failed", fmt.Sprintf("handler said no for the %dth time", attempt))
		require.Equal(t, true, result["leaseReleased"])
		require.Equal(t, attempt == 2, result["dlq"])
	}
	require.Empty(t, a.pop(t, queue, query...))
	got := a.call(t, http.MethodGet, "/api/v1/dlq?queue="+url.QueryEscape(queue), nil)
	var dead struct {
		Total    int
		Messages []struct {
			ErrorMessage string
			Data         json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &dead), got.body)
	require.Equal(t, 1, dead.Total)
	require.Contains(t, dead.Messages[0].ErrorMessage, "handler said no for the 2th time")
	require.JSONEq(t, `{"bad":true}`, string(dead.Messages[0].Data))
}

func noRoute(t *testing.T, a anyBroker) {
	for _, path := range []string{"/api/v1/stream/poll", "/api/v1/resources/partitions", "/api/v2", "/nothing"} {
		got := a.call(t, http.MethodPost, path, object{})
		require.Equal(t, http.StatusNotFound, got.status)
		require.JSONEq(t, `{"error":"Not Found","code":"no_such_route"}`, got.body)
	}
	require.Equal(t, http.StatusMethodNotAllowed, a.call(t, http.MethodGet, "/api/v1/push", nil).status)
}

func emptyQueue(t *testing.T, a anyBroker) {
	require.Empty(t, a.pop(t, "empty"))
	began := time.Now()
	require.Empty(t, a.pop(t, "empty", "wait", "true", "timeout", "300"))
	require.InDelta(t, 300, time.Since(began).Milliseconds(), 200)
	require.Equal(t, http.StatusBadRequest, a.call(t, http.MethodGet, "/api/v1/pop/queue/empty?wait=yes", nil).status)
}
