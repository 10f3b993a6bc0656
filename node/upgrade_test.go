package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// upgrade is the program of an earlier release beside the one under test.
type upgrade struct {
	version string
	old     string
}

// TestUpgrade rolls clusters of earlier releases, built from this repository's own history, to this build and back, under
// load. It takes minutes of its own, so it runs by `make test-upgrade` only.
func TestUpgrade(t *testing.T) {
	if os.Getenv("WAGGLE_TEST_UPGRADE") == "" {
		t.Skip("earlier releases have to be built and take minutes: make test-upgrade")
	}
	text, err := os.ReadFile("../deploy/test/releases")
	require.NoError(t, err)
	releases, err := parseReleases(string(text))
	require.NoError(t, err)
	require.NotEmpty(t, releases)
	own, err := os.ReadFile("../version.txt")
	require.NoError(t, err)
	home, folder := repository{".."}, t.TempDir()
	for _, r := range releases {
		require.NotEqual(t, strings.TrimSpace(string(own)), r.version, "deploy/test/releases lists what was released before this build")
		commit, err := home.find(r)
		require.NoError(t, err)
		u := upgrade{version: r.version}
		u.old, err = home.build(commit, folder)
		require.NoError(t, err)
		t.Run(r.version, func(t *testing.T) {
			t.Run("rolled forward, back, and forward for good", u.roll)
			t.Run("down and up again", u.downAndUp)
			t.Run("traffic beside the apply", u.applyBesideTraffic)
			t.Run("old brokers that come back after finalize", u.lateOnes)
			t.Run("a restored dump beside its original", u.restored)
			t.Run("records that the old release cannot read", u.records)
		})
	}
}

// start runs brokers of the old release on a database that they make.
func (u upgrade) start(t *testing.T, database string, count int) cluster {
	t.Helper()
	c := make(cluster, count)
	for i := range c {
		c[i] = newMember(t, fmt.Sprintf("broker-%d", i+1), database)
		c[i].build = u.old
		c[i].launch(t)
		c[i].awaitListening(t)
	}
	require.Contains(t, c[0].log.await(t, `"msg":"listening"`), strconv.Quote(u.version))
	return c
}

// replace stops a broker in order and starts it with another build.
func replace(t *testing.T, m *member, build string) {
	t.Helper()
	m.signal(syscall.SIGTERM)
	require.Zero(t, m.exitCode(t, patience), "%s: %s", m.name, m.log.tail(10))
	m.build = build
	m.restart(t)
}

// migrated is the outcome of `waggle migrate`.
type migrated struct {
	code           int
	stdout, stderr string
}

func migrate(t *testing.T, build, database string, arguments ...string) migrated {
	t.Helper()
	var out bytes.Buffer
	p := startProgram(t, build, []string{"WAGGLE_DATABASE_URL=" + database}, &out, append([]string{"migrate"}, arguments...)...)
	code := p.exitCode(t, patience)
	return migrated{code, out.String(), p.log.String()}
}

// standing is what `waggle migrate status` says.
type standing struct {
	Database struct {
		Current, Floor int
		Hold           *int
	}
	Build struct {
		Needs, Knows             int
		Verdict                  string
		Pending, PendingFinalize []int
	}
	Brokers []struct {
		Name, Version string
		Blocks        bool
	}
}

func statusOf(t *testing.T, build, database string) (s standing) {
	t.Helper()
	got := migrate(t, build, database, "status", "--output", "json")
	require.Zero(t, got.code, got.stderr)
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &s))
	return s
}

