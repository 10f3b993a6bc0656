package schema_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statement string, arguments ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement, arguments...)
	require.NoError(t, err)
}

func one[T any](t *testing.T, conn *pgx.Conn, statement string, arguments ...any) T {
	t.Helper()
	var value T
	require.NoError(t, conn.QueryRow(t.Context(), statement, arguments...).Scan(&value))
	return value
}

func steps(t *testing.T, files map[string]string) []schema.Step {
	t.Helper()
	result, err := schema.ReadSteps(folder(files))
	require.NoError(t, err)
	return result
}

func versions(result schema.Result) []int {
	var list []int
	for _, step := range result.Applied {
		list = append(list, step.Version)
	}
	return list
}

const locksHeld = `select count(*) from pg_locks where locktype = 'advisory'
	and database = (select oid from pg_database where datname = current_database())`

func TestApplyBringsAnEmptyDatabaseUpAndThenDoesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	conn := open(t, db.URL)
	current, err := schema.Current(t.Context(), conn)
	require.NoError(t, err)
	require.Zero(t, current)

	first, err := schema.Apply(t.Context(), db.URL, schema.Options{Build: "1.2.3"})
	require.NoError(t, err)
	require.Equal(t, 0, first.Before)
	require.Equal(t, schema.BuildStarts, first.After)
	require.Equal(t, "1.2.3", one[string](t, conn, "select build from waggle.schema_step where scope = 'system' and version = 1"))

	second, err := schema.Apply(t.Context(), db.URL, schema.Options{Build: "1.2.4"})
	require.NoError(t, err)
	require.Equal(t, schema.Result{Before: schema.BuildStarts, After: schema.BuildStarts}, second)
	require.Zero(t, one[int](t, conn, locksHeld))
}

func TestStatementsOfThisBuildMayBeRepeated(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	conn := open(t, db.URL)
	shape := `select string_agg(c.relname || ':' || coalesce(a.attname, ''), ',' order by c.relname, a.attnum)
		from pg_class c left join pg_attribute a on a.attrelid = c.oid where c.relnamespace = 'waggle'::regnamespace`
	before := one[string](t, conn, shape)
	execute(t, conn, "delete from waggle.schema_step") // as if the apply had been killed before it recorded them
	db.Migrate(t)
	require.Equal(t, before, one[string](t, conn, shape))
	require.Equal(t, 1, one[int](t, conn, "select count(*) from waggle.gate"))
}

func TestManyBrokersApplyAtOnceAndEachStepRunsOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	once := steps(t, map[string]string{
		"0001_a.sql": additive + "create table waggle.counted (n int);",
		"0002_b.sql": additive + "insert into waggle.counted values (1);",
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			result, err := schema.Apply(context.Background(), db.URL, schema.Options{Steps: once})
			if err != nil || result.After != 2 {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, one[int](t, open(t, db.URL), "select count(*) from waggle.counted"))
}

func TestApplyStopsBeforeTheFirstStepThatRaisesTheFloor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	all := steps(t, map[string]string{
		"0001_a.sql": additive + "create table waggle.a (n int);",
		"0002_b.sql": additive + "select 1;",
		"0003_c.sql": raising + "select 1;",
		"0004_d.sql": additive + "select 1;",
		"0001_q.sql": "-- scope: queue\n-- kind: additive\n",
	})
	result, err := schema.Apply(t.Context(), db.URL, schema.Options{Steps: all})
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, versions(result))
	conn := open(t, db.URL)
	execute(t, conn, "insert into waggle.schema_step (scope, version, name, build) values ('system', 3, 'c', 'finalize')")
	result, err = schema.Apply(t.Context(), db.URL, schema.Options{Steps: all})
	require.NoError(t, err)
	require.Equal(t, []int{4}, versions(result))
	require.Equal(t, 3, result.Before)
}

func TestNewerDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Finalized())
	execute(t, open(t, db.URL), "insert into waggle.schema_step (scope, version, name, build) values ('system', $1, 'later', 'later')", schema.BuildKnows+1)
	result, err := schema.Apply(t.Context(), db.URL, schema.Options{})
	require.NoError(t, err)
	require.Equal(t, schema.Result{Before: schema.BuildKnows + 1, After: schema.BuildKnows + 1}, result)
}

func TestEachStatementIsATransactionOfItsOwnAndAFailedStepIsNotRecorded(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	_, err := schema.Apply(t.Context(), db.URL, schema.Options{Steps: steps(t, map[string]string{
		"0001_a.sql": additive + "create table waggle.kept (n int);\n\nselect 1/0;\ncreate table waggle.never (n int);",
	})})
	failed, ok := errors.AsType[*schema.StatementError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "0001_a.sql", failed.File)
	require.Equal(t, 5, failed.Statement.Line)
	require.ErrorContains(t, err, "0001_a.sql, statement at line 5")
	conn := open(t, db.URL)
	require.True(t, one[bool](t, conn, "select to_regclass('waggle.kept') is not null and to_regclass('waggle.never') is null"))
	require.Zero(t, one[int](t, conn, "select count(*) from waggle.schema_step"))
	require.Zero(t, one[int](t, conn, locksHeld), "the lock is given back on the way out")
}

func TestExistingSchemaNeedsNoRightToCreateOne(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	super := open(t, db.SuperURL)
	execute(t, super, `alter database "`+db.Name+`" owner to postgres`)
	_, err := schema.Apply(t.Context(), db.URL, schema.Options{})
	require.ErrorContains(t, err, "CREATE SCHEMA waggle AUTHORIZATION", "the error says what to do")
	execute(t, super, "create schema waggle authorization "+pgtest.Role)
	db.Migrate(t)
}

