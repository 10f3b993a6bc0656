package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"waggle/broker"
)

// fuzzed is a server whose broker takes everything.
func fuzzed(f *testing.F) (*Server, *double) {
	d := &double{}
	d.view.ClusterID, d.answer.Options = clusterID, storedOptions()
	d.transact = func(t broker.Transaction) ([]broker.OperationResult, error) {
		return make([]broker.OperationResult, len(t.Operations)), nil
	}
	server, err := New(Settings{Version: "0.1.0"}, Parts{
		Broker: d, Reads: d, Cluster: d, Health: d, Maintenance: d, Mesh: d, Process: d, Draining: func() bool { return false },
		Gatherer: prometheus.NewRegistry(), Registerer: prometheus.NewRegistry(), Logger: zap.NewNop(),
	})
	if err != nil {
		f.Fatal(err)
	}
	return server, d
}

// ask sends a request whatever it looks like; nil when Go's server would not let it through. The answer may be anything
// but a failure of ours, and JSON if it says so.
func ask(t *testing.T, server *Server, method, target string, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
	if err != nil || strings.ContainsAny(target, " \r\n") {
		return nil
	}
	r.Body, r.ContentLength = http.NoBody, 0
	if body != nil {
		r = httptest.NewRequestWithContext(t.Context(), method, target, bytes.NewReader(body))
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	if w.Code >= 500 {
		t.Fatalf("%s %q %q: %d %s", method, target, body, w.Code, w.Body)
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) {
		t.Fatalf("%s %q %q: no JSON: %s", method, target, body, w.Body)
	}
	return w
}

// FuzzPush sends any body. What is taken is JSON, and its payloads are pieces of it.
func FuzzPush(f *testing.F) {
	for _, body := range []string{
		`{"items":[{"queue":"q","payload":{"n":1}}]}`, `{"items":[]}`, `{}`, `[]`, ``, `{"items":null}`, `{"items":[{"queue":7}]}`,
		`{"items":[{"queue":"q","partition":null,"transactionId":"t\u0000","payload":null},{"queue":"\ud800","payload":"\ud83d\ude00"}]}`,
		`{"items":[{"queue":"q","queue":"r","payload":1,"payload":[2],"more":{"a":[{}]}}],"items":[{"queue":"q","payload":1e400}]} `,
		`{"items":[{"queue":"` + strings.Repeat("q", 300) + `","payload":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}]}`,
		"{\"items\":[{\"queue\":\"\xff\",\"payload\":\"\xc3\x28\"}]}", "\xef\xbb\xbf{}", `{"items":[{"queue":"q","payload":01}]}`,
	} {
		f.Add([]byte(body))
	}
	server, d := fuzzed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		d.pushed = nil
		switch w := ask(t, server, "POST", "/api/v1/push", body); {
		case w.Code == http.StatusCreated && !json.Valid(body):
			t.Fatalf("taken: %q", body)
		case w.Code != http.StatusCreated && len(d.pushed) > 0:
			t.Fatalf("answered %d and pushed: %q", w.Code, body)
		}
		for _, item := range d.pushed {
			if !bytes.Contains(body, item.Payload) || !json.Valid(item.Payload) || !utf8.ValidString(item.Queue+item.Partition+item.TransactionID) {
				t.Fatalf("%q became %+v", body, item)
			}
		}
	})
}

