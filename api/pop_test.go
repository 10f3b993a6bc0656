package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/broker"
)

var (
	messageID   = uuid.MustParse("019a7c10-0000-7000-8000-00000000000a")
	partitionID = uuid.MustParse("5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77")
	leaseID     = uuid.MustParse("019a7c11-0000-7000-8000-000000000001")
	created     = time.Date(2031, 4, 5, 8, 7, 8, 123_456_000, time.FixedZone("", 7200))
)

func oneMessage() *broker.PopAnswer {
	return &broker.PopAnswer{Lease: leaseID, Group: "ledger", Parts: []broker.PopPart{{
		Queue: "bills", Partition: "acme", PartitionID: partitionID, Attempt: 1,
		Messages: []broker.Message{{ID: messageID, TransactionID: "b-1", CreatedAt: created, Payload: []byte(`{"n": 1}`)}},
	}}}
}

func (f *fixture) pops(answer *broker.PopAnswer, err error) {
	f.pop = func(context.Context, broker.PopRequest) (*broker.PopAnswer, error) { return answer, err }
}

func TestAPopAnswersItsMessages(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.pops(oneMessage(), nil)
	const message = `{"id":"019a7c10-0000-7000-8000-00000000000a","transactionId":"b-1","traceId":null,"data":{"n": 1},` +
		`"producerSub":null,"createdAt":"2031-04-05T06:07:08.123456Z","partitionId":"5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77",` +
		`"partition":"acme","leaseId":"019a7c11-0000-7000-8000-000000000001","consumerGroup":"ledger","deliveryAttempt":1}`
	const rest = `"partition":"acme","partitionId":"5c0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77",` +
		`"leaseId":"019a7c11-0000-7000-8000-000000000001","consumerGroup":"ledger","partitionsClaimed":1,"messages":[` + message + `]}`
	f.requireJSON(f.do("GET", "/api/v1/pop/queue/bills?consumerGroup=ledger", ""), http.StatusOK, `{"success":true,"queue":"bills",`+rest)
	f.requireJSON(f.do("GET", "/api/v1/pop/queue/bills/partition/acme", ""), http.StatusOK, `{"success":true,"queue":"bills",`+rest)
	f.requireJSON(f.do("GET", "/api/v1/pop?namespace=bills", ""), http.StatusOK, `{"success":true,"queue":"",`+rest)
}

