package pgtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg/schema"
)

func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn := connect(t, url)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func one[T any](t *testing.T, conn *pgx.Conn, statement string, arguments ...any) T {
	t.Helper()
	var value T
	require.NoError(t, conn.QueryRow(t.Context(), statement, arguments...).Scan(&value))
	return value
}

func TestNewDatabaseHoldsTheSchemaAndBelongsToAnOrdinaryRole(t *testing.T) {
	t.Parallel()
	db := New(t)
	conn := open(t, db.URL)
	current, err := schema.Current(t.Context(), conn)
	require.NoError(t, err)
	require.Equal(t, schema.BuildStarts, current)
	require.False(t, one[bool](t, conn, "select rolsuper or rolcreatedb or rolcreaterole from pg_roles where rolname = current_user"))
	require.Equal(t, Role, one[string](t, conn, "select tableowner from pg_tables where schemaname = 'waggle' and tablename = 'gate'"))
	require.Equal(t, "on", one[string](t, conn, "select current_setting('synchronous_commit')"))
	require.Equal(t, "postgres", one[string](t, open(t, db.SuperURL), "select current_user"))
	_, err = schema.Apply(t.Context(), db.URL, schema.Options{})
	require.NoError(t, err, "the template is complete and may be applied to again")
}

func TestEmptyDatabaseHasNoSchemaUntilItIsMigrated(t *testing.T) {
	t.Parallel()
	db := New(t, Empty())
	conn := open(t, db.URL)
	require.False(t, one[bool](t, conn, "select to_regnamespace('waggle') is not null"))
	db.Migrate(t)
	require.True(t, one[bool](t, conn, "select to_regclass('waggle.gate') is not null"))
}

func TestDatabasesAreSeparateAndGoneAfterTheirTests(t *testing.T) {
	t.Parallel()
	var first, second *Database
	t.Run("two tests", func(t *testing.T) {
		first, second = New(t), New(t)
		_, err := open(t, first.URL).Exec(t.Context(), "create table mine (n int)")
		require.NoError(t, err)
		require.False(t, one[bool](t, open(t, second.URL), "select to_regclass('mine') is not null"))
		_, err = pgx.Connect(t.Context(), second.URL) // left open: the drop ends it
		require.NoError(t, err)
	})
	outside := open(t, withDatabase(first.SuperURL, "postgres"))
	require.Zero(t, one[int](t, outside, "select count(*) from pg_database where datname = any($1)", []string{first.Name, second.Name}))
}

func TestNewDatabaseIsQuick(t *testing.T) {
	New(t) // the server and the template
	began := time.Now()
	const rounds = 5
	for range rounds {
		New(t)
	}
	each := time.Since(began) / rounds
	t.Logf("%s for each database", each)
	require.Less(t, each, 2*time.Second, "tens of milliseconds when nothing else runs")
}

// recorder is a test that may fail without failing the one that looks at it.
type recorder struct {
	testing.TB
	cleanups []func()
	failed   bool
}

func (r *recorder) Cleanup(f func())      { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestDeadlockFailsTheTestUnlessItIsAllowed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []Option
		fails   bool
	}{
		"not allowed": {fails: true},
		"allowed":     {options: []Option{AllowDeadlocks()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			provokeDeadlock(t, New(r, test.options...).URL)
			for _, cleanup := range r.cleanups {
				cleanup()
			}
			require.Equal(t, test.fails, r.failed)
		})
	}
}

func provokeDeadlock(t *testing.T, url string) {
	a, b := open(t, url), open(t, url)
	for _, conn := range []*pgx.Conn{a, b} {
		_, err := conn.Exec(t.Context(), "set deadlock_timeout = '20ms'")
		if err != nil { // only a superuser may; one second it is then
			require.ErrorContains(t, err, "42501")
		}
		_, err = conn.Exec(t.Context(), "begin")
		require.NoError(t, err)
	}
	_, err := a.Exec(t.Context(), "select pg_advisory_xact_lock(1)")
	require.NoError(t, err)
	_, err = b.Exec(t.Context(), "select pg_advisory_xact_lock(2)")
	require.NoError(t, err)
	errs := make([]error, 2)
	var both sync.WaitGroup
	both.Go(func() { _, errs[0] = a.Exec(t.Context(), "select pg_advisory_xact_lock(2)") })
	both.Go(func() {
		_, errs[1] = b.Exec(t.Context(), "select pg_advisory_xact_lock(1)")
		_, _ = b.Exec(t.Context(), "rollback")
	})
	both.Wait()
	require.True(t, (errs[0] == nil) != (errs[1] == nil), "exactly one is the victim: %v", errs)
}

func TestOtherBinariesUseTheSameServer(t *testing.T) {
	if os.Getenv("WAGGLE_PGTEST_CHILD") != "" {
		conn := open(t, withDatabase(New(t).SuperURL, "postgres"))
		os.Stdout.WriteString("started " + one[string](t, conn, "select pg_postmaster_start_time()::text") + "\n")
		return
	}
	t.Parallel()
	ours := one[string](t, open(t, withDatabase(New(t).SuperURL, "postgres")), "select pg_postmaster_start_time()::text")
	child := exec.Command(os.Args[0], "-test.run=^TestOtherBinariesUseTheSameServer$")
	child.Env = append(os.Environ(), "WAGGLE_PGTEST_CHILD=1")
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	require.True(t, strings.Contains(string(out), "started "+ours), "%s against %s", out, ours)
}

func TestDedicatedServerComesBackOnTheSamePort(t *testing.T) {
	t.Parallel()
	server := NewServer(t, map[string]string{"deadlock_timeout": "123ms"})
	db := New(t, On(server))
	require.Equal(t, "123ms", one[string](t, open(t, db.URL), "show deadlock_timeout"))
	for _, end := range []func(){server.Kill, server.Stop} {
		end()
		_, err := pgx.Connect(t.Context(), db.URL)
		require.Error(t, err)
		server.Start()
		require.Equal(t, schema.BuildStarts, one[int](t, open(t, db.URL), "select max(version) from waggle.schema_step"))
	}
}
