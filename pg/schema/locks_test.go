package schema_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

// extendedBy returns the steps of this build and one more.
func extendedBy(t *testing.T, text string) []schema.Step {
	t.Helper()
	all := append(schema.Steps(), steps(t, map[string]string{"0001_more.sql": additive + text})...)
	all[len(all)-1].Version = schema.BuildKnows + 1
	return all
}

func TestAStatementThatStaysBlockedNamesItselfAndWhoIsInTheWay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Finalized())
	reader := open(t, db.URL)
	execute(t, reader, "set application_name = 'nightly report'")
	execute(t, reader, "begin")
	execute(t, reader, "select id from waggle.dead_letter")
	_, err := schema.Apply(t.Context(), db.URL, schema.Options{
		Steps: extendedBy(t, "alter table waggle.dead_letter\n  add column if not exists extra int"), StatementPatience: 1500 * time.Millisecond,
	})
	var statement *schema.StatementError
	require.ErrorAs(t, err, &statement)
	require.Regexp(t, `^schema step 0001_more.sql, statement at line 3 \(alter table waggle.dead_letter add column if not exists extra int\): `+
		`WG0053 waggle.dead_letter could not be locked within 2s: held by pid \d+, role \S+, application "nightly report", `+
		`transaction open for \d+\.\d s, last statement "select id from waggle.dead_letter" .*end those sessions`, err.Error())
	require.Zero(t, one[int](t, reader, locksHeld), "the lock of the apply is free")
}

// A transaction that is old will not end within a lock timeout, so nobody is made to stand in a queue behind it.
func TestAnOldTransactionIsWaitedForOutsideTheQueue(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Finalized())
	reader := open(t, db.URL)
	execute(t, reader, "begin")
	execute(t, reader, "select id from waggle.dead_letter")
	time.Sleep(1100 * time.Millisecond) // it becomes old
	logs, seen := observer.New(zap.WarnLevel)
	done := make(chan error, 1)
	go func() {
		_, err := schema.Apply(context.Background(), db.URL, schema.Options{
			Steps: extendedBy(t, "alter table waggle.dead_letter add column if not exists extra int"), Logger: zap.New(logs),
		})
		done <- err
	}()
	require.Eventually(t, func() bool { return seen.Len() > 0 }, 20*time.Second, time.Millisecond)
	other := open(t, db.SuperURL)
	for range 20 {
		require.Zero(t, one[int](t, other, `select count(*) from pg_locks where not granted and relation = 'waggle.dead_letter'::regclass
			and database = (select oid from pg_database where datname = current_database())`))
		time.Sleep(10 * time.Millisecond)
	}
	execute(t, reader, "commit")
	require.NoError(t, <-done)
}

// Who lives decides how long a statement stands in a queue: nobody stands behind it when there are no brokers.
func TestWithoutBrokersAStatementMayWaitLonger(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ seen, longest string }{
		"one lives": {"clock_timestamp()", "150ms"},
		"one died":  {"clock_timestamp() - interval '1 minute'", "2s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t, pgtest.Finalized())
			reader := open(t, db.URL)
			execute(t, reader, `insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max, seen_at)
				values (gen_random_uuid(), 'b', '1', '', '', 1, 99, 1, 1, 2, `+row.seen+`)`)
			// The tries fail as if they met locks, until the timeout is what it may become.
			all := extendedBy(t, "do $$ begin if current_setting('lock_timeout') <> '"+row.longest+"' then raise sqlstate '55P03'; end if; end $$")
			_, err := schema.Apply(t.Context(), db.URL, schema.Options{Steps: all})
			require.NoError(t, err)
		})
	}
}

// A DROP and what takes its place are seen together or not at all.
func TestADropIsCommittedWithWhatFollowsIt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Finalized())
	conn := open(t, db.URL)
	execute(t, conn, "create table waggle.dropped (n int); create table waggle.twice (n int)")
	_, err := schema.Apply(t.Context(), db.URL, schema.Options{Steps: extendedBy(t,
		"drop table if exists waggle.dropped; drop table if exists waggle.twice; create table waggle.other (n int, n int); select 1")})
	require.ErrorContains(t, err, `column "n" specified more than once`)
	require.True(t, one[bool](t, conn, "select to_regclass('waggle.dropped') is not null and to_regclass('waggle.twice') is not null"))
}
