package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestProxyPassesEverythingOn(t *testing.T) {
	t.Parallel()
	proxy := NewProxy(t, New(t, Empty()).URL)
	conn := open(t, proxy.URL())
	require.Equal(t, 1000000, one[int](t, conn, "select length(repeat('x', 1000000))"))
	require.Len(t, one[string](t, conn, "select $1::text", string(make([]byte, 0, 1))+"long"), 4)
	require.Equal(t, 3<<20, len(one[[]byte](t, conn, "select $1::bytea || $1::bytea || $1::bytea", make([]byte, 1<<20))))
	require.Equal(t, 1, proxy.Links())
}

func TestProxyCutEndsConnectionsAndWelcomesNewOnes(t *testing.T) {
	t.Parallel()
	proxy := NewProxy(t, New(t, Empty()).URL)
	conn := open(t, proxy.URL())
	require.Equal(t, 1, one[int](t, conn, "select 1"))
	proxy.Cut()
	_, err := conn.Exec(t.Context(), "select 1")
	require.Error(t, err)
	require.Equal(t, 1, one[int](t, open(t, proxy.URL()), "select 1"))
}

func TestProxyBlackholeSwallowsUntilItIsTurnedOff(t *testing.T) {
	t.Parallel()
	proxy := NewProxy(t, New(t, Empty()).URL)
	conn := open(t, proxy.URL())
	proxy.Blackhole(true)
	result := make(chan error, 1)
	go func() { _, err := conn.Exec(t.Context(), "select 1"); result <- err }()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := pgx.Connect(short, proxy.URL())
	require.ErrorIs(t, err, context.DeadlineExceeded, "new connections are accepted and hear nothing")
	select {
	case err := <-result:
		t.Fatalf("a statement came through: %v", err)
	default:
	}
	proxy.Blackhole(false)
	require.NoError(t, <-result)
}

func TestProxySwallowsInOneDirection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		direction Direction
		happens   bool
	}{
		"to the server: nothing happens":              {ToServer, false},
		"to the client: it happens, and nobody knows": {ToClient, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := New(t, Empty())
			direct := open(t, db.URL)
			_, err := direct.Exec(t.Context(), "create table work (n int)")
			require.NoError(t, err)
			proxy := NewProxy(t, db.URL)
			conn := open(t, proxy.URL())
			proxy.Swallow(test.direction, true)
			result := make(chan error, 1)
			go func() { _, err := conn.Exec(t.Context(), "insert into work values (1)"); result <- err }()
			stored := func() bool { return one[int](t, direct, "select count(*) from work") == 1 }
			if test.happens {
				require.Eventually(t, stored, 30*time.Second, time.Millisecond)
			} else {
				stays(t, func() bool { return !stored() })
			}
			require.Empty(t, result)
			proxy.Swallow(test.direction, false)
			require.NoError(t, <-result)
			require.True(t, stored())
		})
	}
}

// stays looks for a while whether something holds, in this goroutine: the one of require.Never may still be asking when
// the test uses the connection for something else.
func stays(t *testing.T, holds func() bool) {
	t.Helper()
	for range 10 {
		require.True(t, holds())
		time.Sleep(10 * time.Millisecond)
	}
}

func TestProxySwallowsTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	db := New(t, Empty())
	proxy := NewProxy(t, db.URL)
	conn := open(t, proxy.URL())
	direct := open(t, db.SuperURL)
	pid := one[int](t, conn, "select pg_backend_pid()")
	there := func() bool {
		return one[bool](t, direct, "select exists (select from pg_stat_activity where pid = $1)", pid)
	}
	proxy.Swallow(ToServer, true)
	require.NoError(t, conn.PgConn().Conn().Close())
	stays(t, there)
	proxy.Swallow(ToServer, false)
	require.Eventually(t, func() bool { return !there() }, 30*time.Second, 5*time.Millisecond)
}

func TestProxyDelayHoldsBackEachDirection(t *testing.T) {
	t.Parallel()
	proxy := NewProxy(t, New(t, Empty()).URL)
	conn := open(t, proxy.URL())
	proxy.Delay(50 * time.Millisecond)
	began := time.Now()
	_, err := conn.Exec(t.Context(), "select 1")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
}

func TestTrapCutsACommitBeforeTheServerOrBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	commits := map[string]func(*testing.T, *pgx.Conn) error{
		"simple": func(t *testing.T, conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), "commit")
			return err
		},
		"several in one simple query": func(t *testing.T, conn *pgx.Conn) error {
			_, err := conn.PgConn().Exec(t.Context(), "select 1; commit;").ReadAll()
			return err
		},
		"prepared": func(t *testing.T, conn *pgx.Conn) error {
			_, err := conn.PgConn().Prepare(t.Context(), "c", "commit", nil)
			require.NoError(t, err)
			_, err = conn.PgConn().ExecPrepared(t.Context(), "c", nil, nil, nil).Close()
			return err
		},
		"pipeline": func(t *testing.T, conn *pgx.Conn) error {
			pipeline := conn.PgConn().StartPipeline(t.Context())
			pipeline.SendQueryParams("select 1", nil, nil, nil, nil)
			pipeline.SendQueryParams("commit", nil, nil, nil, nil)
			if err := pipeline.Sync(); err != nil {
				return err
			}
			return pipeline.Close()
		},
	}
	for name, commit := range commits {
		for moment, committed := range map[Moment]int{BeforeServer: 0, BeforeAnswer: 1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db := New(t, Empty())
				direct := open(t, db.URL)
				_, err := direct.Exec(t.Context(), "create table work (n int)")
				require.NoError(t, err)
				proxy := NewProxy(t, db.URL)
				conn := open(t, proxy.URL())
				_, err = conn.Exec(t.Context(), "begin")
				require.NoError(t, err)
				_, err = conn.Exec(t.Context(), "insert into work values (1)")
				require.NoError(t, err)
				fired := proxy.CutOnCommit(moment)
				require.Error(t, commit(t, conn))
				<-fired
				require.True(t, conn.IsClosed())
				require.Equal(t, committed, one[int](t, direct, "select count(*) from work"))
				require.Equal(t, 1, one[int](t, open(t, proxy.URL()), "select 1"), "the trap springs once")
			})
		}
	}
}
