package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"waggle/broker"
)

func TestPushAnswersInOrder(t *testing.T) {
	t.Parallel()
	f := setup(t)
	id := uuid.MustParse("019a7c10-0000-7000-8000-00000000000a")
	f.push = func(_ context.Context, items []broker.PushItem) []broker.PushResult {
		return []broker.PushResult{
			{MessageID: id, TransactionID: "b-1", Status: broker.Queued},
			{MessageID: id, TransactionID: "b-1", Status: broker.Duplicate},
			{MessageID: id, TransactionID: id.String(), Status: broker.Failed},
			{TransactionID: `q"`, Status: broker.Buffered},
		}
	}
	w := f.do("POST", "/api/v1/push", `{"items":[
		{"queue":"bills","partition":"acme","payload":{"n":1},"transactionId":"b-1","traceId":"x","producerSub":"me"},
		{"queue":"bills","partition":"acme","payload":{"n":2},"transactionId":"b-1"},
		{"payload":null,"queue":"b.c/d e","partition":null,"transactionId":null},
		{"queue":"é\"\\","payload": [1, 2.50 ,"a\u0000\/"] ,"transactionId":"","unknown":{"queue":[1]}}],"extra":true}`)
	f.requireJSON(w, http.StatusCreated, `[`+
		`{"index":0,"message_id":"019a7c10-0000-7000-8000-00000000000a","transaction_id":"b-1","queueName":"bills","status":"queued"},`+
		`{"index":1,"message_id":"019a7c10-0000-7000-8000-00000000000a","transaction_id":"b-1","queueName":"bills","status":"duplicate"},`+
		`{"index":2,"message_id":"019a7c10-0000-7000-8000-00000000000a","transaction_id":"019a7c10-0000-7000-8000-00000000000a",`+
		`"queueName":"b.c/d e","status":"failed","error":"internal"},`+
		`{"index":3,"message_id":"00000000-0000-0000-0000-000000000000","transaction_id":"q\"","queueName":"é\"\\","status":"buffered"}]`)
	require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
	require.Equal(t, []broker.PushItem{
		{Queue: "bills", Partition: "acme", Payload: []byte(`{"n":1}`), TransactionID: "b-1", HasTransactionID: true},
		{Queue: "bills", Partition: "acme", Payload: []byte(`{"n":2}`), TransactionID: "b-1", HasTransactionID: true},
		{Queue: "b.c/d e", Partition: "Default", Payload: []byte(`null`)},
		{Queue: `é"\`, Partition: "Default", Payload: []byte(`[1, 2.50 ,"a\u0000\/"]`), HasTransactionID: true},
	}, f.pushed)
	require.Equal(t, broker.DefaultTenant, f.tenant)
}

func TestAnEmptyPushIsAnEmptyList(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.requireJSON(f.do("POST", "/api/v1/push", ` {"items": [ ] } `), http.StatusCreated, `[]`)
	require.Nil(t, f.pushed)
}

func TestTheLastOfARepeatedKeyCounts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.do("POST", "/api/v1/push", `{"items":[{"queue":"a","payload":1}],"items":[{"queue":"x","queue":"b","partition":"p","partition":null,
		"transactionId":"t","transactionId":null,"payload":1,"payload":2}]}`)
	require.Equal(t, []broker.PushItem{{Queue: "b", Partition: "Default", Payload: []byte("2")}}, f.pushed)
}

func TestBadPushesAreRefusedWhole(t *testing.T) {
	t.Parallel()
	f := setup(t)
	item := func(members string) string { return `{"items":[{"queue":"good","payload":1},{` + members + `}]}` }
	long := strings.Repeat("n", 1025)
	for name, c := range map[string]struct{ body, text string }{
		"no body":                  {"", "bad body: expected an object at byte 0"},
		"no object":                {"[]", "bad body: expected an object at byte 0"},
		"cut":                      {`{"items":[`, `bad body: expected an object for "items" at byte 10`},
		"trailing text":            {`{"items":[]} x`, "bad body: unexpected text after the value at byte 13"},
		"no items":                 {`{}`, `bad body: missing field "items"`},
		"items null":               {`{"items":null}`, `bad body: expected an array for "items" at byte 9`},
		"key without quotes":       {`{"items":[{"queue":"q",payload:1}]}`, "bad body: expected a string at byte 23"},
		"item null":                {`{"items":[null]}`, `bad body: expected an object for "items" at byte 10`},
		"second item a number":     {`{"items":[{"queue":"q","payload":1},7]}`, `bad body: expected an object for "items" at byte 36`},
		"no queue":                 {item(`"payload":1`), `bad body: items[1]: missing field "queue"`},
		"queue null":               {item(`"queue":null,"payload":1`), `bad body: expected a string for "queue" at byte 48`},
		"queue number":             {item(`"queue":1,"payload":1`), `bad body: expected a string for "queue" at byte 48`},
		"partition number":         {item(`"queue":"q","partition":1,"payload":1`), `bad body: expected a string for "partition" at byte 64`},
		"transactionId number":     {item(`"queue":"q","transactionId":1,"payload":1`), `bad body: expected a string for "transactionId" at byte 68`},
		"no payload":               {item(`"queue":"q"`), `bad body: items[1]: missing field "payload"`},
		"data is no payload":       {item(`"queue":"q","data":1`), `bad body: items[1]: missing field "payload"`},
		"broken payload":           {item(`"queue":"q","payload":{"a":01}`), "bad body: expected ',' or a closing bracket at byte 68"},
		"invalid UTF-8":            {item("\"queue\":\"q\",\"payload\":\"\xff\""), "bad body: invalid UTF-8 at byte 63"},
		"deep payload":             {item(`"queue":"q","payload":` + strings.Repeat("[", 513) + strings.Repeat("]", 513)), "bad body: nested too deep at byte 574"},
		"control in queue":         {item(`"queue":"a\u001fb","payload":1`), "items[1]: queue holds a control character"},
		"control in partition":     {item(`"queue":"a","partition":"\n","payload":1`), "items[1]: partition holds a control character"},
		"control in transactionId": {item(`"queue":"a","transactionId":"\u0000","payload":1`), "items[1]: transactionId holds a control character"},
		"raw control":              {item("\"queue\":\"a\tb\",\"payload\":1"), "bad body: control character in a string at byte 50"},
		"long queue":               {item(`"queue":"` + long + `","payload":1`), "items[1]: queue is longer than 1024 bytes"},
		"long partition":           {item(`"queue":"q","partition":"` + long + `","payload":1`), "items[1]: partition is longer than 1024 bytes"},
		"long transactionId":       {item(`"queue":"q","transactionId":"` + strings.Repeat("é", 32768) + `","payload":1`), "items[1]: transactionId is longer than 65535 bytes"},
	} {
		w := f.do("POST", "/api/v1/push", c.body)
		var answer struct{ Error string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), name)
		require.Equal(t, c.text, answer.Error, name)
		require.Equal(t, http.StatusBadRequest, w.Code, name)
	}
	require.Empty(t, f.pushed)
}

func TestNamesAtTheirLimitsPass(t *testing.T) {
	t.Parallel()
	f := setup(t)
	name, id := strings.Repeat("n", 1024), strings.Repeat("i", 65535)
	deep := strings.Repeat("[", 512) + strings.Repeat("]", 512)
	w := f.do("POST", "/api/v1/push", `{"items":[{"queue":"`+name+`","partition":"`+name+`","transactionId":"`+id+`","payload":`+deep+`}]}`)
	require.Equal(t, http.StatusCreated, w.Code, w.Body.String())
	require.Equal(t, []broker.PushItem{{Queue: name, Partition: name, Payload: []byte(deep), TransactionID: id, HasTransactionID: true}}, f.pushed)
}

func TestDecodedPushesEqualWhatEncodingJSONReads(t *testing.T) {
	t.Parallel()
	name := rapid.StringMatching(`[a-zé€"\\/ .]{0,40}`)
	payload := rapid.OneOf(rapid.Just[any](nil), rapid.String().AsAny(), rapid.Float64().Filter(func(f float64) bool { return f == f && f < 1e300 && f > -1e300 }).AsAny(),
		rapid.SliceOf(rapid.String()).AsAny(), rapid.MapOf(rapid.String(), rapid.Int()).AsAny())
	type item struct {
		Queue         string          `json:"queue"`
		Partition     *string         `json:"partition"`
		TransactionID *string         `json:"transactionId,omitempty"`
		Payload       json.RawMessage `json:"payload"`
	}
	decoder := takePushDecoder() // shared by all draws: nothing may be left over from one body to the next
	rapid.Check(t, func(t *rapid.T) {
		var body struct {
			Items []item `json:"items"`
		}
		for range rapid.IntRange(0, 150).Draw(t, "n") {
			raw, err := json.Marshal(payload.Draw(t, "payload"))
			require.NoError(t, err)
			body.Items = append(body.Items, item{
				Queue: name.Draw(t, "queue"), Partition: rapid.Ptr(name, true).Draw(t, "partition"),
				TransactionID: rapid.Ptr(name, true).Draw(t, "transaction"), Payload: raw,
			})
		}
		if body.Items == nil {
			body.Items = []item{}
		}
		data, err := json.Marshal(body)
		require.NoError(t, err)
		items, err := decoder.decode(data)
		require.NoError(t, err)
		require.Len(t, items, len(body.Items))
		for i, want := range body.Items {
			require.Equal(t, want.Queue, items[i].Queue)
			require.Equal(t, string(want.Payload), string(items[i].Payload))
			require.Equal(t, want.TransactionID != nil, items[i].HasTransactionID)
			if want.TransactionID != nil {
				require.Equal(t, *want.TransactionID, items[i].TransactionID)
			}
			if want.Partition == nil {
				want.Partition = new(string)
				*want.Partition = broker.DefaultPartition
			}
			require.Equal(t, *want.Partition, items[i].Partition)
		}
	})
}

func TestPushedNamesDoNotDependOnTheBodyBuffer(t *testing.T) {
	t.Parallel()
	decoder := takePushDecoder()
	data := []byte(`{"items":[{"queue":"queue-name","partition":"part","transactionId":"id-1","payload":1},{"queue":"q\u0041","transactionId":"id-2","payload":1}]}`)
	items, err := decoder.decode(data)
	require.NoError(t, err)
	for i := range data {
		data[i] = 'X'
	}
	require.Equal(t, []string{"queue-name", "part", "id-1", "qA", "id-2"},
		[]string{items[0].Queue, items[0].Partition, items[0].TransactionID, items[1].Queue, items[1].TransactionID})
}

func TestBodiesAreLimited(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) { f.settings.MaxBodyBytes = 100 })
	body := func(size int) string {
		const frame = `{"items":[{"queue":"q","payload":""}]}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	require.Equal(t, http.StatusCreated, f.do("POST", "/api/v1/push", body(100)).Code)
	f.requireText(f.do("POST", "/api/v1/push", body(101)), http.StatusRequestEntityTooLarge)

	chunked := func(text string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/api/v1/push", io.MultiReader(iotest.OneByteReader(strings.NewReader(text))))
		require.EqualValues(t, -1, r.ContentLength)
		w := httptest.NewRecorder()
		f.server.ServeHTTP(w, r)
		return w
	}
	require.Equal(t, http.StatusCreated, chunked(body(100)).Code)
	f.requireText(chunked(body(101)), http.StatusRequestEntityTooLarge)
	require.Len(t, f.pushed, 2)
	for _, target := range []string{"/api/v1/ack", "/api/v1/ack/batch", "/api/v1/configure", "/api/v1/lease/x/extend"} {
		f.requireText(f.do("POST", target, body(101)), http.StatusRequestEntityTooLarge)
	}
}

func TestLargeBodiesArriveWhole(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := httptest.NewServer(f.server)
	defer server.Close()
	payload := `"` + strings.Repeat("0123456789", 1_200_000) + `"` // 12 MB
	for _, body := range []io.Reader{
		strings.NewReader(`{"items":[{"queue":"q","payload":` + payload + `}]}`),
		struct{ io.Reader }{strings.NewReader(`{"items":[{"queue":"q","payload":` + payload + `}]}`)}, // chunked
	} {
		f.pushed = nil
		response, err := server.Client().Post(server.URL+"/api/v1/push", "", body)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, response.StatusCode)
		require.NoError(t, response.Body.Close())
		require.True(t, bytes.Equal([]byte(payload), f.pushed[0].Payload))
	}
	require.True(t, f.server.bodyMemory.TryAcquire(f.server.settings.BodyMemory), "body memory was not given back")
}

func TestABodyThatBreaksOffIsABadBody(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := httptest.NewRequest("POST", "/api/v1/push", io.MultiReader(strings.NewReader(`{"items":`), iotest.ErrReader(io.ErrUnexpectedEOF)))
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	f.requireJSON(w, http.StatusBadRequest, `{"error":"bad body: unexpected EOF"}`)
}

func TestMemoryOfBodiesIsBoundedOverAllRequests(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) { f.settings.BodyMemory = 200 << 10 })
	require.True(t, f.server.bodyMemory.TryAcquire(199<<10))
	body := `{"items":[{"queue":"q","payload":"` + strings.Repeat("x", 10<<10) + `"}]}`

	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- f.do("POST", "/api/v1/push", body) }()
	select {
	case <-done:
		t.Fatal("a body was read without memory for it")
	case <-time.After(50 * time.Millisecond):
	}
	f.server.bodyMemory.Release(199 << 10)
	require.Equal(t, http.StatusCreated, (<-done).Code)

	require.True(t, f.server.bodyMemory.TryAcquire(200<<10))
	f.requireJSON(f.do("POST", "/api/v1/push", body), http.StatusInternalServerError, `{"error":"too many request bodies at once"}`)
	f.server.bodyMemory.Release(200 << 10)
	require.True(t, f.server.bodyMemory.TryAcquire(200<<10), "a refused body kept memory")
}

func BenchmarkDecodePush(b *testing.B) {
	var body bytes.Buffer
	body.WriteString(`{"items":[`)
	for i := range 100 {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"queue":"bench","partition":"p` + strconv.Itoa(i%16) + `","transactionId":"` + uuid.NewString() +
			`","payload":{"n":` + strconv.Itoa(i) + `,"pad":"` + strings.Repeat("x", 240) + `"}}`)
	}
	body.WriteString(`]}`)
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		d := takePushDecoder()
		if items, err := d.decode(body.Bytes()); err != nil || len(items) != 100 {
			b.Fatal(err)
		}
		d.release()
	}
}

// BenchmarkPushRequest is a push of one message without network and storage: what the HTTP side itself costs.
func BenchmarkPushRequest(b *testing.B) {
	d := &double{push: func(_ context.Context, items []broker.PushItem) []broker.PushResult {
		return make([]broker.PushResult, len(items))
	}}
	registry := prometheus.NewRegistry()
	s, err := New(Settings{}, Parts{
		Broker: unrecorded{d}, Reads: d, Cluster: d, Mesh: d, Health: d, Maintenance: d, Process: d, Draining: func() bool { return false }, Gatherer: registry, Registerer: registry, Logger: zap.NewNop(),
	})
	require.NoError(b, err)
	body := []byte(`{"items":[{"queue":"bench","partition":"p1","transactionId":"` + uuid.NewString() + `","payload":{"pad":"` + strings.Repeat("x", 240) + `"}}]}`)
	reader := bytes.NewReader(body)
	r := httptest.NewRequest("POST", "/api/v1/push", reader)
	r.ContentLength = int64(len(body))
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		w.Body.Reset()
		s.ServeHTTP(w, r)
	}
}

// unrecorded keeps the double from copying what is pushed.
type unrecorded struct{ *double }

func (u unrecorded) Push(ctx context.Context, _ uuid.UUID, _ string, items []broker.PushItem) []broker.PushResult {
	return u.push(ctx, items)
}