func TestApplyWaitsForAnotherByPollingAndSaysWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	holder := open(t, db.URL)
	execute(t, holder, "set application_name = 'somebody else'")
	execute(t, holder, "select pg_advisory_lock($1, $2)", schema.Product, schema.LockKey())
	_, err := schema.Apply(t.Context(), db.URL, schema.Options{LockPatience: 300 * time.Millisecond})
	busy, ok := errors.AsType[*schema.BusyError](err)
	require.True(t, ok, "%v", err)
	require.Contains(t, busy.Holder, `application "somebody else"`)

	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = schema.Apply(short, db.URL, schema.Options{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "somebody else")

	done := make(chan error, 1)
	go func() {
		_, err := schema.Apply(context.Background(), db.URL, schema.Options{})
		done <- err
	}()
	waiting := "select count(*) from pg_stat_activity where application_name = 'waggle schema' and datname = current_database()"
	require.Eventually(t, func() bool { return one[int](t, holder, waiting) == 1 }, 30*time.Second, 10*time.Millisecond)
	require.Zero(t, one[int](t, holder, "select count(*) from pg_locks where not granted and pid <> pg_backend_pid() and database = (select oid from pg_database where datname = current_database())"),
		"nobody waits inside the server")
	execute(t, holder, "select pg_advisory_unlock($1, $2)", schema.Product, schema.LockKey())
	require.NoError(t, <-done)
}

func TestStatementThatMeetsALockIsTriedAgainWithoutStallingTraffic(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Finalized())
	reader := open(t, db.URL)
	execute(t, reader, "begin")
	execute(t, reader, "select * from waggle.gate")
	extended := append(schema.Steps(), steps(t, map[string]string{
		"0001_more.sql": additive + "alter table waggle.gate add column if not exists extra int",
	})...)
	extended[len(extended)-1].Version = schema.BuildKnows + 1

	_, err := schema.Apply(t.Context(), db.URL, schema.Options{Steps: extended, StatementPatience: 300 * time.Millisecond})
	require.ErrorContains(t, err, "55P03", "bounded")
	_, ok := errors.AsType[*schema.StatementError](err)
	require.True(t, ok)

	logs, seen := observer.New(zap.WarnLevel)
	done := make(chan error, 1)
	go func() {
		_, err := schema.Apply(context.Background(), db.URL, schema.Options{Steps: extended, Logger: zap.New(logs)})
		done <- err
	}()
	other := open(t, db.URL)
	require.Eventually(t, func() bool {
		began := time.Now()
		one[int](t, other, "select count(*) from waggle.gate")
		require.Less(t, time.Since(began), time.Second, "traffic behind the waiting statement")
		return seen.FilterMessageSnippet("met a lock").Len() >= 1
	}, 20*time.Second, 5*time.Millisecond)
	for range 50 {
		began := time.Now()
		one[int](t, other, "select count(*) from waggle.gate")
		require.Less(t, time.Since(began), time.Second, "traffic behind the waiting statement")
	}
	execute(t, reader, "commit")
	require.NoError(t, <-done)
	require.True(t, one[bool](t, other, "select exists (select from pg_attribute where attrelid = 'waggle.gate'::regclass and attname = 'extra')"))
}

func TestCancelledApplyGivesTheLockBack(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	ctx, cancel := context.WithCancel(t.Context())
	watcher := open(t, db.URL)
	done := make(chan error, 1)
	go func() {
		_, err := schema.Apply(ctx, db.URL, schema.Options{Steps: steps(t, map[string]string{
			"0001_slow.sql": additive + "select pg_sleep(60)",
		})})
		done <- err
	}()
	require.Eventually(t, func() bool { return one[int](t, watcher, locksHeld) == 1 }, 30*time.Second, 10*time.Millisecond)
	cancel()
	require.Error(t, <-done)
	require.Eventually(t, func() bool { return one[int](t, watcher, locksHeld) == 0 }, 30*time.Second, 10*time.Millisecond)
}

func TestUnfitServersAreRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	t.Run("read-only", func(t *testing.T) {
		t.Parallel()
		db := pgtest.New(t, pgtest.Empty())
		execute(t, open(t, db.SuperURL), `alter database "`+db.Name+`" set default_transaction_read_only = on`)
		_, err := schema.Apply(t.Context(), db.URL, schema.Options{})
		unfit, ok := errors.AsType[*schema.UnfitError](err)
		require.True(t, ok, "%v", err)
		require.Contains(t, unfit.Error(), "default_transaction_read_only")
	})
	for name, test := range map[string]struct {
		server serverRow
		says   string
	}{
		"too old":     {serverRow{140012, "14.12", false, false}, "PostgreSQL 14.12 and waggle needs 15"},
		"standby":     {serverRow{170000, "17.0", true, true}, "standby"},
		"old standby": {serverRow{130000, "13.0", true, true}, "needs 15"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := schema.CheckServer(t.Context(), test.server)
			_, ok := errors.AsType[*schema.UnfitError](err)
			require.True(t, ok)
			require.ErrorContains(t, err, test.says)
			require.False(t, strings.Contains(err.Error(), "\n"))
		})
	}
}

// serverRow answers as a server that this machine does not have.
type serverRow struct {
	version            int
	text               string
	recovery, readOnly bool
}

func (r serverRow) QueryRow(context.Context, string, ...any) pgx.Row { return r }

func (r serverRow) Scan(into ...any) error {
	*into[0].(*int), *into[1].(*string), *into[2].(*bool), *into[3].(*bool) = r.version, r.text, r.recovery, r.readOnly
	return nil
}
