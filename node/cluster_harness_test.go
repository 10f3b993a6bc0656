package node_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
)

// patience bounds every wait for something that has to happen. What has to happen fast is measured.
const patience = 20 * time.Second

// process is one run of the program.
type process struct {
	command *exec.Cmd
	stdin   io.Closer
	log     *logBook
	done    chan struct{}
}

// startProcess runs `waggle ARGUMENTS`. It sees no variables but PATH, HOME and the given ones, and it is dead when the
// test has ended.
func startProcess(t testing.TB, environ []string, stdout io.Writer, arguments ...string) *process {
	t.Helper()
	return startProgram(t, program, environ, stdout, arguments...)
}

// startProgram does so with another build.
func startProgram(t testing.TB, program string, environ []string, stdout io.Writer, arguments ...string) *process {
	t.Helper()
	p := &process{command: exec.Command(program, arguments...), log: newLogBook(), done: make(chan struct{})}
	p.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, environ...)
	p.command.Stdout, p.command.Stderr = stdout, p.log
	if stdout == nil {
		p.command.Stdout = p.log
	}
	var err error
	p.stdin, err = p.command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start(), "start waggle")
	go func() {
		_ = p.command.Wait() // the state says it all
		p.log.close()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		_ = p.stdin.Close()
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.command.Process.Signal(s) }

// kill ends the process as a crash would, and waits for that.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// exitCode waits for the end. A process that died of a signal has code -1.
func (p *process) exitCode(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.command.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%v did not end within %v, its log ends with:\n%s", p.command.Args, limit, p.log.tail(10))
		return 0
	}
}

// logBook keeps what a process writes, and lets a test wait for a line.
type logBook struct {
	mu      sync.Mutex // guards what follows
	text    strings.Builder
	closed  bool
	changed chan struct{} // closed and replaced at every change
}

func newLogBook() *logBook { return &logBook{changed: make(chan struct{})} }

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	l.announce()
	return len(p), nil
}

func (l *logBook) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.announce()
}

