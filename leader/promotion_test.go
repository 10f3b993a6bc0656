package leader_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
)

// A standby is promoted. Advisory locks are not replicated, and the epoch only as far as the standby had heard. Clients
// find the new server at the same address, as they do behind a service address.
func TestLeaderAfterAPromotion(t *testing.T) {
	t.Parallel()

	t.Run("the standby knew everything", func(t *testing.T) {
		t.Parallel()
		f := newFailover(t)
		first, second, epoch := f.pair(candidateSettings{})
		f.standby.CatchUp()
		// It would grant the lock, which is held on the primary.
		_, err := pg.DialLeader(t.Context(), pg.LeaderConfig{URL: f.db.On(f.standby.Server), ClusterID: f.id, Lease: f.lease})
		require.ErrorContains(t, err, "read only")
		f.failOver()
		winner, next := awaitEither(first, second)
		require.Equal(t, epoch+1, next)
		winner.awaitWritten()
		if winner != first {
			first.awaitRefused()
		}
		requireHistory(t, readHistory(t, f.db.On(f.standby.Server)), 2)
	})

	// The worst there is: the promoted server believes in a leader that had been replaced. Its epoch and start id are the
	// very ones in the row; only the timeline tells that this is another history.
	t.Run("the standby had not heard of the last epoch", func(t *testing.T) {
		t.Parallel()
		f := newFailover(t)
		first, second, epoch := f.pair(candidateSettings{})
		f.standby.CatchUp()
		f.standby.Lag()
		before := first.counts()
		first.signal(syscall.SIGSTOP)
		second.succeeds(epoch)
		second.signal(syscall.SIGKILL)
		f.failOver()
		promoted := f.db.On(f.standby.Server)
		require.Equal(t, 1, f.count(promoted, "from waggle.leader where epoch = $1 and start_id is not null", epoch), "the last bump was lost")
		first.signal(syscall.SIGCONT)
		first.await(eventLost)
		require.Equal(t, epoch+1, first.await(eventLeads).Epoch, "the same number as the lost one")
		require.Greater(t, first.counts().Refused, before.Refused, "it tried under the row's own epoch and start id")
		first.awaitWritten()
		requireHistory(t, readHistory(t, promoted), 2)
	})
}

// failover is an arena with a standby, and an address in front of both.
type failover struct {
	*arena
	primary *pgtest.Server
	standby *pgtest.Standby
	address *pgtest.Proxy
}

func newFailover(t *testing.T) *failover {
	t.Helper()
	primary := pgtest.NewServer(t, nil)
	f := &failover{arena: newArena(t, pgtest.On(primary)), primary: primary}
	f.address = pgtest.NewProxy(t, f.db.URL)
	f.db.URL = f.address.URL()
	f.standby = pgtest.NewStandby(t, primary)
	return f
}

// failOver loses the primary and leads the address to its successor.
func (f *failover) failOver() {
	f.Helper()
	f.primary.Kill()
	f.standby.Promote()
	f.address.Redirect(f, f.standby.SuperURL())
}
