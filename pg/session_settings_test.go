package pg

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// What a database sets for its sessions does not matter to the one that holds the lock: it sets its own, and reads it back.
func TestLeaderSessionHasItsOwnTimeouts(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	for name, setting := range map[string]string{"shorter than the lease": "1500ms", "longer than the lease": "1h", "none": "0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := databaseWith(t, map[string]string{
				"idle_session_timeout": setting, "statement_timeout": "20s", "idle_in_transaction_session_timeout": "20s",
			})
			var session *LeaderSession
			// Until the session has its own settings those of the database hold, which is short on a busy machine.
			require.Eventually(t, func() (opened bool) {
				var err error
				session, err = DialLeader(t.Context(), LeaderConfig{URL: database.URL, Lease: lease})
				return err == nil
			}, time.Minute, time.Millisecond)
			defer session.Close()
			for name, want := range map[string]string{
				"idle_session_timeout": "6s", "statement_timeout": "2s", "idle_in_transaction_session_timeout": "2s", "lock_timeout": "250ms",
			} {
				var found string
				require.NoError(t, session.conn.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&found))
				require.Equal(t, want, found, name)
			}
			time.Sleep(1800 * time.Millisecond) // longer than the shortest one
			var one int
			require.NoError(t, session.conn.QueryRow(t.Context(), "select 1").Scan(&one))
		})
	}
}

// The pool that the jobs use renews its connections; the session that holds the lock is none of them.
func TestPoolRecyclingLeavesTheLeaderAlone(t *testing.T) {
	t.Parallel()
	database := databaseWith(t, map[string]string{"idle_session_timeout": "1100ms"})
	knows := Knows{System: 1, Record: 1}
	db, err := Open(t.Context(), Config{URL: database.URL, Knows: knows})
	require.NoError(t, err)
	defer db.Close()
	startID := uuid.New()
	session, err := DialLeader(t.Context(), LeaderConfig{
		URL: database.URL, Name: "first", StartID: startID, Lease: 10 * time.Second, Knows: knows,
	})
	require.NoError(t, err)
	defer session.Close()
	won, _, err := session.TryLock(t.Context())
	require.NoError(t, err)
	require.True(t, won)
	epoch, timeline, _, err := session.Bump(t.Context())
	require.NoError(t, err)
	fenced := db.Fenced(Reign{Timeline: timeline, Epoch: epoch, StartID: startID})
	pids := map[uint32]bool{}
	job := func() {
		t.Helper()
		require.NoError(t, fenced.Do(t.Context(), func(_ context.Context, tx pgx.Tx) error {
			pids[tx.Conn().PgConn().PID()] = true
			return nil
		}))
	}
	job()
	time.Sleep(1500 * time.Millisecond) // the server ends the pool's idle connections
	job()
	require.Len(t, pids, 2, "the pool had to open another connection")
	db.Pool().Reset()
	job()
	require.Len(t, pids, 3)
	require.NoError(t, session.Heartbeat(t.Context()))
}

// databaseWith makes a database whose sessions begin with the given settings.
func databaseWith(t *testing.T, settings map[string]string) *pgtest.Database {
	t.Helper()
	database := pgtest.New(t)
	super, err := pgx.Connect(t.Context(), database.SuperURL)
	require.NoError(t, err)
	defer super.Close(context.Background())
	for name, value := range settings {
		_, err := super.Exec(t.Context(), "alter role "+pgtest.Role+" in database "+pgx.Identifier{database.Name}.Sanitize()+
			" set "+name+" = '"+value+"'")
		require.NoError(t, err)
	}
	return database
}