func TestAPopOverPartitionsNamesThemPerMessage(t *testing.T) {
	t.Parallel()
	f := setup(t)
	trace, other := uuid.New(), uuid.New()
	f.pops(&broker.PopAnswer{Parts: []broker.PopPart{
		{Partition: `a"b`, PartitionID: partitionID, Attempt: 3, Repeated: 2, Messages: []broker.Message{
			{ID: messageID, TransactionID: "é\n", TraceID: trace, ProducerSub: "me", CreatedAt: created, Payload: []byte("null")},
			{ID: messageID, TransactionID: "2", CreatedAt: created, Payload: []byte("2")},
		}},
		{Partition: "c", PartitionID: other, Attempt: 1, Messages: []broker.Message{{CreatedAt: created, Payload: []byte(`"x"`)}}},
	}}, nil)
	w := f.do("GET", "/api/v1/pop/queue/q?partitions=2&autoAck=true", "")
	var answer struct {
		LeaseID           *string
		ConsumerGroup     string
		PartitionsClaimed int
		Messages          []map[string]any
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Empty(t, *answer.LeaseID, "autoAck leaves no lease")
	require.Equal(t, "__QUEUE_MODE__", answer.ConsumerGroup)
	require.Equal(t, 2, answer.PartitionsClaimed)
	require.Len(t, answer.Messages, 3)
	require.Equal(t, map[string]any{
		"id": messageID.String(), "transactionId": "é\n", "traceId": trace.String(), "data": nil, "producerSub": "me",
		"createdAt": "2031-04-05T06:07:08.123456Z", "partitionId": partitionID.String(), "partition": `a"b`, "leaseId": "",
		"consumerGroup": "__QUEUE_MODE__", "deliveryAttempt": 3.0,
	}, answer.Messages[0])
	require.Equal(t, 3.0, answer.Messages[1]["deliveryAttempt"])
	require.Equal(t, other.String(), answer.Messages[2]["partitionId"])
	require.Equal(t, "c", answer.Messages[2]["partition"])
	require.Equal(t, 1.0, answer.Messages[2]["deliveryAttempt"])
}

func TestPopParametersReachTheBroker(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) { f.settings.PopTimeout = 7 * time.Second })
	text := func(s string) *string { return &s }
	usual := broker.PopRequest{
		Tenant: broker.DefaultTenant, Queue: "q", Batch: 200, Partitions: 1, Timeout: 7 * time.Second,
		BatchDefault: true, PartitionsDefault: true,
	}
	yes, no := true, false
	with := func(change func(*broker.PopRequest)) broker.PopRequest {
		request := usual
		change(&request)
		return request
	}
	for target, want := range map[string]broker.PopRequest{
		"/queue/q": usual,
		"/queue/q?unknown=1&maxMessages=x&autopilot=false": usual,
		"/queue/q?namespace=n&task=t":                      usual,
		"/queue/q?consumerGroup=g&autopilot=true":          with(func(r *broker.PopRequest) { r.Group, r.Autopilot = "g", true }),
		"/queue/q?consumerGroup=":                          usual,
		"/queue/q?consumerGroup=__QUEUE_MODE__":            usual,
		"/queue/q?conflation=false&autoAck=true":           with(func(r *broker.PopRequest) { r.Conflation, r.AutoAck = &no, true }),
		"/queue/q?conflation=true&consumerGroup=g&batch=9": with(func(r *broker.PopRequest) {
			r.Conflation, r.Group, r.Batch, r.BatchDefault = &yes, "g", 9, false
		}),
		"/queue/q?batch=5&partitions=3&wait=true&timeout=1": with(func(r *broker.PopRequest) {
			r.Batch, r.Partitions, r.Wait, r.Timeout = 5, 3, true, time.Millisecond
			r.BatchDefault, r.PartitionsDefault = false, false
		}),
		"/queue/q?batch=-5&partitions=0&wait=false&timeout=-1&leaseSeconds=-3": with(func(r *broker.PopRequest) {
			r.Batch, r.Partitions, r.Timeout = -5, 0, 0
			r.BatchDefault, r.PartitionsDefault = false, false
		}),
		"/queue/q?batch=99999999999&leaseSeconds=9": with(func(r *broker.PopRequest) { r.Batch, r.BatchDefault, r.LeaseSeconds = 1<<31-1, false, 9 }),
		"/queue/q/partition/p?consumerGroup=a+b%2Fc&subscriptionMode=all&subscriptionFrom=2031-01-01T00%3A00%3A00Z&autoAck=true": with(
			func(r *broker.PopRequest) {
				r.Partition, r.Pinned, r.AutoAck = "p", true, true
				r.Group, r.SubscriptionMode, r.SubscriptionFrom = "a b/c", "all", "2031-01-01T00:00:00Z"
			},
		),
		"?namespace=n": with(func(r *broker.PopRequest) { r.Queue, r.Discovery, r.Namespace = "", true, text("n") }),
		"?task=":       with(func(r *broker.PopRequest) { r.Queue, r.Discovery, r.Task = "", true, text("") }),
		"?task=t&namespace=%C3%A9": with(func(r *broker.PopRequest) {
			r.Queue, r.Discovery, r.Namespace, r.Task = "", true, text("é"), text("t")
		}),
	} {
		f.popped = nil
		f.requireNoContent(f.do("GET", "/api/v1/pop"+target, ""))
		require.Equal(t, []broker.PopRequest{want}, f.popped, target)
	}
	f.popped = nil
	f.do("GET", "/api/v1/pop/queue/q?consumerGroup=a%00b", "")
	require.Equal(t, "a\ufffdb", f.popped[0].Group)
}

