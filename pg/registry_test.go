package pg_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

func registration(name string) pg.Registration {
	return pg.Registration{
		StartID: uuid.Must(uuid.NewV7()), Name: name, HTTP: "http://127.0.0.1:6632", Mesh: "127.0.0.1:6633",
		Build: schema.ThisBuild("0.1.0"), FrameMin: 1, FrameMax: 2,
	}
}

func execDB(t *testing.T, db *pg.DB, sql string, args ...any) {
	t.Helper()
	_, err := db.Pool().Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func liveNames(t *testing.T, db *pg.DB) []string {
	t.Helper()
	live, err := db.LiveBrokers(t.Context())
	require.NoError(t, err)
	names := make([]string, 0, len(live))
	for _, broker := range live {
		names = append(names, broker.Name)
	}
	return names
}

func requireGate(t *testing.T, err error, code string) *schema.GateError {
	t.Helper()
	gate, ok := errors.AsType[*schema.GateError](err)
	require.True(t, ok, "got %v", err)
	require.Equal(t, code, gate.Code)
	return gate
}

func TestBrokerIsLiveFromItsAdmissionUntilItLeavesOrFallsSilent(t *testing.T) {
	t.Parallel()
	db := openDB(t, pgtest.New(t).URL)
	a, b, c := registration("a"), registration("b"), registration("c")
	for _, broker := range []pg.Registration{c, a, b} {
		require.NoError(t, db.Admit(t.Context(), broker))
	}
	live, err := db.LiveBrokers(t.Context())
	require.NoError(t, err)
	require.Len(t, live, 3)
	require.Equal(t, a, live[0].Registration, "every field comes back")
	require.Less(t, live[0].SeenAgo, 20*time.Second)
	require.False(t, live[0].Draining)

	beat, err := db.Heartbeat(t.Context(), b.StartID, b.Build, true, pg.HeldKeys{})
	require.NoError(t, err)
	require.True(t, beat.Registered)
	live, err = db.LiveBrokers(t.Context())
	require.NoError(t, err)
	require.True(t, live[1].Draining)

	require.NoError(t, db.Leave(t.Context(), a.StartID))
	execDB(t, db, "update waggle.broker set seen_at = clock_timestamp() - interval '31 seconds' where start_id = $1", c.StartID)
	require.Equal(t, []string{"b"}, liveNames(t, db))
	for start, want := range map[uuid.UUID]bool{a.StartID: true, c.StartID: false, uuid.New(): false} {
		left, err := db.HasLeft(t.Context(), start)
		require.NoError(t, err)
		require.Equal(t, want, left)
	}

	require.False(t, beat.PopsPaused)
	require.NoError(t, db.SetPopMaintenance(t.Context(), true))
	beat, err = db.Heartbeat(t.Context(), c.StartID, c.Build, false, pg.HeldKeys{})
	require.NoError(t, err)
	require.Equal(t, pg.Beat{Registered: true, PopsPaused: true}, beat, "silence is forgiven")
	require.Equal(t, []string{"b", "c"}, liveNames(t, db))
}

func TestBrokerWhoseRowIsGoneIsToldAndAdmittedAgain(t *testing.T) {
	t.Parallel()
	db := openDB(t, pgtest.New(t).URL)
	a := registration("a")
	require.NoError(t, db.Admit(t.Context(), a))
	for _, loss := range []string{"delete from waggle.broker", "update waggle.broker set left_at = clock_timestamp()"} {
		execDB(t, db, loss)
		beat, err := db.Heartbeat(t.Context(), a.StartID, a.Build, false, pg.HeldKeys{})
		require.NoError(t, err)
		require.False(t, beat.Registered)
		require.Empty(t, liveNames(t, db), "a heartbeat does not enter by the back door")
		require.NoError(t, db.Admit(t.Context(), a))
		require.Equal(t, []string{"a"}, liveNames(t, db))
	}
}

func TestGateRunsAtAdmissionAndInEachHeartbeat(t *testing.T) {
	t.Parallel()
	above, recordAbove := strconv.Itoa(schema.BuildKnows+1), strconv.Itoa(schema.RecordKnows+1)
	for name, test := range map[string]struct {
		change string
		code   string
		says   string
	}{
		"floor raised":          {"update waggle.gate set system_floor = " + above, schema.CodeDatabaseNewer, "floor is step " + above},
		"trail taken back":      {"delete from waggle.schema_step", schema.CodeDatabaseOlder, "needs step " + strconv.Itoa(schema.BuildNeeds)},
		"records beyond us":     {"update waggle.gate set record_floor = " + recordAbove, schema.CodeDatabaseNewer, "in orders"},
		"additive step applied": {"insert into waggle.schema_step (scope, version, name, build) values ('system', " + above + ", 'more', 'later')", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDB(t, pgtest.New(t).URL)
			before, after := registration("before"), registration("after")
			require.NoError(t, db.Admit(t.Context(), before))
			execDB(t, db, "insert into waggle.queue (tenant, name, read_floor) values ($1, 'orders', $2), ($1, 'plain', $2 - 1)", uuid.New(), schema.RecordKnows+1)
			execDB(t, db, test.change)
			_, beat := db.Heartbeat(t.Context(), before.StartID, before.Build, false, pg.HeldKeys{})
			admission := db.Admit(t.Context(), after)
			if test.code == "" {
				require.NoError(t, beat)
				require.NoError(t, admission)
				return
			}
			for _, err := range []error{beat, admission} {
				require.Contains(t, requireGate(t, err, test.code).Error(), test.says)
			}
			require.Equal(t, []string{"before"}, liveNames(t, db), "who is refused is not registered")
		})
	}
}

func TestAdmissionToADatabaseWithoutSchemaIsRefusedByTheGate(t *testing.T) {
	t.Parallel()
	db := openDB(t, pgtest.New(t, pgtest.Empty()).URL)
	requireGate(t, db.Admit(t.Context(), registration("a")), schema.CodeDatabaseOlder)
}

// Whoever raises a floor takes the gate exclusively, and then looks who is live. An admission on its way is either seen by
// that look, or sees the new floor.
func TestFloorCannotBeRaisedBetweenTheGateAndTheRow(t *testing.T) {
	t.Parallel()
	db := openDB(t, pgtest.New(t).URL)
	require.NoError(t, db.Admit(t.Context(), registration("warm"))) // its statements are prepared
	raising, err := db.Pool().Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = raising.Rollback(context.Background()) }()
	_, err = raising.Exec(t.Context(), "lock table waggle.gate in access exclusive mode")
	require.NoError(t, err)
	admitted := make(chan error, 1)
	go func() { admitted <- db.Admit(context.Background(), registration("late")) }()
	waiting := "select count(*) from pg_locks where not granted and relation = 'waggle.gate'::regclass"
	require.Eventually(t, func() bool { return scan[int](t, raising, waiting) == 1 }, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, 1, scan[int](t, raising, "select count(*) from waggle.broker where left_at is null"))
	_, err = raising.Exec(t.Context(), "update waggle.gate set system_floor = $1", schema.BuildKnows+1)
	require.NoError(t, err)
	require.NoError(t, raising.Commit(t.Context()))
	requireGate(t, <-admitted, schema.CodeDatabaseNewer)
}

func scan[T any](t *testing.T, tx pgx.Tx, sql string) (value T) {
	t.Helper()
	require.NoError(t, tx.QueryRow(t.Context(), sql).Scan(&value))
	return value
}
