package leader_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"waggle/leader"
	"waggle/pg"
	"waggle/pg/pgtest"
)

// cluster is a database with electors on it, wired as a broker wires its own.
type cluster struct {
	*testing.T
	id    uuid.UUID
	url   string
	lease time.Duration
}

type broker struct {
	*leader.Elector
	startID uuid.UUID
	terms   chan leader.Term
	causes  chan error
	stop    context.CancelFunc
	gone    chan struct{}
}

const patience = 10 * time.Second

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return &cluster{T: t, id: uuid.New(), url: pgtest.New(t).URL, lease: 10 * time.Second}
}

// start adds a broker that reaches the database through url, and does the given work while it leads.
func (c *cluster) start(name, url string, hint func(), work func(context.Context, leader.Term, uuid.UUID) error) *broker {
	c.Helper()
	b := &broker{
		startID: uuid.New(), terms: make(chan leader.Term, 16), causes: make(chan error, 16), gone: make(chan struct{}),
	}
	elector, err := leader.New(leader.Config{
		Dial: func(ctx context.Context) (leader.Session, error) {
			session, err := pg.DialLeader(ctx, pg.LeaderConfig{
				URL: url, Name: name, StartID: b.startID, ClusterID: c.id, Lease: c.lease, Knows: pg.Knows{System: 1, Record: 1},
			})
			if err != nil {
				return nil, err
			}
			return session, nil
		},
		Lead: func(ctx context.Context, term leader.Term) error {
			b.terms <- term
			var err error
			if work != nil {
				err = work(ctx, term, b.startID)
			}
			<-ctx.Done()
			b.causes <- context.Cause(ctx)
			return err
		},
		Resigned: hint, Lease: c.lease, Logger: zaptest.NewLogger(c.T).Named(name), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(c, err)
	b.Elector = elector
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() {
		defer close(b.gone)
		_ = b.Run(ctx)
	}()
	c.Cleanup(b.end)
	return b
}

func (b *broker) end() {
	b.stop()
	<-b.gone
}

func (c *cluster) term(b *broker) leader.Term {
	c.Helper()
	select {
	case term := <-b.terms:
		return term
	case <-time.After(patience):
		require.Fail(c, "did not begin to lead")
		panic("unreachable")
	}
}

func (c *cluster) lost(b *broker) *leader.LostError {
	c.Helper()
	select {
	case err := <-b.causes:
		var lost *leader.LostError
		require.ErrorAs(c, err, &lost)
		return lost
	case <-time.After(patience):
		require.Fail(c, "did not stop leading")
		panic("unreachable")
	}
}

func (c *cluster) exec(sql string, args ...any) {
	c.Helper()
	conn, err := pgx.Connect(context.Background(), c.url)
	require.NoError(c, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), sql, args...)
	require.NoError(c, err)
}

func (c *cluster) number(sql string) (n int64) {
	c.Helper()
	conn, err := pgx.Connect(context.Background(), c.url)
	require.NoError(c, err)
	defer conn.Close(context.Background())
	require.NoError(c, conn.QueryRow(context.Background(), sql).Scan(&n))
	return n
}

func TestElectorsOnPostgres(t *testing.T) {
	t.Parallel()

	t.Run("a resignation hands over at once", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		var second *broker
		first := c.start("first", c.url, func() { second.Hint() }, nil)
		before := c.term(first)
		second = c.start("second", c.url, nil, nil)
		require.Never(t, func() bool { return second.Status().IsLeader }, 1500*time.Millisecond, 50*time.Millisecond)
		began := time.Now()
		require.NoError(t, first.Resign(t.Context()))
		after := c.term(second)
		t.Logf("handed over in %v", time.Since(began))
		require.Less(t, time.Since(began), patience/2)
		require.Equal(t, before.Epoch+1, after.Epoch)
		require.Equal(t, leader.Resigned, c.lost(first).Reason)
	})

	t.Run("the end of a broker hands over at once", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		var second *broker
		first := c.start("first", c.url, func() { second.Hint() }, nil)
		c.term(first)
		second = c.start("second", c.url, nil, nil)
		began := time.Now()
		first.end()
		c.term(second)
		t.Logf("handed over in %v", time.Since(began))
		require.Less(t, time.Since(began), patience/2)
	})

	t.Run("a backend that was ended ends the reign, and a higher epoch begins", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		first := c.start("first", c.url, nil, nil)
		before := c.term(first)
		second := c.start("second", c.url, nil, nil)
		c.exec("select pg_terminate_backend(pid) from waggle.leader")
		began := time.Now()
		after := c.term(second)
		t.Logf("handed over in %v", time.Since(began))
		require.Less(t, time.Since(began), patience/2)
		require.Equal(t, before.Epoch+1, after.Epoch)
		require.Equal(t, leader.HeartbeatFailed, c.lost(first).Reason, "the other still believes, but its trust is bounded and its jobs are fenced")
		require.Never(t, func() bool { return first.Status().IsLeader }, 500*time.Millisecond, 50*time.Millisecond)
	})

	t.Run("a leader that hears nothing stops before the server lets another win", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.lease = 2 * time.Second
		proxy := pgtest.NewProxy(t, c.url)
		first := c.start("first", proxy.URL(), nil, nil)
		before := c.term(first)
		second := c.start("second", c.url, nil, nil)
		began := time.Now()
		proxy.Blackhole(true)
		c.lost(first)
		require.Less(t, time.Since(began), c.lease)
		require.Empty(t, second.terms)
		after := c.term(second)
		t.Logf("handed over in %v, with a lease of %v", time.Since(began), c.lease)
		require.Less(t, time.Since(began), c.lease+patience/2)
		require.Equal(t, before.Epoch+1, after.Epoch)
		proxy.Blackhole(false)
	})

	t.Run("a job in flight when leadership is lost commits nothing", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		db, err := pg.Open(t.Context(), pg.Config{URL: c.url, Knows: pg.Knows{System: 1, Record: 1}})
		require.NoError(t, err)
		t.Cleanup(db.Close)
		results, inside := make(chan error, 1), make(chan struct{})
		first := c.start("first", c.url, nil, func(ctx context.Context, term leader.Term, startID uuid.UUID) error {
			fenced := db.Fenced(pg.Reign{Timeline: term.Timeline, Epoch: term.Epoch, StartID: startID})
			results <- fenced.Do(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "insert into waggle.job (name) values ('in flight')")
				close(inside)
				<-ctx.Done()
				return err
			})
			return nil
		})
		<-inside
		require.NoError(t, first.Resign(t.Context()))
		var lost *leader.LostError
		require.ErrorAs(t, <-results, &lost)
		var written int
		require.NoError(t, db.Pool().QueryRow(t.Context(), "select count(*) from waggle.job").Scan(&written))
		require.Zero(t, written)
	})

	t.Run("five brokers have one leader at a time while backends are ended", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		var brokers []*broker
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			brokers = append(brokers, c.start(name, c.url, nil, nil))
		}
		epochs := map[int64]bool{}
		for range 3 {
			require.Eventually(t, func() bool {
				for _, b := range brokers {
					if s := b.Status(); s.IsLeader && !epochs[s.Epoch] {
						epochs[s.Epoch] = true
						return true
					}
				}
				return false
			}, patience, 5*time.Millisecond)
			c.exec("select pg_terminate_backend(pid) from waggle.leader")
		}
		require.Len(t, epochs, 3)
	})
}

