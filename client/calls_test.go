package client

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPush(t *testing.T) {
	t.Parallel()
	f := newFake(t, 201, `[{"index":0,"message_id":"m","transaction_id":"t-1","queueName":"q","status":"queued"},
		{"index":1,"message_id":"m","transaction_id":"x","queueName":"q","status":"failed","error":"internal"}]`)
	c := newClient(t, Config{URLs: []string{f.URL}})
	got, err := c.Push(t.Context(), []Item{
		{Queue: `a/"b`, Partition: "p", TransactionID: "t-1", Payload: json.RawMessage(`{"n": 1}`)},
		{Queue: "q"},
	})
	require.NoError(t, err)
	require.Equal(t, PushResult{Index: 1, MessageID: "m", TransactionID: "x", Queue: "q", Status: Failed, Error: "internal"}, got[1])
	require.Contains(t, f.last(t).Body, `{"n": 1}`, "payloads travel as they are")

	var sent struct {
		Items []map[string]any `json:"items"`
	}
	require.NoError(t, json.Unmarshal([]byte(f.last(t).Body), &sent))
	require.Equal(t, `a/"b`, sent.Items[0]["queue"])
	require.Equal(t, "t-1", sent.Items[0]["transactionId"])
	require.NotContains(t, sent.Items[1], "partition")
	require.Contains(t, sent.Items[1], "payload")
	require.Nil(t, sent.Items[1]["payload"])
	_, err = uuid.Parse(sent.Items[1]["transactionId"].(string))
	require.NoError(t, err, "a push without transaction id gets one, or a repeat would store it twice")
}

func TestPushRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	f := newFake(t, 201, `[]`)
	c := newClient(t, Config{URLs: []string{f.URL}})
	for _, payload := range []string{"", "{", `1},{"queue":"x"`, "\"\xff\""} {
		_, err := c.Push(t.Context(), []Item{{Queue: "q", Payload: json.RawMessage("1")}, {Queue: "q", Payload: json.RawMessage(payload)}})
		var invalid *InvalidPayloadError
		require.ErrorAs(t, err, &invalid, payload)
		require.Equal(t, 1, invalid.Index)
	}
	_, err := c.Push(t.Context(), []Item{{Queue: "q\xff"}})
	require.Error(t, err)
	require.Empty(t, f.got())

	_, err = c.Push(t.Context(), []Item{{Queue: "q"}})
	require.ErrorContains(t, err, "answered with 0 results")
	got, err := c.Push(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestPushBodyIsWhatJSONWouldWrite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Item {
			payload, err := json.Marshal(rapid.String().Draw(t, "payload"))
			require.NoError(t, err)
			return Item{
				Queue:         rapid.String().Draw(t, "queue"),
				Partition:     rapid.StringN(1, 9, -1).Draw(t, "partition"),
				TransactionID: rapid.StringN(1, 9, -1).Draw(t, "id"),
				Payload:       payload,
			}
		})).Draw(t, "items")
		body, err := appendPush(nil, items)
		require.NoError(t, err)
		var got struct {
			Items []struct {
				Queue, Partition, TransactionID string
				Payload                         json.RawMessage
			} `json:"items"`
		}
		require.NoError(t, json.Unmarshal(body, &got))
		require.Len(t, got.Items, len(items))
		for i, item := range got.Items {
			require.Equal(t, items[i], Item(item))
		}
	})
}

func TestPop(t *testing.T) {
	t.Parallel()
	f := newFake(t, 200, `{"success":true,"queue":"bills","partition":"acme","partitionId":"pid","leaseId":"l",
		"consumerGroup":"ledger","partitionsClaimed":1,"messages":[{"id":"m","transactionId":"b-1","traceId":null,
		"data":{"n": 1.50},"producerSub":null,"createdAt":"2031-04-05T06:07:08.123456Z","partitionId":"pid",
		"partition":"acme","leaseId":"l","consumerGroup":"ledger","deliveryAttempt":2}]}`)
	c := newClient(t, Config{URLs: []string{f.URL}})
	got, err := c.Pop(t.Context(), PopRequest{Queue: "bills"})
	require.NoError(t, err)
	require.Equal(t, "ledger", got.Group)
	m := got.Messages[0]
	require.JSONEq(t, `{"n":1.50}`, string(m.Data))
	require.Contains(t, string(m.Data), "1.50")
	require.Equal(t, 2, m.DeliveryAttempt)
	require.Equal(t, 123456000, m.CreatedAt.Nanosecond())
	want := Ack{TransactionID: "b-1", PartitionID: "pid", Status: Completed, LeaseID: "l", base: f.URL}
	require.Equal(t, []Ack{want}, got.Completed())

	empty := newClient(t, Config{URLs: []string{newFake(t, 204, "").URL}})
	got, err = empty.Pop(t.Context(), PopRequest{Queue: "bills"})
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestAnAnswerIsAcknowledgedWhereItCameFrom(t *testing.T) {
	t.Parallel()
	pop := `{"leaseId":"l","messages":[{"id":"m","transactionId":"t","partitionId":"p","leaseId":"l"}]}`
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, pop)
			return
		}
		_, _ = io.WriteString(w, `[{"success":true}]`)
	}
	fakes := []*fake{newFakeFunc(t, handler), newFakeFunc(t, handler), newFakeFunc(t, handler)}
	c := newClient(t, Config{URLs: []string{fakes[0].URL, fakes[1].URL, fakes[2].URL}})
	for _, queue := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		got, err := c.Pop(t.Context(), PopRequest{Queue: queue})
		require.NoError(t, err)
		_, err = c.AckBatch(t.Context(), "", got.Completed())
		require.NoError(t, err)
	}
	used := 0
	for _, f := range fakes {
		calls := f.got()
		for i := 0; i < len(calls); i += 2 {
			require.Equal(t, http.MethodGet, calls[i].Method)
			require.Equal(t, http.MethodPost, calls[i+1].Method, "each pop's ack follows at the same broker")
			used++
		}
	}
	require.Equal(t, 8, used)
}

