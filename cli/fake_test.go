package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stored is a message in a fake broker.
type stored struct {
	Partition, TransactionID string
	Payload                  json.RawMessage
	leased, acked            bool
}

// fake is a broker that knows enough of the contract for the commands: dedup by partition and transaction id, leases
// that never end, acks of single messages.
type fake struct {
	*httptest.Server
	mu       sync.Mutex // guards what follows
	messages []*stored
	pushes   int
	pops     []string
	acks     []map[string]any
	bodies   []string
	// answer, when set, may take a request over; it returns false to let the fake answer.
	answer func(w http.ResponseWriter, r *http.Request, body []byte) bool
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bodies = append(f.bodies, string(body))
	if f.answer != nil && f.answer(w, r, body) {
		return
	}
	path := r.URL.EscapedPath()
	switch {
	case path == "/api/v1/push":
		f.push(w, body)
	case strings.HasPrefix(path, "/api/v1/pop/queue/"):
		f.pop(w, r)
	case path == "/api/v1/ack/batch":
		f.ack(w, body)
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"Not Found","code":"no_such_route"}`)
	}
}

func (f *fake) push(w http.ResponseWriter, body []byte) {
	f.pushes++
	var request struct {
		Items []struct {
			Queue, Partition, TransactionID string
			Payload                         json.RawMessage
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q}`, "bad body: "+err.Error())
		return
	}
	results := []map[string]any{}
	for i, item := range request.Items {
		status := "queued"
		if slices.ContainsFunc(f.messages, func(m *stored) bool {
			return m.Partition == item.Partition && m.TransactionID == item.TransactionID
		}) {
			status = "duplicate"
		} else {
			f.messages = append(f.messages, &stored{Partition: item.Partition, TransactionID: item.TransactionID, Payload: item.Payload})
		}
		results = append(results, map[string]any{"index": i, "queueName": item.Queue, "status": status})
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(results)
}

func (f *fake) pop(w http.ResponseWriter, r *http.Request) {
	f.pops = append(f.pops, r.URL.RequestURI())
	batch, _ := strconv.Atoi(r.URL.Query().Get("batch"))
	group := r.URL.Query().Get("consumerGroup")
	if group == "" {
		group = "__QUEUE_MODE__"
	}
	var messages []map[string]any
	for i, m := range f.messages {
		if m.leased || len(messages) == batch {
			continue
		}
		m.leased = true
		m.acked = r.URL.Query().Get("autoAck") == "true"
		messages = append(messages, map[string]any{
			"id": fmt.Sprintf("m-%d", i), "transactionId": m.TransactionID, "data": m.Payload, "traceId": nil,
			"producerSub": nil, "createdAt": "2031-04-05T06:07:08.100000Z", "partition": m.Partition,
			"partitionId": "pid-" + m.Partition, "leaseId": "lease", "consumerGroup": group, "deliveryAttempt": 1,
		})
	}
	if len(messages) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_ = writeJSON(w, map[string]any{
		"success": true, "queue": "q", "leaseId": "lease", "consumerGroup": group, "messages": messages,
	}, "")
}

func (f *fake) ack(w http.ResponseWriter, body []byte) {
	var request map[string]any
	_ = json.Unmarshal(body, &request)
	f.acks = append(f.acks, request)
	results := []map[string]any{}
	for i, a := range request["acknowledgments"].([]any) {
		ack := a.(map[string]any)
		result := map[string]any{"index": i, "transactionId": ack["transactionId"], "success": false, "error": "unresolvable"}
		for _, m := range f.messages {
			if "pid-"+m.Partition == ack["partitionId"] && m.TransactionID == ack["transactionId"] {
				m.acked = true
				result["success"], result["error"] = true, nil
			}
		}
		results = append(results, result)
	}
	_ = json.NewEncoder(w).Encode(results)
}

// contents lists what is stored, by partition, in order.
func (f *fake) contents() map[string][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := map[string][]string{}
	for _, m := range f.messages {
		got[m.Partition] = append(got[m.Partition], string(m.Payload))
	}
	return got
}

// popped lists the pops that the fake answered itself.
func (f *fake) popped() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pops)
}

func (f *fake) acked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.messages {
		if m.acked {
			n++
		}
	}
	return n
}

// outcome is what a command left behind.
type outcome struct {
	code           int
	stdout, stderr string
}

// invocation is a command line run in this process.
type invocation struct {
	stdin   io.Reader
	environ []string
}

func (i invocation) run(ctx context.Context, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	if i.stdin == nil {
		i.stdin = strings.NewReader("")
	}
	code := Run(ctx, &Session{Args: args, Environ: i.environ, Stdin: i.stdin, Stdout: &stdout, Stderr: &stderr, Version: "9.8.7"})
	return outcome{code, stdout.String(), stderr.String()}
}

// run runs a command that has to end by itself.
func run(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return invocation{stdin: strings.NewReader(stdin)}.run(ctx, args...)
}

func requireCode(t *testing.T, want int, got outcome) {
	t.Helper()
	require.Equal(t, want, got.code, "stdout: %s\nstderr: %s", got.stdout, got.stderr)
}
