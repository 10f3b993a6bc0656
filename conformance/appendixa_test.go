package conformance

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClientsOfAppendixA(t *testing.T) {
	t.Parallel()
	for _, f := range flavours {
		for kind, odd := range map[string]string{"plain names": "", "odd names": `/eu north+west.é"`} {
			for _, group := range []string{"", "ledger"} {
				t.Run(f.name+" with "+kind+" in group "+group, func(t *testing.T) {
					t.Parallel()
					if group != "" {
						group = unique(group) + odd
					}
					useEverything(t, newSDK(plainServer.get(t), f, group), unique("sdk")+odd, "acme"+odd)
				})
			}
		}
	}
}

// useEverything runs through the operations of A.2 in one life of a queue.
func useEverything(t *testing.T, c *sdk, queue, partition string) {
	ctx := t.Context()
	all := url.Values{"subscriptionMode": {"all"}}
	pop := func(partition string, batch int) []any {
		t.Helper()
		messages, err := c.pop(ctx, queue, partition, batch, all)
		require.NoError(t, err)
		require.NotEmpty(t, messages)
		return messages
	}
	id := func(message any) any { return message.(object)["transactionId"] }

	created := c.admin(t, "POST", "/api/v1/configure", object{"queue": queue, "namespace": nil, "task": nil, "options": object{
		"leaseTime": 300, "retryLimit": 0, "priority": 0, "delayedProcessing": 0, "windowBuffer": 0, "maxSize": 0,
		"retentionSeconds": 0, "completedRetentionSeconds": 0, "encryptionEnabled": false,
	}}).(object)
	require.Equal(t, true, created["configured"])
	require.EqualValues(t, 300, created["options"].(object)["leaseTime"])

	// Pinned and by queue; Default is no partition on a pop.
	require.NoError(t, c.push(ctx, queue, partition, "1", "2", "3"))
	messages := pop(partition, 2)
	require.Len(t, messages, 2)
	require.Equal(t, partition, messages[0].(object)["partition"])
	expiry, err := c.renew(ctx, messages)
	require.NoError(t, err)
	require.Greater(t, time.Until(expiry), 50*time.Second)
	require.NoError(t, c.ack(ctx, messages, "completed", nil))
	messages = pop("Default", 1)
	require.Equal(t, "3", id(messages[0]))
	require.NoError(t, c.ack(ctx, messages, "completed", nil))

	// A transaction with the leases beside it, as older clients send it.
	require.NoError(t, c.push(ctx, queue, partition, "4"))
	message := pop("", 1)[0].(object)
	operation := object{"type": "ack", "transactionId": message["transactionId"], "partitionId": message["partitionId"], "status": "completed"}
	if c.group != "" {
		operation["consumerGroup"] = c.group
	}
	moved := c.admin(t, "POST", "/api/v1/transaction", object{"operations": list{
		object{"type": "push", "items": list{object{"queue": queue, "partition": "Default", "payload": "moved", "transactionId": "5"}}}, operation,
	}, "requiredLeases": list{message["leaseId"]}}).(object)
	require.Equal(t, true, moved["success"], "%v", moved)

	// A handler that fails: retryLimit 0 dead-letters at once.
	var seen []any
	require.NoError(t, c.push(ctx, queue, "Default", "6"))
	require.NoError(t, c.consume(ctx, queue, 1, func(message object) error {
		seen = append(seen, message["transactionId"])
		if message["transactionId"] == "5" {
			return errors.New("handler says no")
		}
		return errStopped
	}))
	require.Equal(t, []any{"5", "6"}, seen)
	query := url.Values{"queue": {queue}, "limit": {"10"}, "offset": {"0"}}
	if c.group != "" {
		query.Set("consumerGroup", c.group)
	}
	letters := c.admin(t, "GET", "/api/v1/dlq?"+query.Encode(), nil).(object)
	require.EqualValues(t, 1, letters["total"])
	letter := letters["messages"].([]any)[0].(object)
	require.Contains(t, letter["errorMessage"], "handler says no")

	// Messages, traces, retry.
	detail := "/api/v1/messages/" + letter["partitionId"].(string) + "/" + c.adminName("5")
	require.Equal(t, "moved", c.admin(t, "GET", detail, nil).(object)["data"])
	c.admin(t, "POST", "/api/v1/traces", object{
		"transactionId": "5", "partitionId": letter["partitionId"], "consumerGroup": "__QUEUE_MODE__",
		"traceNames": list{queue}, "eventType": "info", "data": object{"text": "hello"},
	})
	named := c.admin(t, "GET", "/api/v1/traces/by-name/"+c.adminName(queue), nil).(object)
	require.EqualValues(t, 1, named["total"])
	require.Equal(t, true, c.admin(t, "POST", detail+"/retry", object{}).(object)["success"])
	require.NoError(t, c.ack(ctx, pop("", 1), "completed", nil))

	// Groups: back to the beginning, then forgotten.
	if c.group != "" {
		group := "/api/v1/consumer-groups/"
		c.admin(t, "POST", group+c.adminName(c.group)+"/queues/"+c.adminName(queue)+"/seek", object{"timestamp": "2001-01-01T00:00:00Z"})
		require.Equal(t, "1", id(pop(partition, 1)[0]))
		c.admin(t, "POST", group+c.groupName(c.group)+"/subscription", object{"subscriptionTimestamp": "2001-01-01T00:00:00Z"})
		require.Contains(t, c.admin(t, "GET", group+c.adminName(c.group), nil), queue)
		gone := c.admin(t, "DELETE", group+c.adminName(c.group)+"/queues/"+c.adminName(queue)+"?deleteMetadata=true", nil).(object)
		require.Equal(t, true, gone["success"])
		require.Equal(t, queue, gone["queueName"])
		require.Equal(t, "1", id(pop(partition, 1)[0]))
		gone = c.admin(t, "DELETE", group+c.groupName(c.group)+"?deleteMetadata=true", nil).(object)
		require.Equal(t, c.group, gone["consumerGroup"])
		require.EqualValues(t, 1, gone["deletedPartitions"], "a pinned pop gives a group that one cursor")
	}
	require.Equal(t, queue, c.admin(t, "GET", "/api/v1/status/queues/"+c.adminName(queue)+"?includePartitions=true", nil).(object)["queue"].(object)["name"])
	deleted := c.admin(t, "DELETE", "/api/v1/resources/queues/"+c.deleteName(queue), nil).(object)
	require.Equal(t, true, deleted["deleted"])
	require.Equal(t, queue, deleted["queue"])

	// What 1.x never had, and a refusal, come as JSON and are not retried.
	var refused *refusal
	_, err = c.request(ctx, "DELETE", "/api/v1/queues/"+c.adminName("q")+"/clear", nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusNotFound, refused.status)
	require.Contains(t, refused.text, "no_such_route")
}

// The rules of retry, against servers that do nothing else.
func TestTheClientRetriesOnTheNextServer(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	answering := func(status int) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":"x"}`))
		}))
		t.Cleanup(server.Close)
		return server
	}
	broken, refusing, good, dead := answering(500), answering(400), answering(200), answering(200)
	dead.Close()
	for name, c := range map[string]struct {
		urls  []string
		calls int32
		fails bool
	}{
		"after a 5xx":           {[]string{broken.URL, good.URL}, 2, false},
		"after a network error": {[]string{dead.URL, good.URL}, 1, false},
		"never after a 4xx":     {[]string{refusing.URL, good.URL}, 1, true},
	} {
		calls.Store(0)
		_, err := newSDK(newServer(c.urls), flavours[0], "").request(t.Context(), "GET", "/health", nil)
		require.Equal(t, c.fails, err != nil, name)
		require.Equal(t, c.calls, calls.Load(), name)
	}
}