func TestPopPath(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		request PopRequest
		want    string
	}{
		"queue":     {PopRequest{Queue: "q"}, "/api/v1/pop/queue/q"},
		"pinned":    {PopRequest{Queue: `a/b "c"\é`, Partition: "p q"}, "/api/v1/pop/queue/a%2Fb%20%22c%22%5C%C3%A9/partition/p%20q"},
		"discovery": {PopRequest{Namespace: "n", Task: "a b"}, "/api/v1/pop?namespace=n&task=a+b"},
		"waiting":   {PopRequest{Queue: "q", Wait: true}, "/api/v1/pop/queue/q?timeout=30000&wait=true"},
		"everything": {
			PopRequest{
				Queue: "q", Group: "g", Batch: 5, Partitions: -1, Wait: true, Timeout: time.Millisecond, AutoAck: true,
				Lease: 9 * time.Second, Mode: "all", From: "now",
			},
			"/api/v1/pop/queue/q?autoAck=true&batch=5&consumerGroup=g&leaseSeconds=9&partitions=-1&subscriptionFrom=now" +
				"&subscriptionMode=all&timeout=1&wait=true",
		},
	} {
		got, err := popPath(row.request)
		require.NoError(t, err, name)
		require.Equal(t, row.want, got, name)
	}
	for _, r := range []PopRequest{{}, {Partition: "p"}} {
		_, err := popPath(r)
		require.Error(t, err)
	}
}

func TestAwkwardNamesSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringN(1, 20, -1).Draw(r, "name")
		path := queuePath(name)
		parsed, err := url.ParseRequestURI(path)
		require.NoError(r, err)
		back, err := url.PathUnescape(strings.TrimPrefix(parsed.EscapedPath(), "/api/v1/resources/queues/"))
		require.NoError(r, err)
		require.Equal(r, name, back)
	})
}

func TestAck(t *testing.T) {
	t.Parallel()
	f := newFakeFunc(t, func(w http.ResponseWriter, r *http.Request) {
		one := `{"index":0,"transactionId":"a","success":false,"error":"invalid or expired lease","leaseReleased":false,"dlq":true,"noop":true}`
		if strings.HasSuffix(r.URL.Path, "batch") {
			one += "," + one
		}
		_, _ = io.WriteString(w, "["+one+"]")
	})
	c := newClient(t, Config{URLs: []string{f.URL}})
	got, err := c.Ack(t.Context(), "g", Ack{TransactionID: "a", PartitionID: "p", Status: DeadLetter, LeaseID: "l", Error: "why"})
	require.NoError(t, err)
	require.Equal(t, AckResult{TransactionID: "a", Error: "invalid or expired lease", DLQ: true, Noop: true}, got)
	require.Equal(t, "/api/v1/ack", f.last(t).URI)
	require.Equal(t, asJSON(t, `{"transactionId":"a","partitionId":"p","status":"dlq","leaseId":"l","error":"why","consumerGroup":"g"}`),
		asJSON(t, f.last(t).Body))

	acks := []Ack{{TransactionID: "a", PartitionID: "p", Status: Completed}, {TransactionID: "", PartitionID: "p", Status: Retry}}
	results, err := c.AckBatch(t.Context(), "", acks)
	require.NoError(t, err)
	require.Len(t, results, 2)
	require.Equal(t, "/api/v1/ack/batch", f.last(t).URI)
	require.Equal(t, asJSON(t, `{"acknowledgments":[{"transactionId":"a","partitionId":"p","status":"completed"},
		{"transactionId":"","partitionId":"p","status":"retry"}]}`), asJSON(t, f.last(t).Body))

	before := len(f.got())
	results, err = c.AckBatch(t.Context(), "", nil)
	require.NoError(t, err)
	require.Empty(t, results)
	require.Len(t, f.got(), before)
}

