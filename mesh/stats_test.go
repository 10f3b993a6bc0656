package mesh_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/mesh"
)

// peer is what a broker tells of another one.
func (b *broker) peer(t *testing.T, name string) mesh.PeerStats {
	for _, p := range b.Stats().Peers {
		if p.Name == name {
			return p
		}
	}
	require.Fail(t, "no peer "+name)
	return mesh.PeerStats{}
}

func counted(counts []mesh.Count, name string) int64 {
	for _, c := range counts {
		if c.Name == name {
			return c.Value
		}
	}
	return -1
}

func TestStatsTellWhatIsExchangedWithWhom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.network.SetJitter(3 * time.Millisecond)
		b := c.startChoosy(2, true)
		cfg := c.config("old")
		cfg.FrameMax = 1
		c.start(cfg)
		b[1].wants("orders")
		time.Sleep(5 * time.Second)

		before := b[0].peer(t, "b2")
		require.Equal(t, mesh.StateAlive, before.State)
		require.EqualValues(t, 2, before.Version)
		require.True(t, before.IsHeard)
		require.LessOrEqual(t, before.Heard, 1100*time.Millisecond)
		require.Positive(t, before.RTT)
		require.LessOrEqual(t, before.RTT, 6*time.Millisecond)
		require.NotNil(t, before.Interest)
		require.EqualValues(t, 2, before.Interest.Generation)
		require.InDelta(t, 4.0/8192, before.Interest.Fill, 1e-9, "four bits for one queue")
		require.InDelta(t, 5*time.Second, before.Interest.Age, float64(100*time.Millisecond))
		require.True(t, before.Interest.Held)
		old := b[0].peer(t, "old")
		require.EqualValues(t, 1, old.Version)
		require.False(t, old.IsHeard, "its frames do not say whose they are")
		require.Nil(t, old.Interest)

		b[0].SendWake(wake("orders", "p"))
		b[0].SendWake(wake("mail", "p"))
		time.Sleep(100 * time.Millisecond)
		require.EqualValues(t, 1, counted(b[0].peer(t, "b2").Out, "wake")-counted(before.Out, "wake"))
		require.EqualValues(t, 2, counted(b[0].peer(t, "old").Out, "wake"))
		require.EqualValues(t, 1, counted(b[1].peer(t, "b1").In, "wake"))
		stats := b[0].Stats()
		require.EqualValues(t, 1, stats.Withheld)
		require.EqualValues(t, 3, counted(stats.Out, "wake"))
		require.EqualValues(t, counted(b[0].peer(t, "b2").In, "beacon"), counted(stats.In, "beacon"))
		require.Positive(t, stats.Beacon.Count)
		require.Positive(t, stats.Beacon.P50)
		require.LessOrEqual(t, stats.Beacon.P50, stats.Beacon.P99)
		require.LessOrEqual(t, stats.Beacon.P99, 10*time.Millisecond)
		require.Empty(t, stats.Unheard)
	})
}

func TestStatsTellWhoIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startChoosy(3, true)
		c.network.CutPackets(b[0].address, b[1].address)
		b[1].wants("orders")
		time.Sleep(8 * time.Second)
		require.Equal(t, []string{"b2"}, b[0].Stats().Unheard)
		peer := b[0].peer(t, "b2")
		require.Greater(t, peer.Heard, 8*time.Second)
		require.False(t, peer.Interest.Held, "what it wants now is not known")
		require.True(t, b[0].peer(t, "b3").Interest.Held)
		c.network.Heal(b[0].address, b[1].address)
		time.Sleep(5 * time.Second)
		require.Empty(t, b[0].Stats().Unheard)
		require.Positive(t, b[0].peer(t, "b2").Gaps)
		require.Zero(t, b[0].peer(t, "b3").Gaps)
		require.True(t, b[0].peer(t, "b2").Interest.Held)
	})
}

func TestStatsTellWhatWaitsAndWhatWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(2)
		release := c.network.Stall(b[0].address, b[1].address)
		defer release()
		for i := range 2000 {
			b[0].SendWake(wake("q"+string(rune('a'+i%26))+string(rune('a'+i/26)), "p"))
		}
		time.Sleep(time.Millisecond)
		peer := b[0].peer(t, "b2")
		require.Greater(t, peer.Queued, 900, "all but the frame that is stuck")
		require.EqualValues(t, b[0].dropped("backlog_full"), counted(peer.Dropped, "backlog_full"))
		require.Positive(t, counted(peer.Dropped, "backlog_full"))
		require.Nil(t, b[0].Stats().Interest, "it has no part in telling interest")
	})
}
