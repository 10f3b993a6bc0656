package schema_test

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

// futureSteps are the steps of this build and four more: additive, floor, additive, floor.
func futureSteps(t *testing.T) []schema.Step {
	t.Helper()
	files := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(os.DirFS("steps"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile("steps/" + path)
		files[path] = &fstest.MapFile{Data: text}
		return err
	}))
	add := func(n int, kind, up, down string) {
		name := numbered(schema.BuildKnows+n) + "_future.sql"
		files[name] = &fstest.MapFile{Data: []byte("-- scope: system\n-- kind: " + kind + "\n" + up)}
		if down != "" {
			files["down/"+name] = &fstest.MapFile{Data: []byte(down)}
		}
	}
	add(1, "additive", "create table if not exists waggle.first (id int);", "drop table if exists waggle.first;")
	add(2, "floor", "alter table waggle.first add column if not exists b int;", "alter table if exists waggle.first drop column if exists b;")
	add(3, "additive", "create table if not exists waggle.second (id int);", "drop table if exists waggle.second;")
	add(4, "floor", "create table if not exists waggle.third (id int);", "drop table if exists waggle.third;")
	steps, err := schema.ReadSteps(files)
	require.NoError(t, err)
	return steps
}

func numbered(n int) string { return string([]byte{'0', '0', byte('0' + n/10), byte('0' + n%10)}) }

// last is the last step of this build, which raises the floor too.
const last = schema.BuildKnows

type migrating struct {
	*testing.T
	db      *pgtest.Database
	m       *schema.Migration
	options schema.Options
	log     *observer.ObservedLogs
}

func newMigrating(t *testing.T) *migrating {
	t.Helper()
	core, log := observer.New(zap.InfoLevel)
	m := &migrating{T: t, db: pgtest.New(t, pgtest.Finalized()), options: schema.Options{Build: "9.0.0", Steps: futureSteps(t), Logger: zap.New(core)}, log: log}
	m.m = m.open()
	return m
}

func (m *migrating) open() *schema.Migration {
	m.Helper()
	opened, err := schema.OpenMigration(m.Context(), m.db.URL, m.options)
	require.NoError(m, err)
	m.Cleanup(func() { opened.Close(context.Background()) })
	return opened
}

// register enters a broker that was heard the given time ago.
func (m *migrating) register(name string, needs, knows int, ago time.Duration) {
	m.Helper()
	execute(m.T, open(m.T, m.db.URL), `insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max, seen_at)
		values ($1, $2, '0.9.9', '', '', $3, $4, 1, 1, 2, clock_timestamp() - make_interval(secs => $5))`, uuid.New(), name, needs, knows, ago.Seconds())
}

func (m *migrating) status() *schema.Status {
	m.Helper()
	status, err := m.m.Status(m.Context(), schema.Build{Version: "9.0.0", Needs: last, Knows: last + 4, RecordKnows: 1})
	require.NoError(m, err)
	return status
}

func (m *migrating) exists(table string) bool {
	m.Helper()
	return one[bool](m.T, open(m.T, m.db.URL), "select to_regclass($1) is not null", "waggle."+table)
}