func TestExtend(t *testing.T) {
	t.Parallel()
	f := newFake(t, 200, `{"leaseId":"l","success":true,"renewed":2,"newExpiresAt":"2031-04-05T06:07:08.123456Z"}`)
	got, err := newClient(t, Config{URLs: []string{f.URL}}).Extend(t.Context(), "l", 90*time.Second)
	require.NoError(t, err)
	require.Equal(t, 2, got.Renewed)
	require.False(t, got.ExpiresAt.IsZero())
	require.Equal(t, "/api/v1/lease/l/extend", f.last(t).URI)
	require.JSONEq(t, `{"seconds":90}`, f.last(t).Body)

	gone := newFake(t, 200, `{"leaseId":"l","success":false,"renewed":0,"newExpiresAt":null}`)
	got, err = newClient(t, Config{URLs: []string{gone.URL}}).Extend(t.Context(), "l", 0)
	require.NoError(t, err)
	require.False(t, got.Success)
	require.True(t, got.ExpiresAt.IsZero())
	require.JSONEq(t, `{"seconds":1}`, gone.last(t).Body)
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	f := newFake(t, 200, `{"configured":true,"queueId":"id","queue":"q","namespace":"n","task":"","options":{"leaseTime":300},
		"optionsVersion":4,"ignored":["shade"]}`)
	c := newClient(t, Config{URLs: []string{f.URL}})
	namespace := "n"
	got, err := c.Configure(t.Context(), Configuration{
		Queue: "q", Namespace: &namespace, Options: map[string]any{"leaseTime": 5, "ttl": nil}, Replace: true, IfVersion: 3,
	})
	require.NoError(t, err)
	require.Equal(t, int64(4), got.OptionsVersion)
	require.Equal(t, []string{"shade"}, got.Ignored)
	require.Equal(t, asJSON(t, `{"queue":"q","mode":"replace","namespace":"n","ifVersion":3,"options":{"leaseTime":5,"ttl":null}}`),
		asJSON(t, f.last(t).Body))
	_, err = c.Configure(t.Context(), Configuration{Queue: "q"})
	require.NoError(t, err)
	require.Equal(t, asJSON(t, `{"queue":"q","mode":"merge","options":{}}`), asJSON(t, f.last(t).Body))
}

func TestQueues(t *testing.T) {
	t.Parallel()
	f := newFakeFunc(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			_, _ = io.WriteString(w, `{"deleted":true,"queue":"q","existed":true}`)
		case r.URL.Path == "/api/v1/resources/queues":
			_, _ = io.WriteString(w, `{"queues":[{"id":"i","name":"bills","partitions":3,"retainedBytes":5120,
				"createdAt":"2031-04-05T06:07:08.123Z","segments":{"segments":4,"messages":120},
				"messages":{"total":120,"pending":20,"processing":10}}]}`)
		default:
			_, _ = io.WriteString(w, `{"id":"i","name":"q","options":{"leaseTime":60},"partitions":[{"id":"p","name":"n",
				"createdAt":"2031-04-05T06:07:08.123Z","stats":{"total":3,"pending":2,"processing":1,"completed":0,"failed":null,
				"deadLetter":1},"oldestMessage":null,"newestMessage":"2031-04-05T06:07:08.123Z"}],"totals":{"total":3}}`)
		}
	})
	c := newClient(t, Config{URLs: []string{f.URL}})
	list, err := c.Queues(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(20), list[0].Messages.Pending)
	require.Equal(t, int64(4), list[0].Segments.Segments)

	detail, err := c.Queue(t.Context(), "a/b")
	require.NoError(t, err)
	require.Equal(t, "/api/v1/resources/queues/a%2Fb", f.last(t).URI)
	require.Nil(t, detail.Partitions[0].OldestMessage)
	require.NotNil(t, detail.Partitions[0].NewestMessage)
	require.Equal(t, int64(1), detail.Partitions[0].Stats.DeadLetter)

	existed, err := c.DeleteQueue(t.Context(), "q")
	require.NoError(t, err)
	require.True(t, existed)
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	f := newFake(t, 200, `{"messages":[{"id":"77","transactionId":"b-1","queue":"bills","consumerGroup":"ledger",
		"errorMessage":"card refused","retryCount":3,"data":{"n":1},"failedAt":"2031-04-05T06:09:00.000Z"}],"total":1}`)
	c := newClient(t, Config{URLs: []string{f.URL}})
	got, err := c.DeadLetters(t.Context(), DeadLetterQuery{Queue: "a b", Group: "g", Limit: 5, Offset: 2})
	require.NoError(t, err)
	require.Equal(t, "card refused", got[0].Error)
	require.Equal(t, "/api/v1/dlq?consumerGroup=g&limit=5&offset=2&queue=a+b", f.last(t).URI)
	_, err = c.DeadLetters(t.Context(), DeadLetterQuery{})
	require.NoError(t, err)
	require.Equal(t, "/api/v1/dlq", f.last(t).URI)
}
