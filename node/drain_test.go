package node_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// A broker that is told to stop sends its clients elsewhere, lets parked pops go over the drain delay, and finishes what
// it has begun.
func TestAStopLosesNoCall(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Second
	c := startCluster(t, pgtest.New(t).URL, 1, "WAGGLE_DRAIN_DELAY="+delay.String())
	m := c[0]
	const pops = 40
	type end struct {
		answer
		err error
		at  time.Time
	}
	ends := make(chan end, pops)
	kept := &http.Client{Transport: &http.Transport{}} // would go on with its connections
	t.Cleanup(kept.CloseIdleConnections)
	for i := range pops {
		go func() {
			got, err := tryCallBy(t.Context(), kept, http.MethodGet, fmt.Sprintf("%s/api/v1/pop/queue/q%d?wait=true&timeout=60000", m.url, i%4), "")
			ends <- end{got, err, time.Now()}
		}()
	}
	m.awaitParked(t, pops)
	push := beginPush(t, m, pops)

	told := time.Now()
	m.signal(syscall.SIGTERM)
	eventually(t, "the broker says that it drains", func() bool {
		return call(t, http.MethodGet, m.url+"/health/ready", "").status == http.StatusServiceUnavailable
	})
	require.Less(t, time.Since(told), 2*time.Second, "at once")
	ready, err := tryCallBy(t.Context(), kept, http.MethodGet, m.url+"/health/ready", "")
	require.NoError(t, err)
	require.Contains(t, ready.body, "draining")
	require.True(t, ready.closes)
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, m.url+"/health/live", "").status)
	late := time.Now()
	require.Equal(t, http.StatusNoContent, call(t, http.MethodGet, m.url+"/api/v1/pop/queue/other?wait=true&timeout=60000", "").status)
	require.Less(t, time.Since(late), 4*time.Second, "a new waiting pop parks for a second at most")

	early := 0
	for range pops {
		e := <-ends
		require.NoError(t, e.err)
		require.Equal(t, http.StatusNoContent, e.status)
		require.True(t, e.closes, "the client is told to open its next connection elsewhere")
		require.Less(t, e.at.Sub(told), delay+300*time.Millisecond)
		if e.at.Sub(told) < delay/2 {
			early++
		}
	}
	require.Greater(t, early, pops/10, "they go one after the other, not all at the end")
	require.Less(t, early, pops*9/10, "and not all at the beginning")

	eventually(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(m.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	require.Contains(t, push.finish(t), "queued", "a push that was under way is stored")
	require.Zero(t, m.exitCode(t, patience), m.log)
	require.NotContains(t, m.log.String(), `"level":"error"`)

	m.restart(t)
	require.Contains(t, call(t, http.MethodGet, m.url+"/api/v1/pop/queue/underway", "").body, `"data":"whole"`)
}

// halfPush is a push of which the broker has only the beginning.
type halfPush struct {
	conn net.Conn
	rest string
}

func beginPush(t *testing.T, m *member, parked int) *halfPush {
	t.Helper()
	body := `{"items":[{"queue":"underway","payload":"whole"}]}`
	conn, err := net.Dial("tcp", strings.TrimPrefix(m.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:20])
	require.NoError(t, err)
	eventually(t, "the push has begun", func() bool { return m.metric(t, "waggle_http_requests_in_flight") >= float64(parked+2) })
	return &halfPush{conn, body[20:]}
}

func (p *halfPush) finish(t *testing.T) string {
	t.Helper()
	_, err := io.WriteString(p.conn, p.rest)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(p.conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusCreated, response.StatusCode)
	require.True(t, response.Close)
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(content)
}

func TestASecondSignalForces(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgtest.New(t).URL, 1, "WAGGLE_DRAIN_DELAY=1m")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = tryCall(ctx, http.MethodGet, c[0].url+"/api/v1/pop/queue/q?wait=true&timeout=60000", "")
	}()
	c[0].awaitParked(t, 1)
	c[0].signal(syscall.SIGTERM)
	c[0].log.await(t, `"msg":"stopping"`)
	c[0].signal(syscall.SIGTERM)
	require.Equal(t, exitFailed, c[0].exitCode(t, 2*time.Second))
	require.Contains(t, c[0].log.tail(1), "forced")
	cancel()
	<-done
}
