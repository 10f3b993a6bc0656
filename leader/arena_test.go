package leader_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// arena is a database with a history, and candidates that campaign on it, each a process of its own.
type arena struct {
	*testing.T
	id    uuid.UUID
	db    *pgtest.Database
	lease time.Duration
}

// arenaPatience bounds every wait for something that has to happen. What has to happen fast is measured elsewhere.
const arenaPatience = 40 * time.Second

func newArena(t *testing.T, options ...pgtest.Option) *arena {
	t.Helper()
	a := &arena{T: t, id: uuid.New(), db: pgtest.New(t, options...), lease: 3 * time.Second}
	a.exec(a.db.URL, makeHistory)
	return a
}

func (a *arena) exec(url, sql string, arguments ...any) {
	a.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(a, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), sql, arguments...)
	require.NoError(a, err)
}

func (a *arena) count(url, sql string, arguments ...any) (n int) {
	a.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(a, err)
	defer conn.Close(context.Background())
	require.NoError(a, conn.QueryRow(context.Background(), "select count(*) "+sql, arguments...).Scan(&n))
	return n
}

// competitor is a candidate's process, as its test holds it.
type competitor struct {
	*arena
	name    string
	process *exec.Cmd
	stdin   io.WriteCloser
	reports chan report
	done    chan struct{}

	mu  sync.Mutex // guards log
	log strings.Builder
}

// start runs a candidate. What the settings leave open is that of the arena.
func (a *arena) start(name string, settings candidateSettings) *competitor {
	a.Helper()
	settings.Name, settings.ClusterID, settings.Lease = name, a.id, a.lease
	if settings.LockURL == "" {
		settings.LockURL = a.db.URL
	}
	if settings.JobURL == "" {
		settings.JobURL = a.db.URL
	}
	text, err := json.Marshal(settings)
	require.NoError(a, err)
	c := &competitor{
		arena: a, name: name, process: exec.Command(os.Args[0]), reports: make(chan report, 1000), done: make(chan struct{}),
	}
	c.process.Env = append(os.Environ(), candidateVariable+"="+string(text))
	c.process.Stderr = c
	c.stdin, err = c.process.StdinPipe()
	require.NoError(a, err)
	stdout, err := c.process.StdoutPipe()
	require.NoError(a, err)
	require.NoError(a, c.process.Start())
	go func() {
		defer close(c.done)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var r report
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				c.reports <- r
			}
		}
		_ = c.process.Wait() // the state says it all
	}()
	a.Cleanup(func() {
		c.signal(syscall.SIGKILL)
		<-c.done
		_ = c.stdin.Close()
		if a.Failed() {
			a.Logf("the log of %s:\n%s", name, c.said())
		}
	})
	return c
}

func (c *competitor) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *competitor) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

func (c *competitor) signal(s syscall.Signal) { _ = c.process.Process.Signal(s) }

func (c *competitor) order(command string) {
	c.Helper()
	_, err := io.WriteString(c.stdin, command+"\n")
	require.NoError(c, err)
}

// await returns the next report of an event, and drops those before it.
func (c *competitor) await(event string) report {
	c.Helper()
	return c.awaitAll(event)[event]
}

// awaitAll returns the next report of each event, in whatever order they come.
func (c *competitor) awaitAll(events ...string) map[string]report {
	c.Helper()
	deadline := time.After(arenaPatience)
	found := map[string]report{}
	for len(found) < len(events) {
		select {
		case r := <-c.reports:
			if slices.Contains(events, r.Event) {
				found[r.Event] = r
			}
		case <-deadline:
			require.Failf(c, "nothing happened", "%s never said all of %q", c.name, events)
		}
	}
	return found
}

// counts are how many transactions of the job were committed and refused so far.
func (c *competitor) counts() report {
	c.Helper()
	c.order(commandCount)
	return c.await(eventCounted)
}

// awaitWritten waits until the job has written more, under the newest term.
func (c *competitor) awaitWritten() {
	c.Helper()
	before := c.counts()
	c.watch("writes nothing", func(now report) bool { return now.Written > before.Written+2 })
}

// awaitRefused waits until the fence has turned the job away some times, and checks that it wrote nothing meanwhile.
func (c *competitor) awaitRefused() {
	c.Helper()
	before := c.counts()
	c.watch("does not even try", func(now report) bool {
		require.Equal(c, before.Written, now.Written, "%s wrote and does not lead", c.name)
		return now.Refused >= before.Refused+5
	})
}

// watch looks at the counts until they are as they should be.
func (c *competitor) watch(otherwise string, holds func(report) bool) {
	c.Helper()
	for began := time.Now(); !holds(c.counts()); {
		require.Less(c, time.Since(began), arenaPatience, "%s %s", c.name, otherwise)
		time.Sleep(20 * time.Millisecond) // between two questions
	}
}

// pair is a leader that writes, and a second candidate that waits for its turn.
func (a *arena) pair(first candidateSettings) (leader, next *competitor, epoch int64) {
	a.Helper()
	leader = a.start("first", first)
	epoch = leader.await(eventLeads).Epoch
	next = a.start("second", candidateSettings{})
	leader.awaitWritten()
	return leader, next, epoch
}

// succeeds waits until the second one leads, and writes.
func (c *competitor) succeeds(epoch int64) {
	c.Helper()
	require.Equal(c, epoch+1, c.await(eventLeads).Epoch)
	c.awaitWritten()
}
