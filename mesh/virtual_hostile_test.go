package mesh_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"

	"waggle/mesh"
)

// virtualInsider is a member on the network in this process that holds the keys and sends what it likes.
type virtualInsider struct {
	list   *memberlist.Memberlist
	target *memberlist.Node
	start  uuid.UUID
	mark   uint64
}

func newVirtualInsider(t *testing.T, c *cluster, to *broker, plaintext bool) *virtualInsider {
	start, err := uuid.NewV7()
	require.NoError(t, err)
	i := &virtualInsider{start: start, mark: mesh.DestinationMark(to.start)}
	conf := memberlist.DefaultLANConfig()
	conf.Name, conf.Label = "insider", "cluster"
	if !plaintext {
		conf.SecretKey = bytes.Repeat([]byte{1}, 32)
	}
	conf.EnableCompression = false
	conf.DelegateProtocolVersion, conf.DelegateProtocolMin, conf.DelegateProtocolMax = 1, 1, 1
	conf.Delegate = &insider{}
	conf.LogOutput = t.Output()
	transport := c.network.Transport()
	conf.Transport = transport
	ip, port, err := transport.FinalAdvertiseAddr("", 0)
	require.NoError(t, err)
	conf.AdvertiseAddr, conf.AdvertisePort = ip.String(), port
	i.list, err = memberlist.Create(conf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, i.list.Shutdown()) })
	_, err = i.list.Join([]string{to.address})
	require.NoError(t, err)
	for _, n := range i.list.Members() {
		if n.Address() == to.address {
			i.target = n
		}
	}
	require.NotNil(t, i.target)
	return i
}

func (i *virtualInsider) send(t *testing.T, frame []byte) {
	require.NoError(t, i.list.SendBestEffort(i.target, frame))
}

// wake is a v2 wake with a number of the insider's stream.
func (i *virtualInsider) wake(number uint32, partition string) []byte {
	return mesh.EncodeFrame(&mesh.Frame{
		Version: 2, Kind: mesh.KindWake, Origin: i.start, Destination: i.mark,
		Number: mesh.FirstNumber(1000) + mesh.Number(number), Wakes: []mesh.Wake{wake("orders", partition)},
	})
}

func TestAReplayedFrameIsCountedAndDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(1)[0]
		stranger := newVirtualInsider(t, c, b, false)
		for _, number := range []uint32{1, 3, 2} {
			stranger.send(t, stranger.wake(number, fmt.Sprint("p", number)))
		}
		time.Sleep(time.Second)
		require.Len(t, b.Wakes(), 3)
		for _, number := range []uint32{3, 1, 2, 2} {
			stranger.send(t, stranger.wake(number, fmt.Sprint("p", number)))
		}
		time.Sleep(time.Second)
		require.Len(t, b.Wakes(), 3, "none of them again")
		require.Equal(t, 4.0, b.dropped("replayed"))
		stranger.send(t, stranger.wake(3+mesh.SeenNumbers, "later"))
		time.Sleep(time.Second)
		stranger.send(t, stranger.wake(3, "p3"))
		time.Sleep(time.Second)
		require.Equal(t, 1.0, b.dropped("stale"), "too old to tell")
		require.Len(t, b.Wakes(), 4)
		require.Equal(t, 1.0, b.metric("waggle_mesh_gaps_total"), "of the leap, and of nothing that was replayed")
	})
}

// A stranger without the keys can still record packets and send them again.
func TestARecordedPacketDoesNotMakeItsSenderHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		recorded := c.network.Record(b[1].address, b[0].address)
		b[1].SendWake(wake("orders", "eu"))
		time.Sleep(3 * time.Second)
		packets := recorded()
		require.NotEmpty(t, packets)
		woken := len(b[0].Wakes())
		require.Equal(t, 1, woken)
		thaw := c.network.Freeze(b[1].address)
		defer thaw()
		for range 10 {
			for _, packet := range packets {
				c.network.Inject(b[0].address, packet)
			}
			time.Sleep(time.Second)
		}
		require.NotEqual(t, mesh.StateAlive, b[0].state(b[1]))
		require.Equal(t, 1.0, b[0].metric("waggle_mesh_unheard"))
		require.Len(t, b[0].Wakes(), woken)
		require.GreaterOrEqual(t, b[0].dropped("replayed"), 10.0)
		require.Zero(t, b[0].metric("waggle_mesh_gaps_total"))
	})
}

func TestFramesThatArriveTwiceDoNoHarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startMany(3)
		c.network.SetDoubling(1)
		c.network.SetJitter(40 * time.Millisecond)
		for i := range 500 {
			b[0].SendWake(wake("orders", fmt.Sprint("p", i)))
			time.Sleep(2 * pacing)
		}
		time.Sleep(5 * time.Second)
		for _, other := range b[1:] {
			woken := other.Wakes()
			require.Len(t, woken, 500, "each of them once")
			slices.SortFunc(woken, func(a, b mesh.Wake) int { return bytes.Compare([]byte(a.Partition), []byte(b.Partition)) })
			require.Len(t, slices.Compact(woken), 500)
			require.GreaterOrEqual(t, other.dropped("replayed"), 500.0)
			require.Zero(t, other.dropped("stale"))
			require.Zero(t, other.metric("waggle_mesh_gaps_total"))
			require.Empty(t, other.Repairs())
			require.Equal(t, mesh.StateAlive, other.state(b[0]))
		}
	})
}