// Clients work on while a cluster is rolled: no call fails, and nothing is lost, doubled or out of order. The first new
// broker is killed in the middle of its apply.
func (u upgrade) roll(t *testing.T) {
	database := pgtest.New(t, pgtest.Empty())
	c := u.start(t, database.URL, 3)
	c.awaitMesh(t)
	orders := startStrictWorkload(t, "orders", c.urls(), 6, 3)
	everywhere := client.Config{URLs: c.urls(), DownFor: 200 * time.Millisecond, Timeout: 10 * time.Second}
	parked := startCourier(t, "pops parked across the roll", "rare", everywhere, everywhere, 300*time.Millisecond)
	before := statusOf(t, u.old, database.URL)

	u.crashInTheApply(t, database)
	require.Equal(t, before.Database, statusOf(t, u.old, database.URL).Database, "a start that was cut off has recorded nothing")
	replace(t, c[0], program)
	replace(t, c[1], program)
	c.awaitMesh(t)
	u.sideBySide(t, c)

	fresh := `{"queue":"orders","options":{"deadLetterRetentionSeconds":86400}}`
	refused := call(t, http.MethodPost, c[0].url+"/api/v1/configure", fresh)
	require.Equal(t, http.StatusConflict, refused.status)
	require.Contains(t, refused.body, fmt.Sprintf(`"brokers":["%s (%s)"]`, c[2].name, u.version))
	require.Equal(t, 4, migrate(t, program, database.URL, "queue", "up", "orders").code)
	blocked := migrate(t, program, database.URL, "finalize")
	require.Equal(t, 4, blocked.code, "%+v", blocked)
	require.Contains(t, blocked.stdout, c[2].name+" (version "+u.version)
	require.NotContains(t, blocked.stdout, c[0].name)
	require.Equal(t, 4, migrate(t, program, database.URL, "finalize", "--dry-run").code)
	middle := statusOf(t, program, database.URL)
	require.Equal(t, before.Database.Floor, middle.Database.Floor)
	require.NotEmpty(t, middle.Build.PendingFinalize)
	for _, b := range middle.Brokers {
		require.Equal(t, b.Name == c[2].name, b.Blocks, b.Name)
	}

	replace(t, c[2], program)
	for _, m := range c {
		replace(t, m, u.old)
	}
	c.awaitMesh(t)
	for _, m := range c {
		replace(t, m, program)
	}
	c.awaitMesh(t)
	done := migrate(t, program, database.URL, "finalize")
	require.Zero(t, done.code, done.stderr)
	after := statusOf(t, program, database.URL)
	require.Equal(t, after.Build.Knows, after.Database.Current)
	require.Greater(t, after.Database.Floor, before.Build.Knows)
	u.refused(t, database.URL)
	require.Equal(t, http.StatusOK, call(t, http.MethodPost, c[0].url+"/api/v1/configure", fresh).status)
	require.Zero(t, migrate(t, program, database.URL, "queue", "up", "orders").code)

	time.Sleep(500 * time.Millisecond) // of load after finalize
	t.Logf("from push to answer of a parked pop, all along: %v", parked.finish(t))
	orders.finish(t, true)
}

// crashInTheApply kills a new broker whose apply waits for a lock.
func (u upgrade) crashInTheApply(t *testing.T, database *pgtest.Database) {
	t.Helper()
	holder := connectTo(t, database.URL)
	_, err := holder.Exec(t.Context(), "begin; lock table waggle.dead_letter in access share mode")
	require.NoError(t, err)
	first := newMember(t, "first", database.URL)
	first.launch(t)
	first.log.await(t, "WG0024")
	first.kill()
	_, err = holder.Exec(t.Context(), "commit")
	require.NoError(t, err)
}

// sideBySide sends messages both ways between builds.
func (u upgrade) sideBySide(t *testing.T, c cluster) {
	t.Helper()
	at := func(m *member) client.Config { return client.Config{URLs: []string{m.url}} }
	ways := map[string]*courier{
		"old to new": startCourier(t, "old to new", "to-new", at(c[2]), at(c[0]), 50*time.Millisecond),
		"new to old": startCourier(t, "new to old", "to-old", at(c[0]), at(c[2]), 50*time.Millisecond),
	}
	time.Sleep(time.Second) // of load
	for way, one := range ways {
		took := one.finish(t)
		t.Logf("%s: from push to answer: %v", way, took)
		require.Less(t, took.at(0.5), 500*time.Millisecond, "%s: hints arrive; looks at the database alone take longer", way)
	}
}

