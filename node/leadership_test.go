package node_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// others are the brokers beside one.
func (c cluster) others(than *member) (rest cluster) {
	for _, m := range c {
		if m != than {
			rest = append(rest, m)
		}
	}
	return rest
}

// The brokers do not hear each other and take each other for dead, while all of them reach the database. The leader goes
// on: the mesh's word alone ends nobody.
func TestAHealthyLeaderOutlivesACutMesh(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t).URL
	var c cluster
	var relays []*relay
	for _, name := range []string{"left", "right"} {
		r, settings := startRelay(t)
		m := newMember(t, name, database, settings...)
		m.launch(t)
		relays, c = append(relays, r), append(c, m)
	}
	for _, m := range c {
		m.awaitListening(t)
	}
	c.awaitMesh(t)
	leader, epoch, _ := c.awaitLeader(t, c[0], 0)
	follower := c.others(leader)[0]
	for _, r := range relays {
		r.cut(true)
	}
	eventually(t, "the follower takes the leader for dead", func() bool {
		return follower.metric(t, `waggle_mesh_peers{state="dead"}`) == 1
	})
	won := follower.metric(t, `waggle_leader_campaigns_total{outcome="held"}`)
	// Longer than a leader may be silent in the database, so that one that had been is found out.
	eventually(t, "the follower has tried for the lock some more times", func() bool {
		return follower.metric(t, `waggle_leader_campaigns_total{outcome="held"}`) >= won+7
	})
	now := follower.leader(t)
	require.Equal(t, leader.name, *now.Name)
	require.Equal(t, epoch, *now.Epoch)
	require.Equal(t, 1.0, leader.metric(t, "waggle_leader_is_leader"))
	require.Equal(t, 1.0, follower.metric(t, `waggle_mesh_peers{state="dead"}`), "it was taken for dead all the time")
	require.NotContains(t, follower.log.String(), "WG0208")
	for _, r := range relays {
		r.cut(false)
	}
	c.awaitMesh(t)
}

// A frozen broker keeps its connections. The others have a leader all the same, and the thawed one does not lead.
func TestAFrozenLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgtest.New(t).URL, 3, "WAGGLE_RETENTION_INTERVAL=200ms")
	c.awaitMesh(t)
	frozen, epoch, _ := c.awaitLeader(t, c[0], 0)
	rest := c.others(frozen)
	frozen.signal(syscall.SIGSTOP)
	t.Cleanup(func() { frozen.signal(syscall.SIGCONT) })
	next, nextEpoch, took := rest.awaitLeader(t, rest[0], epoch)
	t.Logf("%s leads %v after %s froze", next.name, took, frozen.name)
	require.Equal(t, epoch+1, nextEpoch)
	frozen.signal(syscall.SIGCONT)
	frozen.log.await(t, `"code":"WG0204"`)
	eventually(t, "one of them leads", func() bool {
		sum := 0.0
		for _, m := range c {
			sum += m.metric(t, "waggle_leader_is_leader")
		}
		return sum == 1
	})
	require.Zero(t, frozen.metric(t, "waggle_leader_is_leader"))
	requireRetention(t, frozen, "after the leader was frozen")
}