func TestRunnerOnPostgres(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	db, err := pg.Open(t.Context(), pg.Config{URL: c.url, Knows: pg.Knows{System: 1, Record: 1}})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	runner, err := leader.NewRunner(zaptest.NewLogger(t), prometheus.NewRegistry())
	require.NoError(t, err)
	ran := make(chan struct{}, 16)
	b := c.start("only", c.url, nil, func(ctx context.Context, term leader.Term, startID uuid.UUID) error {
		fenced := db.Fenced(pg.Reign{Timeline: term.Timeline, Epoch: term.Epoch, StartID: startID})
		return runner.Run(ctx, fenced, []leader.Job{
			{Name: "purge", Every: 50 * time.Millisecond, Batch: func(ctx context.Context) (int64, bool, error) {
				ran <- struct{}{}
				return fenced.Purge(ctx)
			}},
			{Name: "registry", Every: time.Minute, Batch: fenced.CleanRegistry},
		})
	})
	c.term(b)
	for range 3 {
		select {
		case <-ran:
		case <-time.After(patience):
			require.Fail(t, "job did not run")
		}
	}
	require.NoError(t, b.Resign(t.Context()))
	var succeeded int
	require.NoError(t, db.Pool().QueryRow(t.Context(), "select count(*) from waggle.job where last_success is not null").Scan(&succeeded))
	require.Equal(t, 2, succeeded)
}