func (l *logBook) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logBook) tail(lines int) string {
	all := strings.Split(strings.TrimSpace(l.String()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// await returns the first line that holds the text.
func (l *logBook) await(t testing.TB, text string) string {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		content, closed, changed := l.text.String(), l.closed, l.changed
		l.mu.Unlock()
		for line := range strings.Lines(content) {
			if strings.Contains(line, text) {
				return line
			}
		}
		if closed {
			t.Fatalf("the process ended and never said %q; its log ends with:\n%s", text, l.tail(10))
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("nothing said %q in time; the log ends with:\n%s", text, l.tail(10))
		}
	}
}

// member is one broker of a cluster under test. It keeps its address over restarts, as a deployed one does.
type member struct {
	*process
	name    string
	url     string
	environ []string
	// build is the program that it runs; empty for the one under test.
	build string
}

// launch starts the broker and does not wait for it.
func (m *member) launch(t testing.TB) {
	t.Helper()
	m.process = startProgram(t, cmp.Or(m.build, program), m.environ, nil, "serve", "--end-with-stdin")
}

func (m *member) awaitListening(t testing.TB) {
	t.Helper()
	m.log.await(t, `"msg":"listening"`)
}

func (m *member) restart(t testing.TB) {
	t.Helper()
	m.launch(t)
	m.awaitListening(t)
}

// cluster is some brokers on one database.
type cluster []*member

// startCluster starts brokers and waits until each has said that it listens. The settings are variables; they come after
// the harness's own and win over them.
func startCluster(t testing.TB, database string, count int, settings ...string) cluster {
	t.Helper()
	c := make(cluster, count)
	for i := range c {
		c[i] = newMember(t, fmt.Sprintf("broker-%d", i+1), database, settings...)
		c[i].launch(t)
	}
	for _, m := range c {
		m.awaitListening(t)
	}
	return c
}

func newMember(t testing.TB, name, database string, settings ...string) *member {
	t.Helper()
	address := freeAddress(t)
	m := &member{name: name, url: "http://" + address, environ: append([]string{
		"WAGGLE_NAME=" + name, "WAGGLE_DATABASE_URL=" + database, "WAGGLE_LISTEN=" + address,
		"WAGGLE_MESH_LISTEN=127.0.0.1:0", "WAGGLE_DRAIN_DELAY=0s",
	}, settings...)}
	t.Cleanup(func() {
		if m.process == nil {
			return
		}
		m.signal(syscall.SIGTERM)
		m.exitCode(t, patience)
		said := m.log.String()
		for _, alarm := range []string{"panic", "goroutine 1 ["} {
			if strings.Contains(said, alarm) {
				t.Errorf("the log of %s holds %q:\n%s", name, alarm, m.log.tail(40))
			}
		}
		if t.Failed() {
			t.Logf("the log of %s ends with:\n%s", name, m.log.tail(15))
		}
	})
	return m
}

func (c cluster) urls() []string {
	urls := make([]string, len(c))
	for i, m := range c {
		urls[i] = m.url
	}
	return urls
}

// awaitMesh waits until every broker has all others in its view.
func (c cluster) awaitMesh(t testing.TB) {
	t.Helper()
	for _, m := range c {
		eventually(t, m.name+" sees the others", func() bool {
			return m.metric(t, `waggle_mesh_peers{state="alive"}`) == float64(len(c)-1)
		})
	}
}

var (
	addressesMu sync.Mutex // guards addresses
	addresses   = map[int]bool{}
)

// freeAddress lies below the ports that the kernel chooses for outgoing connections: none of those may take it while its
// broker is down.
func freeAddress(t testing.TB) string {
	t.Helper()
	addressesMu.Lock()
	defer addressesMu.Unlock()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if addresses[port] {
			continue
		}
		addresses[port] = true
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if listener, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// newClient knows the given brokers.
func newClient(t testing.TB, urls ...string) *client.Client {
	t.Helper()
	return newClientOf(t, client.Config{URLs: urls, DownFor: 300 * time.Millisecond})
}

func newClientOf(t testing.TB, config client.Config) *client.Client {
	t.Helper()
	c, err := client.New(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// eventually asks again until the answer is yes.
func eventually(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		require.Less(t, time.Since(began), patience, "waited in vain until: %s", what)
		time.Sleep(2 * time.Millisecond) // between two questions
	}
	return time.Since(began)
}

// answer is what came over plain HTTP.
type answer struct {
	status int
	body   string
	// closes says that the broker wants the connection closed.
	closes bool
}

// plain shares nothing between requests, so that no connection outlives its test.
var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// call makes one request; header fields come in pairs.
func call(t testing.TB, method, url, body string, header ...string) answer {
	t.Helper()
	got, err := tryCall(t.Context(), method, url, body, header...)
	require.NoError(t, err)
	return got
}

func tryCall(ctx context.Context, method, url, body string, header ...string) (answer, error) {
	return tryCallBy(ctx, plain, method, url, body, header...)
}

func tryCallBy(ctx context.Context, by *http.Client, method, url, body string, header ...string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := by.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(content), response.Close}, err
}

// metric is one line of a broker's metrics; a line that is not there is -1.
func (m *member) metric(t testing.TB, series string) float64 {
	t.Helper()
	got := call(t, http.MethodGet, m.url+"/metrics/prometheus", "")
	require.Equal(t, http.StatusOK, got.status)
	lines := bufio.NewScanner(strings.NewReader(got.body))
	for lines.Scan() {
		if value, found := strings.CutPrefix(lines.Text(), series+" "); found {
			number, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			return number
		}
	}
	return -1
}

func (m *member) awaitParked(t testing.TB, count int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pops are parked on %s", count, m.name), func() bool {
		return m.metric(t, "waggle_broker_parked_pops") >= float64(count)
	})
}
