package leader_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/leader"
	"waggle/pg/pgtest"
)

// Whatever happens to a leader: another one leads, and every row in the history was written under the highest reign that
// had been granted by then. The candidates' own writes go to the database directly, whatever happens to the connection
// that holds the lock, and they go on after leadership was lost: this is about the fence, not about good manners.
func TestLeaderFailures(t *testing.T) {
	t.Parallel()

	t.Run("killed inside a job's transaction", func(t *testing.T) {
		t.Parallel()
		a := newArena(t)
		first, second, epoch := a.pair(candidateSettings{})
		first.order(commandHold)
		first.await(eventInside)
		first.signal(syscall.SIGKILL)
		second.succeeds(epoch)
		requireHistory(t, readHistory(t, a.db.URL), 2)
	})

	t.Run("told to stop", func(t *testing.T) {
		t.Parallel()
		a := newArena(t)
		first, second, epoch := a.pair(candidateSettings{})
		first.signal(syscall.SIGTERM)
		require.EqualValues(t, leader.Stopped, first.await(eventLost).Reason)
		<-first.done
		require.Zero(t, first.process.ProcessState.ExitCode(), first.said())
		second.succeeds(epoch)
		requireHistory(t, readHistory(t, a.db.URL), 2)
	})

	t.Run("frozen for longer than a lease, between transactions or inside one", func(t *testing.T) {
		t.Parallel()
		a := newArena(t)
		first, second, epoch := a.pair(candidateSettings{})
		require.NotEmpty(t, first.freezeAndThaw(second, epoch), "the transaction that was open is not committed")
		first.awaitRefused()
		requireHistory(t, readHistory(t, a.db.URL), 2)
	})

	t.Run("its backend is ended", func(t *testing.T) {
		t.Parallel()
		a := newArena(t)
		first, second, epoch := a.pair(candidateSettings{})
		first.order(commandHold)
		first.await(eventInside)
		a.exec(a.db.URL, "select pg_terminate_backend(pid) from waggle.leader")
		// Another one has the lock, but its bump waits for the transaction that is open. Whether that is still in time to
		// commit does not matter: it must not do so after the bump.
		require.Eventually(t, func() bool {
			return a.count(a.db.URL, `from pg_locks l join pg_stat_activity a using (pid) join pg_database d on d.oid = l.database
				where l.locktype = 'advisory' and l.granted and d.datname = current_database() and a.application_name = 'waggle leader second'`) == 1
		}, arenaPatience, 5*time.Millisecond)
		time.Sleep(200 * time.Millisecond) // in which a bump that does not wait is done
		first.order(commandCommit)
		first.await(eventEnded)
		second.succeeds(epoch)
		first.awaitRefused()
		requireHistory(t, readHistory(t, a.db.URL), 2)
	})

	for name, directions := range map[string][]pgtest.Direction{
		"what it says to the server is lost":  {pgtest.ToServer},
		"what the server says to it is lost":  {pgtest.ToClient},
		"nothing passes between it and there": {pgtest.ToServer, pgtest.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t)
			proxy := pgtest.NewProxy(t, a.db.URL)
			first, second, epoch := a.pair(candidateSettings{LockURL: proxy.URL()})
			for _, direction := range directions {
				proxy.Swallow(direction, true)
			}
			first.await(eventLost)
			second.succeeds(epoch)
			first.awaitRefused()
			for _, direction := range directions {
				proxy.Swallow(direction, false)
			}
			second.awaitWritten()
			first.awaitRefused()
			requireHistory(t, readHistory(t, a.db.URL), 2)
		})
	}
}

// freezeAndThaw stops a process that has a transaction open, until another leads, and lets it go on as if nothing had been.
// It returns what became of the transaction: nothing when it was committed.
func (c *competitor) freezeAndThaw(next *competitor, epoch int64) string {
	c.Helper()
	c.order(commandHold)
	c.await(eventInside)
	c.signal(syscall.SIGSTOP)
	next.succeeds(epoch)
	c.order(commandCommit)
	c.signal(syscall.SIGCONT)
	after := c.awaitAll(eventLost, eventEnded)
	require.EqualValues(c, leader.Expired, after[eventLost].Reason)
	return after[eventEnded].Reason
}

// Without the fence the same events end badly, and the checker says so.
func TestHistoryCheckerCatchesALeaderWithoutFence(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	first, second, epoch := a.pair(candidateSettings{Unfenced: true})
	require.Empty(t, first.freezeAndThaw(second, epoch))
	first.awaitWritten()
	require.NotEmpty(t, violations(readHistory(t, a.db.URL)))
}

// awaitEither returns which of two leads next.
func awaitEither(one, other *competitor) (winner *competitor, epoch int64) {
	one.Helper()
	deadline := time.After(arenaPatience)
	for {
		var r report
		select {
		case r = <-one.reports:
			winner = one
		case r = <-other.reports:
			winner = other
		case <-deadline:
			require.Fail(one, "neither leads")
		}
		if r.Event == eventLeads {
			return winner, r.Epoch
		}
	}
}

// The server goes away under a leader that has a transaction open, and comes back.
func TestLeaderFailsWithTheServer(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, nil)
	for name, stop := range map[string]func(){
		"fast shutdown": server.Stop, "immediate shutdown": server.StopImmediately,
	} {
		t.Run(name, func(t *testing.T) {
			a := newArena(t, pgtest.On(server))
			first, second, _ := a.pair(candidateSettings{})
			first.order(commandHold)
			first.await(eventInside)
			stop()
			server.Start()
			began := time.Now()
			winner, epoch := awaitEither(first, second)
			t.Logf("epoch %d began %v after the server was back", epoch, time.Since(began))
			winner.awaitWritten()
			requireHistory(t, readHistory(t, a.db.URL), 2)
		})
	}
}
