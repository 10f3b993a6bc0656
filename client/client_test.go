package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is what a fake broker got.
type seen struct {
	Method string
	URI    string
	Header http.Header
	Body   string
}

// fake is a broker that answers from a function and remembers its requests.
type fake struct {
	*httptest.Server
	mu       sync.Mutex // guards requests
	requests []seen
}

func newFake(t *testing.T, status int, body string) *fake {
	t.Helper()
	return newFakeFunc(t, func(w http.ResponseWriter, _ *http.Request) {
		if status == http.StatusNoContent {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func newFakeFunc(t *testing.T, answer http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.requests = append(f.requests, seen{r.Method, r.RequestURI, r.Header.Clone(), string(body)})
		f.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) got() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.requests...)
}

func (f *fake) last(t *testing.T) seen {
	t.Helper()
	all := f.got()
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// deadURL is an address where nothing listens.
func deadURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return "http://" + l.Addr().String()
}

func newClient(t *testing.T, config Config) *Client {
	t.Helper()
	c, err := New(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestNewRefusesBadURLs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"ftp://a", "http://", "http://a?x=1", "http://a b", "://"} {
		_, err := New(Config{URLs: []string{text}})
		require.Error(t, err, text)
	}
	c := newClient(t, Config{URLs: []string{"localhost:6632/", "https://b/prefix/"}})
	require.Equal(t, []string{"http://localhost:6632", "https://b/prefix"}, c.URLs())
	require.Equal(t, []string{DefaultURL}, newClient(t, Config{}).URLs())
}

func TestCallsFailOver(t *testing.T) {
	t.Parallel()
	t.Run("from a dead broker and from one with a server error to the next", func(t *testing.T) {
		t.Parallel()
		ill, well := newFake(t, 500, `{"error":"pool"}`), newFake(t, 200, `{"queues":[]}`)
		dead := deadURL(t)
		c := newClient(t, Config{URLs: []string{dead, ill.URL, well.URL}})
		for range 3 {
			_, err := c.Queues(t.Context())
			require.NoError(t, err)
		}
		require.Len(t, ill.got(), 1, "a broker that failed is passed over")
		require.Len(t, well.got(), 3)
	})
	t.Run("and come back to it after a while", func(t *testing.T) {
		t.Parallel()
		var healed atomic.Bool
		first := newFakeFunc(t, func(w http.ResponseWriter, _ *http.Request) {
			if !healed.Load() {
				w.WriteHeader(500)
				return
			}
			_, _ = io.WriteString(w, `{"queues":[]}`)
		})
		second := newFake(t, 200, `{"queues":[]}`)
		c := newClient(t, Config{URLs: []string{first.URL, second.URL}})
		_, err := c.Queues(t.Context())
		require.NoError(t, err)
		healed.Store(true)
		c.servers[0].downUntil.Store(time.Now().UnixNano())
		_, err = c.Queues(t.Context())
		require.NoError(t, err)
		require.Len(t, first.got(), 2)
		require.Len(t, second.got(), 1)
	})
	t.Run("but not on a refusal", func(t *testing.T) {
		t.Parallel()
		first, second := newFake(t, 404, `{"error":"Queue not found","code":"x"}`), newFake(t, 200, `{}`)
		c := newClient(t, Config{URLs: []string{first.URL, second.URL}})
		_, err := c.try(t.Context(), c.servers[0], call{method: "GET", path: "/a"})
		require.Error(t, err)
		c.servers = c.servers[:1]
		_, err = c.Queue(t.Context(), "q")
		var refused *Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 404, refused.Status)
		require.Equal(t, "Queue not found", refused.Message)
		require.Equal(t, "x", refused.Code)
		require.Empty(t, second.got())
		require.Len(t, first.got(), 2)
	})
	t.Run("and name every broker when none is left", func(t *testing.T) {
		t.Parallel()
		dead, ill := deadURL(t), newFake(t, 503, `no json here`)
		c := newClient(t, Config{URLs: []string{dead, ill.URL}, Rounds: 2})
		_, err := c.Queues(t.Context())
		var unreachable *UnreachableError
		require.ErrorAs(t, err, &unreachable)
		require.Len(t, unreachable.Tried, 2)
		require.ErrorContains(t, err, dead)
		require.ErrorContains(t, err, ill.URL)
		require.ErrorContains(t, err, "no json here")
		require.NotContains(t, err.Error(), "\n")
		require.Len(t, ill.got(), 2, "every round tries every broker")
	})
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	message := `{"queue":"q","leaseId":"","messages":[{"id":"1","data":null}]}`
	t.Run("an autoAck pop tells the caller", func(t *testing.T) {
		t.Parallel()
		bad, good := newFakeFunc(t, hangUp), newFake(t, 200, message)
		c := newClient(t, Config{URLs: []string{bad.URL, good.URL}})
		c.servers[1].downUntil.Store(time.Now().Add(time.Minute).UnixNano())
		_, err := c.Pop(t.Context(), PopRequest{Queue: "q", AutoAck: true})
		var lost *LostAnswerError
		require.ErrorAs(t, err, &lost)
		require.Empty(t, good.got())
	})
	t.Run("an autoAck pop fails over from a broker it never reached", func(t *testing.T) {
		t.Parallel()
		good := newFake(t, 200, message)
		c := newClient(t, Config{URLs: []string{deadURL(t), good.URL}})
		c.servers[1].downUntil.Store(time.Now().Add(time.Minute).UnixNano())
		got, err := c.Pop(t.Context(), PopRequest{Queue: "q", AutoAck: true})
		require.NoError(t, err)
		require.Len(t, got.Messages, 1)
	})
	t.Run("a leasing pop fails over", func(t *testing.T) {
		t.Parallel()
		bad, good := newFakeFunc(t, hangUp), newFake(t, 200, message)
		c := newClient(t, Config{URLs: []string{bad.URL, good.URL}})
		got, err := c.Pop(t.Context(), PopRequest{Queue: "q"})
		require.NoError(t, err)
		require.Len(t, got.Messages, 1)
	})
}

func TestPopEndsWithItsContext(t *testing.T) {
	t.Parallel()
	parked, gone := make(chan struct{}), make(chan struct{})
	f := newFakeFunc(t, func(_ http.ResponseWriter, r *http.Request) {
		close(parked)
		<-r.Context().Done()
		close(gone)
	})
	c := newClient(t, Config{URLs: []string{f.URL, deadURL(t)}})
	c.servers[1].downUntil.Store(time.Now().Add(time.Minute).UnixNano())
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("had enough")
	go func() {
		<-parked
		cancel(why)
	}()
	_, err := c.Pop(ctx, PopRequest{Queue: "q", Wait: true})
	require.ErrorIs(t, err, why)
	<-gone
	require.Zero(t, c.servers[0].downUntil.Load(), "the caller's wish is not the broker's fault")
}

func TestOrderPrefersOneBrokerPerKeyAndUsesAll(t *testing.T) {
	t.Parallel()
	c := newClient(t, Config{URLs: []string{"a", "b", "c"}})
	used := map[string]int{}
	for _, key := range []string{"q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11", "q12"} {
		first := c.order(key, "")[0].base
		require.Equal(t, first, c.order(key, "")[0].base)
		used[first]++
		for _, s := range c.servers {
			order := c.order(key, s.base)
			require.Equal(t, s, order[0])
			require.ElementsMatch(t, c.servers, order)
		}
	}
	require.Len(t, used, 3)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	f := newFake(t, 200, `{"queues":[]}`)
	c := newClient(t, Config{URLs: []string{f.URL}, Token: "secret", Tenant: "tenant-1"})
	_, err := c.Queues(t.Context())
	require.NoError(t, err)
	h := f.last(t).Header
	require.Equal(t, "Bearer secret", h.Get("Authorization"))
	require.Equal(t, "tenant-1", h.Get(TenantHeader))
	require.Empty(t, h.Values("X-Idempotency-Key"))
}

func TestHealthAsksEveryBroker(t *testing.T) {
	t.Parallel()
	well := newFake(t, 200, `{"status":"healthy","database":"connected","engine":"e","version":"1"}`)
	ill, dead := newFake(t, 503, `{"status":"unhealthy"}`), deadURL(t)
	c := newClient(t, Config{URLs: []string{well.URL, ill.URL, dead}})
	got := c.Health(t.Context())
	require.Equal(t, Health{URL: well.URL, Status: "healthy", Database: "connected", Engine: "e", Version: "1"}, got[0])
	require.Equal(t, "unhealthy", got[1].Status)
	require.Error(t, got[1].Err)
	require.Error(t, got[2].Err)
}

func TestClusterIsDecoded(t *testing.T) {
	t.Parallel()
	f := newFake(t, 200, `{"self":"a","clusterId":"c","members":[{"name":"a","startId":"s","state":"alive","version":"1",
		"http":"h","frames":{"min":1,"max":2},"schema":{"knows":3,"needs":1},"leader":true,"draining":false}],
		"leader":{"name":"a","epoch":7},"registered":1}`)
	got, err := newClient(t, Config{URLs: []string{f.URL}}).Cluster(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(7), got.Leader.Epoch)
	require.Equal(t, 2, got.Members[0].Frames.Max)
	require.Equal(t, 3, got.Members[0].Schema.Knows)
	require.True(t, got.Members[0].Leader)
}

func asJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}