// refused starts brokers that the database does not take.
func (u upgrade) refused(t *testing.T, database string) {
	t.Helper()
	late := startProgram(t, u.old, []string{
		"WAGGLE_NAME=late", "WAGGLE_DATABASE_URL=" + database, "WAGGLE_LISTEN=" + freeAddress(t), "WAGGLE_MESH_LISTEN=127.0.0.1:0",
	}, nil, "serve", "--end-with-stdin")
	require.Equal(t, exitGate, late.exitCode(t, patience), late.log)
	require.Contains(t, late.log.tail(1), "WG0023")
}

// After finalize the schema can be taken down for the old release, and goes up again.
func (u upgrade) downAndUp(t *testing.T) {
	database := pgtest.New(t, pgtest.Empty())
	old := u.start(t, database.URL, 1)[0]
	knows := statusOf(t, u.old, database.URL).Build.Knows
	refused := startProgram(t, program, []string{
		"WAGGLE_NAME=hasty", "WAGGLE_DATABASE_URL=" + database.URL, "WAGGLE_LISTEN=" + freeAddress(t), "WAGGLE_MESH_LISTEN=127.0.0.1:0",
		"WAGGLE_APPLY_SCHEMA=0",
	}, nil, "serve", "--end-with-stdin")
	require.Equal(t, exitGate, refused.exitCode(t, patience), refused.log)
	require.Contains(t, refused.log.tail(1), "WG0022")

	orders := startWorkload(t, "orders", []string{old.url}, 2, 2)
	replace(t, old, program)
	require.Zero(t, migrate(t, program, database.URL, "finalize").code)
	target := "--target-version=" + strconv.Itoa(knows)
	blocked := migrate(t, program, database.URL, "down", target)
	require.Equal(t, 4, blocked.code, "%+v", blocked)
	require.Contains(t, blocked.stdout, old.name)

	old.signal(syscall.SIGTERM)
	require.Zero(t, old.exitCode(t, patience))
	down := migrate(t, program, database.URL, "down", target)
	require.Zero(t, down.code, down.stderr)
	held := newMember(t, "held", database.URL)
	held.launch(t)
	require.Equal(t, exitGate, held.exitCode(t, patience), "a new build does not apply again what was taken down")
	require.Contains(t, held.log.tail(1), "WG0022")
	old.build = u.old
	old.restart(t)
	pause(300*time.Millisecond, 500*time.Millisecond)
	require.Zero(t, migrate(t, program, database.URL, "up").code)
	replace(t, old, program)
	orders.finish(t, true)
}

// The apply does not hold traffic up, neither alone nor behind a dump.
func (u upgrade) applyBesideTraffic(t *testing.T) {
	for _, dumped := range []bool{false, true} {
		t.Run(fmt.Sprintf("pg_dump=%v", dumped), func(t *testing.T) {
			database := pgtest.New(t, pgtest.Empty())
			c := u.start(t, database.URL, 2)
			load := startOpenLoop(t, c.urls(), 4*time.Millisecond)
			time.Sleep(500 * time.Millisecond) // until queue and partitions are there
			load.longestGap()
			time.Sleep(2 * time.Second) // of load, for comparison
			calm := load.longestGap()
			var dump *exec.Cmd
			if dumped {
				// A dump holds what this does for as long as it takes.
				holder := connectTo(t, database.URL)
				_, err := holder.Exec(t.Context(), "begin; lock table waggle.dead_letter, waggle.segment, waggle.queue, waggle.job in access share mode")
				require.NoError(t, err)
				time.AfterFunc(1500*time.Millisecond, func() { _, _ = holder.Exec(context.Background(), "commit") })
				dump = exec.Command("pg_dump", "--format=custom", "--file="+filepath.Join(t.TempDir(), "dump"), database.URL)
				require.NoError(t, dump.Start())
			}
			load.longestGap()
			up := migrate(t, program, database.URL, "up")
			require.Zero(t, up.code, up.stderr)
			time.Sleep(200 * time.Millisecond)
			busy := load.longestGap()
			if dumped {
				require.NoError(t, dump.Wait())
			}
			t.Logf("longest time without a commit: %v before, %v during the apply", calm, busy)
			require.Less(t, busy, max(250*time.Millisecond, 3*calm))
			for _, m := range c {
				replace(t, m, program)
			}
			load.longestGap()
			done := migrate(t, program, database.URL, "finalize")
			require.Zero(t, done.code, done.stderr)
			busy = load.longestGap()
			t.Logf("longest time without a commit during finalize: %v", busy)
			require.Less(t, busy, max(250*time.Millisecond, 3*calm))
			load.finish(t)
		})
	}
}