// FuzzTransaction sends any body: a transaction that is refused reaches nobody, not even in part.
func FuzzTransaction(f *testing.F) {
	id := uuid.Max.String()
	for _, body := range []string{
		`{"operations":[{"type":"push","queue":"q","payload":1},{"type":"push","items":[{"queue":"q","data":[]},{"queue":"r","traceId":"` + id + `"}]},` +
			`{"type":"ack","transactionId":"t","partitionId":"` + id + `","status":"failed","leaseId":"` + id + `"}],"requiredLeases":["` + id + `"],"kv":[],"timers":null}`,
		`{"operations":[]}`, `{"operations":{}}`, `{"operations":[null]}`, `{"operations":[{"type":"kv"}]}`, `{"operations":[],"kv":[1]}`, ` `, `[]`, `nul`,
		`{"operations":[{"type":"push","items":{}}]}`, `{"operations":[{"type":"ack"}]}`, `{"operations":[{"type":"push","queue":"q"}],"operations":1}`,
		`{"operations":[{"type":"ack","transactionId":1,"partitionId":"x"}],"requiredLeases":[1]}`, `{"operations":[{"type":"\u0070ush","queue":"\""}]}`,
	} {
		f.Add([]byte(body))
	}
	server, d := fuzzed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		d.transaction = broker.Transaction{}
		switch w := ask(t, server, "POST", "/api/v1/transaction", body); {
		case w.Code == http.StatusOK && !json.Valid(body):
			t.Fatalf("taken: %q", body)
		case w.Code != http.StatusOK && len(d.transaction.Operations) > 0:
			t.Fatalf("answered %d and done: %q", w.Code, body)
		}
		for _, o := range d.transaction.Operations {
			if push := o.Push; push != nil && !json.Valid(push.Payload) || (push == nil) == (o.Ack == nil) {
				t.Fatalf("%q became %+v", body, o)
			}
		}
	})
}

// FuzzQuery sends any query to the routes that read the most of it.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{
		"", "batch=10&partitions=3&wait=true&timeout=1&consumerGroup=g&subscriptionMode=all&subscriptionFrom=2026-01-01T00:00:00Z",
		"batch=-1", "batch=99999999999999999999", "batch=1e3", "batch=%31", "batch=1&batch=2", "wait=yes", "wait=%00", "timeout=-5", "%", "%zz=%q",
		"consumerGroup=a+b%2Bc%2fd", "conflation=true", "conflation=true&consumerGroup=g&autoAck=true", "&&=&a&=b", "leaseTime=0", "queue=%ff&limit=0&offset=-1",
		"from=now&to=2026-13-01", "from=1&to=1e99", "interval=day&from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z", "autopilot=true&consumerGroup=g",
		"namespace=n&task=t", ";", "a;b=c",
	} {
		f.Add(query)
	}
	server, d := fuzzed(f)
	paths := []string{"/api/v1/pop/queue/q", "/api/v1/pop/queue/q/partition/p", "/api/v1/pop", "/api/v1/dlq", "/api/v1/messages", "/api/v1/traces/names", "/api/v1/consumer-groups/lagging"}
	f.Fuzz(func(t *testing.T, query string) {
		d.popped = nil
		for _, path := range paths {
			ask(t, server, "GET", path+"?"+query, nil)
		}
		for _, asked := range d.popped {
			if !asked.Discovery && asked.Queue != "q" || asked.Timeout < 0 || asked.LeaseSeconds < 0 || !utf8.ValidString(asked.Group) {
				t.Fatalf("%q became %+v", query, asked)
			}
		}
	})
}

// FuzzPath sends any path. A name that a client has encoded reaches the broker as it was, whatever stands in it, and no
// path means two things.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"q", "a/b", "a%2Fb", "a//b", "../x", "q/partition/p", "/partition/", "%", "%2", "%zz", "%00", "%ff", "q%20r+s", "q/depth", "a?b", "é", "\"", "partition/partition/partition",
	} {
		f.Add(path)
	}
	server, d := fuzzed(f)
	f.Fuzz(func(t *testing.T, name string) {
		for _, before := range []string{"/api/v1/pop/queue/", "/api/v1/consumer-groups/", "/api/v1/resources/queues/", "/api/v1/", "/"} {
			for _, method := range []string{"GET", "DELETE", "PUT"} {
				ask(t, server, method, before+name, nil)
			}
		}
		if name == "" || !utf8.ValidString(name) || hasControl(name) || len(name) > maxName {
			return
		}
		d.popped = nil
		if ask(t, server, "GET", "/api/v1/pop/queue/"+url.PathEscape(name)+"/partition/"+url.PathEscape(name), nil); len(d.popped) != 1 {
			t.Fatalf("%q asked for %+v", name, d.popped)
		}
		if asked := d.popped[0]; asked.Queue != name || asked.Partition != name {
			t.Fatalf("%q became %+v", name, asked)
		}
	})
}