func TestBadPopParametersAreFrameworkErrors(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, parameters := range []string{
		"batch=x", "batch=", "batch=1.5", "batch=1e3", "batch=+5", "batch=5_000", "batch=0x10", "batch=99999999999999999999", "partitions=one",
		"wait=1", "wait=", "wait=TRUE", "wait=yes", "timeout=1s", "autoAck=on", "leaseSeconds=?", "conflation=1", "autopilot=maybe",
		"batch=1&batch=2", "wait=true&wait=true",
	} {
		for _, path := range []string{"/queue/q?", "/queue/q/partition/p?", "?namespace=n&"} {
			f.requireText(f.do("GET", "/api/v1/pop"+path+parameters, ""), http.StatusBadRequest)
		}
	}
	require.Empty(t, f.popped)
}

func TestPopsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	long := strings.Repeat("n", 1025)
	for target, text := range map[string]string{
		"":                         "namespace or task is required",
		"?consumerGroup=g":         "namespace or task is required",
		"/queue/q?conflation=true": "conflation requires consumerGroup: it is a property of a queue and a group",
		"/queue/q?conflation=true&autoAck=true&consumerGroup=__QUEUE_MODE__": "conflation requires consumerGroup: it is a property of a queue and a group",
		"/queue/q?conflation=true&autoAck=true&consumerGroup=g":              "conflation cannot be combined with autoAck",
		"?conflation=true":                        "conflation requires consumerGroup: it is a property of a queue and a group",
		"/queue/a%00b":                            "queue holds a control character",
		"/queue/q/partition/a%0Ab":                "partition holds a control character",
		"/queue/" + long:                          "queue is longer than 1024 bytes",
		"/queue/a%FFb":                            "queue is not valid UTF-8",
		"/queue/q?consumerGroup=" + long:          "consumerGroup is longer than 1024 bytes",
		"/queue/q/partition/" + long + "?batch=1": "partition is longer than 1024 bytes",
	} {
		f.requireJSON(f.do("GET", "/api/v1/pop"+target, ""), http.StatusBadRequest, `{"success":false,"error":"`+text+`","messages":[]}`)
	}
	require.Empty(t, f.popped)
}

func TestPopFailures(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.pops(nil, errors.New("secret detail"))
	f.requireJSON(f.do("GET", "/api/v1/pop/queue/q", ""), http.StatusInternalServerError, `{"error":"pop failed"}`)
	f.pops(nil, broker.Unavailable(errors.New("refused")))
	f.requireJSON(f.do("GET", "/api/v1/pop/queue/q", ""), http.StatusInternalServerError, `{"error":"pool"}`)
	f.pops(nil, &broker.SealedError{Code: broker.CodeNoKey, Queue: "q"})
	require.Contains(t, f.do("GET", "/api/v1/pop/queue/q", "").Body.String(), `{"error":"WG0031 queue \"q\"`)
	f.pops(&broker.PopAnswer{}, nil)
	f.requireNoContent(f.do("GET", "/api/v1/pop/queue/q", ""))
}

func TestALargeAnswerGoesOutInChunksAndIsTheSame(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := httptest.NewServer(f.server)
	defer server.Close()
	for _, sizes := range [][]int{{10, 20}, {popPiece, popPiece}, {1, 3 * popPiece, 1}, {100 << 10, 200 << 10, 300 << 10, 400 << 10}} {
		answer := oneMessage()
		answer.Parts[0].Messages = nil
		total := 0
		for _, size := range sizes {
			answer.Parts[0].Messages = append(answer.Parts[0].Messages, broker.Message{CreatedAt: created, Payload: []byte(`"` + strings.Repeat("x", size) + `"`)})
			total += size
		}
		f.pops(answer, nil)
		response, err := server.Client().Get(server.URL + "/api/v1/pop/queue/q")
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, total > popPiece, response.ContentLength < 0)
		var got struct{ Messages []struct{ Data string } }
		require.NoError(t, json.Unmarshal(body, &got))
		require.Len(t, got.Messages, len(sizes))
		for i, size := range sizes {
			require.Len(t, got.Messages[i].Data, size)
		}
	}
}