// lateOnes are brokers that were taken for dead when the cluster was finalized.
func (u upgrade) lateOnes(t *testing.T) {
	database := pgtest.New(t, pgtest.Empty())
	c := u.start(t, database.URL, 2)
	frozen, other := c[0], c[1]
	pusher := newClient(t, frozen.url)
	item := client.Item{Queue: "orders", Partition: "p", TransactionID: "before"}
	results, err := pusher.Push(t.Context(), []client.Item{item})
	require.NoError(t, err)
	require.Equal(t, client.Queued, results[0].Status)
	replace(t, other, program)
	frozen.signal(syscall.SIGSTOP)
	super := connectTo(t, database.SuperURL)
	// As if it had been frozen for longer than the registry takes a broker for alive.
	_, err = super.Exec(t.Context(), "update waggle.broker set seen_at = seen_at - interval '1 minute' where name = $1", frozen.name)
	require.NoError(t, err)
	done := migrate(t, program, database.URL, "finalize")
	require.Zero(t, done.code, "%+v", done)
	var stored int
	count := "select count(*) from waggle.segment"
	require.NoError(t, super.QueryRow(t.Context(), count).Scan(&stored))
	frozen.signal(syscall.SIGCONT)
	body, err := json.Marshal(map[string]any{"items": []map[string]any{{"queue": "orders", "partition": "p", "payload": 1}}})
	require.NoError(t, err)
	if got, err := tryCall(t.Context(), http.MethodPost, frozen.url+"/api/v1/push", string(body)); err == nil {
		require.NotContains(t, got.body, `"queued"`)
	}
	require.Equal(t, exitGate, frozen.exitCode(t, patience), frozen.log)
	require.Contains(t, frozen.log.tail(1), "WG0023")
	var now int
	require.NoError(t, super.QueryRow(t.Context(), count).Scan(&now))
	require.Equal(t, stored, now, "nothing of it was committed")
	u.refused(t, database.URL)
}

// Records in a format that the old release does not know shut it out, by the queue's name, until the queue has been taken
// back and rewritten.
func (u upgrade) records(t *testing.T) {
	database := pgtest.New(t, pgtest.Empty())
	c := u.start(t, database.URL, 2)
	for _, m := range c {
		replace(t, m, program)
	}
	orders := startStrictWorkload(t, "orders", c.urls(), 4, 2)
	up := migrate(t, program, database.URL, "queue", "up", "orders")
	require.Zero(t, up.code, up.stderr)
	pause(500*time.Millisecond, 700*time.Millisecond)
	late := newMember(t, "late", database.URL)
	late.build = u.old
	late.launch(t)
	require.Equal(t, exitGate, late.exitCode(t, patience), late.log)
	require.Contains(t, late.log.tail(1), "WG0023")
	require.Contains(t, late.log.tail(1), "orders")

	down := migrate(t, program, database.URL, "queue", "down", "orders")
	require.Zero(t, down.code, down.stderr)
	run := startProcess(t, nil, nil, "leader", "run", "records", "--url", c[0].url)
	require.Zero(t, run.exitCode(t, patience), run.log)
	super := connectTo(t, database.SuperURL)
	eventually(t, "the record floor falls", func() bool {
		var floor int
		require.NoError(t, super.QueryRow(t.Context(), "select record_floor from waggle.gate").Scan(&floor))
		return floor == 1
	})
	late.restart(t)
	pause(300*time.Millisecond, 400*time.Millisecond)
	orders.finish(t, true)
}