func TestUpgradeIsFinalizedAndTakenDownAgain(t *testing.T) {
	t.Parallel()
	m := newMigrating(t)
	require.Equal(t, []int{last + 1}, m.status().Build.Pending)
	require.Equal(t, []int{last + 2, last + 3, last + 4}, m.status().Build.PendingFinalize)

	up, err := m.m.Up(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, []int{last + 1}, versions(up))
	require.Equal(t, schema.DatabaseStatus{Current: last + 1, Floor: last, RecordFloor: 1, RecordFormat: 1}, m.status().Database)

	dry, err := m.m.Finalize(t.Context(), last+2, true)
	require.NoError(t, err)
	require.Equal(t, last+2, dry.Floor)
	require.Empty(t, dry.Applied)
	require.Equal(t, last, m.status().Database.Floor)

	done, err := m.m.Finalize(t.Context(), last+2, false)
	require.NoError(t, err)
	require.Equal(t, []int{last + 2}, versions(done.Result))
	require.Equal(t, last+2, done.Floor)
	done, err = m.m.Finalize(t.Context(), 0, false)
	require.NoError(t, err)
	require.Equal(t, []int{last + 3, last + 4}, versions(done.Result))
	require.Equal(t, schema.DatabaseStatus{Current: last + 4, Floor: last + 4, RecordFloor: 1, RecordFormat: 1}, m.status().Database)
	done, err = m.m.Finalize(t.Context(), 0, false)
	require.NoError(t, err)
	require.Empty(t, done.Applied, "nothing is left")

	down, err := m.m.Down(t.Context(), last+2)
	require.NoError(t, err)
	require.Equal(t, []int{last + 4, last + 3}, versions(down))
	hold := last + 2
	require.Equal(t, schema.DatabaseStatus{Current: last + 2, Floor: last + 2, RecordFloor: 1, RecordFormat: 1, Hold: &hold}, m.status().Database)
	require.False(t, m.exists("second") || m.exists("third"))
	down, err = m.m.Down(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, []int{last + 2, last + 1}, versions(down))
	hold = last
	require.Equal(t, schema.DatabaseStatus{Current: last, Floor: last, RecordFloor: 1, RecordFormat: 1, Hold: &hold}, m.status().Database)

	boot, err := schema.Apply(t.Context(), m.db.URL, m.options)
	require.NoError(t, err)
	require.Empty(t, boot.Applied, "no boot goes beyond the hold")
	_, err = m.m.Finalize(t.Context(), 0, false)
	require.ErrorContains(t, err, "held at step")
	up, err = m.m.Up(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, []int{last + 1}, versions(up))
	require.Nil(t, m.status().Database.Hold)
	require.Zero(t, one[int](t, open(t, m.db.URL), locksHeld))
}

func TestFinalizeNamesTheBrokersThatItWouldShutOut(t *testing.T) {
	t.Parallel()
	m := newMigrating(t)
	m.register("old", last, last+1, time.Second)
	m.register("new", last, last+4, time.Second)
	m.register("gone", last, last, time.Minute)
	status := m.status()
	require.Len(t, status.Brokers, 2)
	require.Equal(t, []bool{false, true}, []bool{status.Brokers[0].Blocks, status.Brokers[1].Blocks}, "new, old")
	for _, dry := range []bool{true, false} {
		_, err := m.m.Finalize(t.Context(), 0, dry)
		var blocked *schema.BlockedError
		require.ErrorAs(t, err, &blocked)
		require.Len(t, blocked.Blockers, 1)
		require.Regexp(t, `^old \(version 0\.9\.9, knows step \d+ and not \d+, seen \d s ago\)$`, blocked.Line(blocked.Blockers[0]))
		require.Equal(t, schema.DatabaseStatus{Current: last, Floor: last, RecordFloor: 1, RecordFormat: 1}, m.status().Database, "nothing was changed")
	}
	execute(t, open(t, m.db.URL), "update waggle.broker set left_at = now() where name = 'old'")
	done, err := m.m.Finalize(t.Context(), 0, false)
	require.NoError(t, err)
	require.Equal(t, last+4, done.Floor)
}

func TestDownNamesTheBrokersThatNeedMore(t *testing.T) {
	t.Parallel()
	m := newMigrating(t)
	_, err := m.m.Finalize(t.Context(), 0, false)
	require.NoError(t, err)
	m.register("needy", last+3, last+4, time.Second)
	_, err = m.m.Down(t.Context(), last)
	var blocked *schema.BlockedError
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, "needy", blocked.Blockers[0].Name)
	require.Equal(t, last+4, m.status().Database.Current)
	_, err = m.m.Down(t.Context(), last+3)
	require.NoError(t, err)

	for target, text := range map[int]string{
		0: "needs --target-version", -1: "no step -1", last + 9: "no step", last + 4: "goes forward", 1: "cannot be undone",
	} {
		var refused *schema.TargetError
		_, err := m.m.Down(t.Context(), target)
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, text)
	}
}

