package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/mesh"
	"waggle/mesh/meshtest"
)

// pacing is how long a frame may have to wait for the one before it.
const pacing = 3 * time.Millisecond

func TestBrokersFindEachOtherThroughTheRegistry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for i := range 3 {
			c.start(c.config(fmt.Sprintf("b%d", i+1)))
		}
		time.Sleep(time.Second)
		for _, b := range c.brokers {
			view := b.View()
			require.Len(t, view.Members, 3)
			require.Equal(t, 3, view.Count(mesh.StateAlive))
			for i, m := range view.Members {
				want := c.brokers[i]
				require.Equal(t, mesh.Member{
					Name: fmt.Sprintf("b%d", i+1), StartID: want.start, Self: want == b, State: mesh.StateAlive, Since: m.Since,
					Address: want.address, Build: "0.1.0", HTTP: "http://" + m.Name, Frames: mesh.FrameRange{Min: 1, Max: 2},
					Schema: mesh.SchemaRange{Knows: 2, Needs: 1},
				}, m)
			}
			require.Contains(t, b.Repairs(), mesh.RepairNewPeer)
		}
		time.Sleep(5 * time.Second)
		for _, b := range c.brokers {
			require.Equal(t, 2.0, b.metric("waggle_mesh_peers", "state", "alive"))
			require.Zero(t, b.metric("waggle_mesh_unheard"))
			require.GreaterOrEqual(t, b.metric("waggle_mesh_beacon_seconds"), 4.0)
			require.Zero(t, b.metric("waggle_mesh_gaps_total"))
		}
	})
}

func TestAStreamBeginsWithABeacon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := []*broker{c.start(c.config("b1")), c.start(c.config("b2"))}
		time.Sleep(800 * time.Millisecond) // before the first one that is due
		for _, one := range b {
			require.NotZero(t, one.metric("waggle_mesh_frames_in_total", "kind", "beacon", "version", "2"))
		}
	})
}

func TestCountsAreTheMetricsInSum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		b[0].SendWake(wake("orders", "eu"), wake(strings.Repeat("n", 2000), "long"))
		time.Sleep(time.Second)
		counts := b[0].Counts()
		require.EqualValues(t, 1, counts.Dropped, "a name beyond its limit")
		var out, in float64
		for _, version := range []string{"1", "2"} {
			for _, kind := range []string{"wake", "invalidation", "leader_hint", "leave", "beacon"} {
				out += b[0].metric("waggle_mesh_frames_out_total", "kind", kind, "version", version)
				in += b[0].metric("waggle_mesh_frames_in_total", "kind", kind, "version", version)
			}
		}
		require.EqualValues(t, out, counts.Sent)
		require.EqualValues(t, in, counts.Received)
		require.Positive(t, counts.Sent)
		require.Positive(t, counts.Received)
		require.Zero(t, counts.Undecryptable)
		require.Zero(t, counts.WrongLabel)
	})
}

func TestHintsReachEveryOtherBrokerAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		items := []mesh.Wake{wake("orders", "eu"), wake("orders", "us"), {Tenant: tenant, TenantKnown: true, Queue: "mail", QueueWide: true}}
		invalidation := mesh.Invalidation{Tenant: tenant, TenantKnown: true, Queue: "orders", OptionsChanged: true, Version: 4}
		b[0].SendWake(items...)
		synctest.Wait() // without any time passing
		require.Equal(t, items, b[1].Wakes())
		require.Equal(t, items, b[2].Wakes())
		time.Sleep(pacing)
		b[0].SendInvalidation(invalidation)
		synctest.Wait()
		time.Sleep(pacing)
		b[0].SendLeaderHint()
		synctest.Wait()
		for _, peer := range b[1:] {
			require.Equal(t, []mesh.Invalidation{invalidation}, peer.Invalidations())
			require.Equal(t, 1, peer.LeaderHints())
			require.Empty(t, peer.Repairs())
		}
		require.Empty(t, b[0].Wakes())
		require.Equal(t, 2.0, b[0].metric("waggle_mesh_frames_out_total", "kind", "wake", "version", "2"))
		require.Equal(t, 1.0, b[1].metric("waggle_mesh_frames_in_total", "kind", "leader_hint", "version", "2"))
	})
}

func TestAFloodOfWakesIsCoalesced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		before := c.network.Sent(b[0].address, b[1].address)
		for i := range 1000 { // 50,000 a second
			for j := range 50 {
				b[0].SendWake(wake("orders", fmt.Sprint("p", (i*50+j)%1000)))
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(pacing)
		sent := c.network.Sent(b[0].address, b[1].address) - before
		require.LessOrEqual(t, sent, 530, "a frame per 2 ms and the library's own packets")
		require.True(t, b[1].Wakes()[0].QueueWide || len(b[1].Wakes()) > 1)
		require.Zero(t, b[0].dropped("backlog_full"))
		require.Zero(t, b[1].metric("waggle_mesh_gaps_total"))
	})
}