// A dump of a live database that is restored beside it is another cluster: the two do not meet.
func (u upgrade) restored(t *testing.T) {
	database := pgtest.New(t, pgtest.Empty())
	c := u.start(t, database.URL, 2)
	replace(t, c[0], program)
	orders := startStrictWorkload(t, "orders", c.urls(), 2, 2)
	pause(300*time.Millisecond, 400*time.Millisecond)
	dump := filepath.Join(t.TempDir(), "dump")
	copied := pgtest.New(t, pgtest.Empty())
	for _, command := range []*exec.Cmd{
		exec.Command("pg_dump", "--format=custom", "--schema=waggle", "--file="+dump, database.URL),
		exec.Command("pg_restore", "--no-owner", "--dbname="+copied.URL, dump),
	} {
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s: %s", command, output)
	}
	twin := startCluster(t, copied.URL, 2)
	require.Contains(t, twin[0].log.String()+twin[1].log.String(), "WG0008")
	twin.awaitMesh(t)
	replace(t, c[1], program)
	c.awaitMesh(t)
	require.NotEqual(t, identityOf(t, c[0]), identityOf(t, twin[0]))
	for _, m := range slices.Concat(c, twin) {
		require.Equal(t, 1.0, m.metric(t, `waggle_mesh_peers{state="alive"}`), "%s meets its own peer only", m.name)
	}
	require.NotEmpty(t, drainAll(t, newClient(t, twin.urls()...), "orders"), "the copy serves what was dumped")
	orders.finish(t, true)
}

func identityOf(t *testing.T, m *member) string {
	t.Helper()
	var line struct {
		ID string `json:"cluster_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(m.log.await(t, `"msg":"listening"`)), &line))
	require.NotEmpty(t, line.ID)
	return line.ID
}

// openLoop pushes on a schedule, whether answers come or not, and notes when pushes were acknowledged.
type openLoop struct {
	stop    chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	last   time.Time
	gap    time.Duration
	stored int
	failed []error
}

func startOpenLoop(t *testing.T, urls []string, every time.Duration) *openLoop {
	t.Helper()
	l := &openLoop{stop: make(chan struct{}), last: time.Now()}
	by := newClientOf(t, client.Config{URLs: urls, Timeout: 10 * time.Second})
	l.running.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-l.stop:
				return
			case <-ticker.C:
			}
			l.running.Go(func() {
				results, err := by.Push(context.Background(), []client.Item{{Queue: "open", Partition: fmt.Sprint(n % 50), TransactionID: fmt.Sprint(n)}})
				l.note(results, err)
			})
		}
	})
	t.Cleanup(func() {
		select {
		case <-l.stop:
		default:
			close(l.stop)
		}
		l.running.Wait()
	})
	return l
}

func (l *openLoop) note(results []client.PushResult, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && results[0].Status != client.Queued {
		err = fmt.Errorf("push answered %+v", results[0])
	}
	if err != nil {
		l.failed = append(l.failed, err)
		return
	}
	l.stored++
	now := time.Now()
	l.gap, l.last = max(l.gap, now.Sub(l.last)), now
}

// longestGap returns the longest time without a commit since the last call.
func (l *openLoop) longestGap() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	gap := max(l.gap, time.Since(l.last))
	l.gap = 0
	return gap
}

func (l *openLoop) finish(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.running.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.failed)
	require.NotZero(t, l.stored)
}