// A floor is raised before its change is made, and lowered after the change is undone. Whoever is cut off in between leaves
// a database on which older builds do not run, and repeats the call.
func TestMovesThatWereCutOffAreRepeated(t *testing.T) {
	t.Parallel()
	m := newMigrating(t)
	conn := open(t, m.db.URL)
	broken := append([]schema.Step(nil), m.options.Steps...)
	for i := range broken {
		if broken[i].Version == last+2 {
			broken[i].Statements = []schema.Statement{{Text: "select 1/0", Line: 3}}
		}
		if broken[i].Version == last+1 {
			broken[i].Down = []schema.Statement{{Text: "select 1/0", Line: 3}}
		}
	}
	options := m.options
	options.Steps = broken
	cut, err := schema.OpenMigration(t.Context(), m.db.URL, options)
	require.NoError(t, err)
	defer cut.Close(context.Background())

	_, err = cut.Finalize(t.Context(), last+2, false)
	require.ErrorContains(t, err, "division by zero")
	require.Equal(t, schema.DatabaseStatus{Current: last + 1, Floor: last + 2, RecordFloor: 1, RecordFormat: 1}, m.status().Database)
	boot, err := schema.Apply(t.Context(), m.db.URL, m.options)
	require.NoError(t, err)
	require.Equal(t, []int{last + 2, last + 3}, versions(boot), "the floor is up, so the step is due at boot")

	_, err = cut.Down(t.Context(), last)
	require.ErrorContains(t, err, "down/")
	require.Equal(t, last, m.status().Database.Current)
	require.Equal(t, last+2, m.status().Database.Floor)
	_, err = m.m.Down(t.Context(), last)
	require.NoError(t, err)
	require.Equal(t, last, m.status().Database.Floor)
	require.False(t, m.exists("first"))
	require.Zero(t, one[int](t, conn, locksHeld))
}

func TestGateThatStaysLockedIsReportedWithItsHolder(t *testing.T) {
	t.Parallel()
	m := newMigrating(t)
	m.options.GatePatience(2 * time.Second)
	m.m = m.open()
	writer := open(t, m.db.URL)
	tx, err := writer.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select system_floor from waggle.gate")
	require.NoError(t, err)
	_, err = m.m.Finalize(t.Context(), 0, false)
	var locked *schema.LockedError
	require.ErrorAs(t, err, &locked)
	require.Len(t, locked.Holders, 1)
	require.Regexp(t, `^pid \d+, role \S+, application "", transaction open for \d\.\d s, last statement "select system_floor from waggle.gate"$`, locked.Holders[0])
	require.NotZero(t, m.log.FilterMessage("the gate is locked, trying again").Len())
	require.NoError(t, tx.Commit(t.Context()))
	_, err = m.m.Finalize(t.Context(), 0, false)
	require.NoError(t, err)
}

func TestVersionsListWhatTheBuildAndTheDatabaseKnow(t *testing.T) {
	t.Parallel()
	m := newMigrating(t)
	execute(t, open(t, m.db.URL), "insert into waggle.schema_step (scope, version, name, build) values ('system', 99, 'strange', '99.0.0')")
	list, err := m.m.Versions(t.Context())
	require.NoError(t, err)
	list = slices.DeleteFunc(list, func(s schema.StepStatus) bool { return s.Scope == schema.Queue })
	require.Len(t, list, last+5)
	require.Equal(t, 1, list[0].Version)
	require.NotNil(t, list[0].AppliedAt)
	require.False(t, list[0].Reversible)
	next := list[last+1]
	require.Equal(t, schema.StepStatus{Scope: schema.System, Version: last + 2, Name: "future", RaisesFloor: true, Reversible: true, Known: true}, next)
	require.False(t, list[last+4].Known)
	require.Equal(t, "99.0.0", list[last+4].AppliedBy)
}

func TestStatusOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t, pgtest.Empty())
	m, err := schema.OpenMigration(t.Context(), db.URL, schema.Options{Build: "9.0.0"})
	require.NoError(t, err)
	defer m.Close(context.Background())
	status, err := m.Status(t.Context(), schema.ThisBuild("9.0.0"))
	require.NoError(t, err)
	require.Zero(t, status.Database)
	require.Equal(t, schema.Older, status.Build.Verdict)
	require.Len(t, status.Build.Pending, schema.BuildStarts)
	require.Equal(t, []int{last}, status.Build.PendingFinalize)
	_, err = m.Finalize(t.Context(), 0, false)
	require.ErrorContains(t, err, "no waggle schema")
	_, err = m.Versions(t.Context())
	require.NoError(t, err)
	up, err := m.Up(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, versions(up))
}