func TestAPoppedPayloadKeepsItsBytes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		payload, err := json.MarshalIndent(rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.String())).Draw(t, "payload"), "", rapid.SampledFrom([]string{"", "  "}).Draw(t, "indent"))
		require.NoError(t, err)
		name := rapid.String().Draw(t, "name")
		answer := oneMessage()
		answer.Group, answer.Parts[0].Partition = name+"g", name
		answer.Parts[0].Messages[0] = broker.Message{Payload: payload, TransactionID: name, ProducerSub: name, CreatedAt: created}
		dst := httptest.NewRecorder()
		x := &exchange{server: f.server, w: dst, r: httptest.NewRequest("GET", "/", nil)}
		x.writePop(&broker.PopRequest{Queue: name}, answer)
		var got struct {
			Queue, Partition, ConsumerGroup string
			Messages                        []struct {
				Data          json.RawMessage
				TransactionID string
				ProducerSub   *string
			}
		}
		require.NoError(t, json.Unmarshal(dst.Body.Bytes(), &got))
		require.Equal(t, string(payload), string(got.Messages[0].Data))
		require.Equal(t, []string{name, name, name + "g", name}, []string{got.Queue, got.Partition, got.ConsumerGroup, got.Messages[0].TransactionID})
		require.Equal(t, name == "", got.Messages[0].ProducerSub == nil)
		require.Equal(t, strconv.Itoa(dst.Body.Len()), dst.Header().Get("Content-Length"))
	})
}

func TestAClientThatLeavesFreesItsPopAndGivesBackWhatCameTooLate(t *testing.T) {
	t.Parallel()
	f := setup(t)
	parked, left := make(chan struct{}), make(chan struct{})
	answer := oneMessage()
	f.pop = func(ctx context.Context, _ broker.PopRequest) (*broker.PopAnswer, error) {
		close(parked)
		<-ctx.Done()
		defer close(left)
		return answer, nil // the claim was already under way
	}
	server := httptest.NewServer(f.server)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/v1/pop/queue/q?wait=true", nil)
	require.NoError(t, err)
	go func() {
		<-parked
		cancel()
	}()
	_, err = server.Client().Do(request)
	require.ErrorIs(t, err, context.Canceled)
	<-left
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.returned) == 1 && f.returned[0] == answer
	}, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		return f.counter("waggle_http_requests_total", "code", "499") == 1
	}, 30*time.Second, time.Millisecond)
}

func TestADeliveredAnswerIsNotGivenBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.pops(oneMessage(), nil)
	require.Equal(t, http.StatusOK, f.do("GET", "/api/v1/pop/queue/q", "").Code)
	require.Empty(t, f.returned)
}

func BenchmarkWritePop(b *testing.B) {
	answer := oneMessage()
	part := &answer.Parts[0]
	for range 99 {
		part.Messages = append(part.Messages, broker.Message{
			ID: messageID, TransactionID: messageID.String(), CreatedAt: created, Payload: []byte(`{"pad":"` + strings.Repeat("x", 240) + `"}`),
		})
	}
	d := &double{}
	s := &Server{parts: Parts{Draining: func() bool { return d.draining }}}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		w.Body.Reset()
		(&exchange{server: s, w: w, r: r}).writePop(&broker.PopRequest{Queue: "bills"}, answer)
	}
	b.SetBytes(int64(w.Body.Len()))
}