func TestABacklogThatRunsOverIsNoticedByThePeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		for i := range 3000 {
			b[0].SendWake(wake(fmt.Sprint("q", i), "p"))
		}
		time.Sleep(2 * time.Second)
		require.Greater(t, b[0].dropped("backlog_full"), 1900.0)
		require.Contains(t, b[1].Repairs(), mesh.RepairGap)
	})
}

func TestAPeerPinnedToV1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		cfg := c.config("b1")
		cfg.FrameMax = 1
		old := c.start(cfg)
		young := c.startMany(1)[1]

		old.SendWake(wake("orders", "eu"))
		old.SendInvalidation(mesh.Invalidation{Tenant: tenant, TenantKnown: true, Queue: "orders", Deleted: true})
		time.Sleep(2 * pacing)
		require.Equal(t, []mesh.Wake{{Queue: "orders", Partition: "eu"}}, young.Wakes(), "no tenant: for every one")
		require.Equal(t, []mesh.Invalidation{{Queue: "orders", OptionsChanged: true, CursorsMoved: true}}, young.Invalidations())
		require.Equal(t, 2.0, young.metric("waggle_mesh_fanouts_total"))
		require.Equal(t, 1.0, young.metric("waggle_mesh_frames_in_total", "kind", "wake", "version", "1"))

		young.SendWake(wake("orders", "eu"))
		young.SendInvalidation(mesh.Invalidation{Tenant: tenant, TenantKnown: true, Queue: "mail", CursorsMoved: true, Group: "g"})
		young.SendLeaderHint()
		time.Sleep(2 * pacing)
		require.Equal(t, []mesh.Wake{{Queue: "orders", Partition: "eu"}}, old.Wakes())
		require.Equal(t, []mesh.Invalidation{{Queue: "mail", OptionsChanged: true, CursorsMoved: true}}, old.Invalidations())
		require.Zero(t, old.LeaderHints())

		time.Sleep(time.Minute)
		require.Equal(t, mesh.StateAlive, young.state(old), "it sends no beacons and is alive all the same")
		require.Equal(t, mesh.StateAlive, old.state(young))
		require.Zero(t, young.metric("waggle_mesh_unheard"))
		require.Zero(t, old.dropped("unknown_version"), "it is never sent what it does not read")

		c.registry.MarkLeft(old.start)
		old.leave(t)
		time.Sleep(time.Second)
		require.Equal(t, mesh.StateLeft, young.state(old))
	})
}

func TestALeaveIsSeenWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		begun := time.Now()
		go b[2].leave(t)
		synctest.Wait()
		require.Equal(t, mesh.StateLeft, b[0].state(b[2]), "by its frame")
		require.Zero(t, time.Since(begun))
		time.Sleep(3 * time.Second)
		require.Equal(t, mesh.StateLeft, b[1].state(b[2]))
		require.Equal(t, 1.0, b[0].metric("waggle_mesh_peers", "state", "left"))
		time.Sleep(time.Minute)
		require.Empty(t, b[0].state(b[2]), "forgotten after a minute")
	})
}

func TestALeaveWithoutItsFrameIsSeenInTheRegistry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		c.registry.MarkLeft(b[2].start)
		b[2].Stop()
		time.Sleep(10 * time.Second)
		require.Equal(t, mesh.StateLeft, b[0].state(b[2]))
		require.Equal(t, mesh.StateLeft, b[1].state(b[2]))
	})
}

func TestAKillIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		b[2].Stop()
		time.Sleep(3 * time.Second)
		require.Equal(t, mesh.StateSuspect, b[0].state(b[2]))
		time.Sleep(6 * time.Second)
		require.Equal(t, mesh.StateDead, b[0].state(b[2]))
		require.Equal(t, mesh.StateDead, b[1].state(b[2]))
		require.Less(t, b[0].beaconSum(), 0.1, "nobody waits for the echo of the dead")
		require.Equal(t, 1.0, b[0].metric("waggle_mesh_unheard"), "its row is still live")
		c.registry.Remove(b[2].start)
		time.Sleep(66 * time.Second)
		require.Empty(t, b[0].state(b[2]))
		require.Zero(t, b[0].metric("waggle_mesh_unheard"))
	})
}

func TestACutMeshGrowsTogetherAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		for _, other := range b[:2] {
			c.network.Cut(b[2].address, other.address)
		}
		time.Sleep(30 * time.Second)
		require.Equal(t, mesh.StateDead, b[0].state(b[2]))
		require.Equal(t, mesh.StateDead, b[2].state(b[0]))
		time.Sleep(5 * time.Minute)
		c.forget()
		for _, other := range b[:2] {
			c.network.Heal(b[2].address, other.address)
		}
		time.Sleep(35 * time.Second)
		for _, one := range b {
			require.Equal(t, 3, one.View().Count(mesh.StateAlive))
		}
		require.NotEmpty(t, b[2].Repairs())
		b[0].SendWake(wake("orders", "eu"))
		time.Sleep(pacing)
		require.Equal(t, []mesh.Wake{wake("orders", "eu")}, b[2].Wakes())
	})
}

func TestTheDeadAreJoinedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		c.network.Cut(b[0].address, b[1].address)
		time.Sleep(45 * time.Second) // the library no longer gossips to it, and we still list it
		require.Equal(t, mesh.StateDead, b[0].state(b[1]))
		c.network.Heal(b[0].address, b[1].address)
		c.forget()
		b[0].Join()
		time.Sleep(time.Second)
		require.Equal(t, mesh.StateAlive, b[0].state(b[1]))
		require.Equal(t, mesh.StateAlive, b[1].state(b[0]))
		require.Contains(t, b[0].Repairs(), mesh.RepairRejoin)
	})
}

func TestPacketsThatAreBlockedWhileStreamsWorkAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		c.network.CutPackets(b[0].address, b[1].address)
		time.Sleep(8 * time.Second)
		require.Equal(t, mesh.StateSuspect, b[0].state(b[1]), "the library is content, we are not")
		require.Equal(t, 1.0, b[0].metric("waggle_mesh_unheard"))
		require.Equal(t, mesh.StateAlive, b[2].state(b[1]))
		c.network.Heal(b[0].address, b[1].address)
		time.Sleep(2 * time.Second)
		require.Equal(t, mesh.StateAlive, b[0].state(b[1]))
		require.Zero(t, b[0].metric("waggle_mesh_unheard"))
		require.Contains(t, b[0].Repairs(), mesh.RepairGap)
	})
}

func TestALostFrameIsRepaired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		c.network.SetLoss(1)
		b[0].SendWake(wake("orders", "eu"))
		synctest.Wait()
		c.network.SetLoss(0)
		time.Sleep(1300 * time.Millisecond) // the next beacon, and 200 ms
		require.Empty(t, b[1].Wakes())
		require.Equal(t, []mesh.RepairReason{mesh.RepairGap}, b[1].Repairs())
		require.Equal(t, 1.0, b[1].metric("waggle_mesh_gaps_total"))
	})
}

func TestDisorderIsNotTakenForLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		c.network.SetJitter(60 * time.Millisecond)
		for i := range 5000 {
			b[0].SendWake(wake("orders", fmt.Sprint("p", i)))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		require.Zero(t, b[1].metric("waggle_mesh_gaps_total"))
		require.Empty(t, b[1].Repairs())
		require.Greater(t, b[1].metric("waggle_mesh_frames_in_total", "kind", "wake", "version", "2"), 2000.0)
	})
}

func TestAPeerThatIsStuckDelaysNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		release := c.network.Stall(b[0].address, b[2].address)
		for i := range 100 {
			b[0].SendWake(wake("orders", fmt.Sprint("p", i)))
			b[0].SendInvalidation(mesh.Invalidation{Queue: fmt.Sprint("q", i), Deleted: true})
			time.Sleep(2 * pacing)
			require.Len(t, b[1].Wakes(), i+1)
		}
		require.Empty(t, b[2].Wakes())
		begun := time.Now()
		b[0].Stop()
		require.Zero(t, time.Since(begun), "a send that hangs does not hold up the stop")
		release()
	})
}

func TestASlowHandlerLosesHintsAndIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		gate := make(chan struct{})
		b[1].OnCall(func() { <-gate })
		for i := range 2000 {
			b[0].SendWake(wake("orders", fmt.Sprint("p", i)))
			time.Sleep(2 * pacing)
		}
		require.Equal(t, mesh.StateAlive, b[0].state(b[1]), "beacons are answered all the same")
		require.Greater(t, b[1].dropped("handler_full"), 900.0)
		b[1].OnCall(nil)
		close(gate)
		time.Sleep(time.Second)
		require.Contains(t, b[1].Repairs(), mesh.RepairOverflow)
	})
}

func TestRepairsAreAtLeast100MillisecondsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		for range 200 { // over a second, each of them a gap
			for i := range 1100 {
				b[0].SendWake(wake(fmt.Sprint("q", i), "p"))
			}
			time.Sleep(5 * time.Millisecond)
		}
		require.Greater(t, b[1].metric("waggle_mesh_gaps_total"), 20.0)
		require.LessOrEqual(t, len(b[1].Repairs()), 11)
	})
}

func TestARestartAtTheSameAddressIsANewPeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		for range 100 {
			b[0].SendWake(wake("orders", "eu"))
			time.Sleep(pacing)
		}
		b[1].Stop()
		cfg := c.config("b2")
		cfg.Transport = c.network.TransportAt(b[1].address)
		cfg.Registry = &meshtest.Registry{} // it finds nobody yet
		again := c.startUnregistered(cfg)
		for range 10 {
			b[0].SendWake(wake("orders", "eu"))
			time.Sleep(100 * time.Millisecond)
		}
		require.NotEmpty(t, again.Wakes(), "sent to the old process, and true all the same")
		require.Empty(t, again.Repairs(), "but numbers meant for the old process are not counted")
		c.register(again)
		for range 100 {
			b[0].SendWake(wake("orders", "eu"))
			time.Sleep(200 * time.Millisecond)
		}
		require.Equal(t, mesh.StateDead, b[0].state(b[1]), "what the new process sends is not heard from the old one")
		require.Equal(t, mesh.StateAlive, b[0].state(again))
		require.Zero(t, again.metric("waggle_mesh_gaps_total"))
	})
}

func TestFlagsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		b[1].SetLeader(true)
		b[1].SetDraining(true)
		time.Sleep(time.Second)
		for _, one := range b {
			m, ok := one.View().ByStartID(b[1].start)
			require.True(t, ok)
			require.True(t, m.Leader)
			require.True(t, m.Draining)
			require.Equal(t, mesh.StateAlive, m.State)
		}
	})
}

func TestABrokerWithAnOldKeyringReadsItAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		first := c.start(c.config("b1"))
		time.Sleep(time.Second)
		var reloads atomic.Int32
		cfg := c.config("b2")
		right := cfg.Keys
		cfg.Keys = [][]byte{bytes.Repeat([]byte{9}, 32)}
		cfg.ReloadKeys = func(context.Context) ([][]byte, error) {
			if reloads.Add(1) == 1 {
				return nil, errors.New("database is away")
			}
			return right, nil
		}
		second := c.start(cfg)
		time.Sleep(5 * time.Second)
		require.EqualValues(t, 1, reloads.Load(), "not more than once every 10 s")
		require.Len(t, second.View().Members, 1)
		require.NotZero(t, first.metric("waggle_mesh_undecryptable_total"))
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 2, reloads.Load())
		require.Equal(t, 2, first.View().Count(mesh.StateAlive))
		require.Equal(t, 2, second.View().Count(mesh.StateAlive))
	})
}

func TestClustersDoNotMerge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.startMany(2)
		cfg := c.config("stranger")
		cfg.Label = "another"
		stranger := c.start(cfg)
		time.Sleep(20 * time.Second)
		require.Len(t, stranger.View().Members, 1)
		require.Len(t, c.brokers[0].View().Members, 2)
		require.NotZero(t, c.brokers[0].metric("waggle_mesh_wrong_label_total"))
	})
}

func TestSeedsAreJoinedWithoutARegistry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.registry.Fail(errors.New("database is away"))
		first := c.start(c.config("b1"))
		cfg := c.config("b2")
		cfg.Seeds = []string{"10.9.9.9:1", first.address}
		second := c.start(cfg)
		time.Sleep(time.Second)
		require.Equal(t, 2, first.View().Count(mesh.StateAlive))
		require.Equal(t, 2, second.View().Count(mesh.StateAlive))
	})
}

func TestLifeCycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		cfg := c.config("b1")
		b := c.start(cfg)
		require.Error(t, b.Start(t.Context()), "once only")
		require.NoError(t, b.Leave(t.Context()), "alone")
		require.Equal(t, mesh.StateLeft, b.View().Self().State)
		b.Stop()
		require.NoError(t, b.Leave(t.Context()))
		b.SendWake(wake("q", "p"))
		b.SendInvalidation(mesh.Invalidation{Queue: "q", Deleted: true})
		b.SendLeaderHint()
		require.Error(t, b.Start(t.Context()))
	})
}

func TestManyBrokersOnALossyNetwork(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a few seconds of computing")
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.network.SetLoss(.05)
		for i := range manyBrokers {
			c.start(c.config(fmt.Sprintf("b%02d", i)))
		}
		time.Sleep(10 * time.Second)
		c.network.SetLoss(0)
		time.Sleep(10 * time.Second)
		for _, b := range c.brokers {
			require.Equal(t, manyBrokers, b.View().Count(mesh.StateAlive))
		}
		c.forget()
		c.brokers[7].SendWake(wake("orders", "eu"))
		time.Sleep(pacing)
		for i, b := range c.brokers {
			if i != 7 {
				require.Equal(t, []mesh.Wake{wake("orders", "eu")}, b.Wakes())
			}
		}
	})
}

var _ mesh.Handler = (*meshtest.Recorder)(nil)
