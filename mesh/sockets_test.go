package mesh_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/mesh"
	"waggle/mesh/meshtest"
)

// patience is how long a test with real sockets waits for what takes milliseconds.
const patience = 10 * time.Second

// socketBroker runs a broker on a port of 127.0.0.1 that the kernel chooses.
func socketBroker(t *testing.T, registry *meshtest.Registry, name string, edit func(*mesh.Config)) *broker {
	start, err := uuid.NewV7()
	require.NoError(t, err)
	b := &broker{Recorder: meshtest.NewRecorder(), start: start, metrics: prometheus.NewRegistry()}
	cfg := mesh.Config{
		Name: name, StartID: start, Label: "cluster", Build: "0.1.0", HTTP: "http://127.0.0.1:6632", Listen: "127.0.0.1:0",
		Keys: [][]byte{bytes.Repeat([]byte{1}, 32)}, Registry: registry, Handler: b.Recorder, Logger: zap.NewNop(),
		Registerer: b.metrics,
	}
	if edit != nil {
		edit(&cfg)
	}
	b.Mesh, err = mesh.New(cfg)
	require.NoError(t, err)
	require.NoError(t, b.Start(t.Context()))
	t.Cleanup(b.Stop)
	b.address = b.Address()
	registry.Put(mesh.RegistryMember{Name: name, StartID: start, Address: b.address, Frames: b.View().Self().Frames})
	b.Join()
	return b
}

// eventually polls for something that no event announces.
func eventually(t *testing.T, what string, done func() bool) {
	require.Eventually(t, done, patience, 5*time.Millisecond, what)
}

func socketCluster(t *testing.T, n int) []*broker {
	registry := &meshtest.Registry{}
	var brokers []*broker
	for i := range n {
		brokers = append(brokers, socketBroker(t, registry, "b"+strconv.Itoa(i+1), nil))
	}
	for _, b := range brokers {
		eventually(t, "all found", func() bool { return b.View().Count(mesh.StateAlive) == n })
		// A beacon that came back is a way that works in both directions.
		eventually(t, "all heard", func() bool { return b.metric("waggle_mesh_beacon_seconds") >= 1 })
	}
	return brokers
}

func TestWakesTravelOverSocketsWithinMilliseconds(t *testing.T) {
	t.Parallel()
	b := socketCluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var took []time.Duration
	for i := range 100 {
		partition := strconv.Itoa(i)
		begun := time.Now()
		b[0].SendWake(wake("orders", partition))
		require.NoError(t, b[1].Await(ctx, func(r *meshtest.Recorder) bool {
			wakes := r.Wakes()
			return len(wakes) > 0 && wakes[len(wakes)-1].Partition == partition
		}))
		took = append(took, time.Since(begun))
		time.Sleep(3 * time.Millisecond)
	}
	slices.Sort(took)
	t.Logf("wake to handler: p50 %v, p90 %v, max %v", took[50], took[90], took[99])
	require.Less(t, took[50], 20*time.Millisecond, "a couple of milliseconds, on a machine that others use too")
}

func TestLeavingOverSocketsIsSeenWithinASecond(t *testing.T) {
	t.Parallel()
	b := socketCluster(t, 3)
	begun := time.Now()
	left := make(chan error, 1)
	go func() { left <- b[2].Leave(t.Context()) }()
	for _, other := range b[:2] {
		eventually(t, "seen to leave", func() bool { return other.state(b[2]) == mesh.StateLeft })
	}
	seen := time.Since(begun)
	t.Logf("seen after %v", seen)
	require.Less(t, seen, time.Second)
	require.NoError(t, <-left)
	require.Less(t, time.Since(begun), 4*time.Second)
}

func TestAnAddressInUseIsSaidSo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	m, err := mesh.New(mesh.Config{
		Name: "b1", StartID: uuid.UUID{1}, Label: "cluster", Listen: taken.Addr().String(), Plaintext: true,
		Registry: &meshtest.Registry{}, Handler: meshtest.NewRecorder(), Logger: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	require.ErrorIs(t, m.Start(t.Context()), mesh.ErrAddressInUse)
	m.Stop()
}

func TestStoppingEndsConnectionsThatSayNothing(t *testing.T) {
	t.Parallel()
	b := socketBroker(t, &meshtest.Registry{}, "b1", nil)
	silent, err := net.Dial("tcp", b.address)
	require.NoError(t, err)
	defer silent.Close()
	eventually(t, "accepted", func() bool {
		_, err := silent.Write([]byte{244}) // the beginning of a label that never comes
		return err == nil
	})
	time.Sleep(20 * time.Millisecond) // nothing announces that it was taken up
	begun := time.Now()
	b.Stop()
	require.NoError(t, silent.SetReadDeadline(begun.Add(time.Second)))
	_, err = silent.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestAnAdvertisedNameIsResolvedToAnAddress(t *testing.T) {
	t.Parallel()
	registry := &meshtest.Registry{}
	first := socketBroker(t, registry, "b1", nil)
	_, port, err := net.SplitHostPort(first.address)
	require.NoError(t, err)
	second := socketBroker(t, &meshtest.Registry{}, "b2", func(cfg *mesh.Config) {
		cfg.Listen, cfg.Advertise = ":0", "localhost"
		cfg.Seeds = []string{net.JoinHostPort("localhost", port)}
	})
	host, _, err := net.SplitHostPort(second.address)
	require.NoError(t, err)
	require.True(t, net.ParseIP(host).IsLoopback())
	eventually(t, "joined by name", func() bool { return first.View().Count(mesh.StateAlive) == 2 })
}

func TestHostileDatagramsAreCountedAndDropped(t *testing.T) {
	t.Parallel()
	b := socketBroker(t, &meshtest.Registry{}, "b1", nil)
	conn, err := net.Dial("udp", b.address)
	require.NoError(t, err)
	defer conn.Close()
	send := func(data []byte) {
		_, err := conn.Write(data)
		require.NoError(t, err)
	}
	labelled := func(label string, data ...byte) []byte {
		return append(append([]byte{244, byte(len(label))}, label...), data...)
	}
	send([]byte("GET / HTTP/1.1\r\n\r\n"))
	send(labelled("another", 1, 2, 3))
	send([]byte{244, 200, 'x'})
	eventually(t, "wrong labels", func() bool { return b.metric("waggle_mesh_wrong_label_total") == 3 })
	send(labelled("cluster", bytes.Repeat([]byte{1}, 64)...))
	send(labelled("cluster"))
	eventually(t, "undecryptable", func() bool { return b.metric("waggle_mesh_undecryptable_total") == 2 })
}

func TestHostileFramesFromWithinAreCountedAndDropped(t *testing.T) {
	t.Parallel()
	b := socketBroker(t, &meshtest.Registry{}, "b1", nil)
	insider := newInsider(t, b.address)
	for _, frame := range [][]byte{
		{2, 0xdd, 0xff, 0xff, 0xff, 0xff},
		{2, 0xc6, 0xff, 0xff, 0xff, 0xff},
		{1, 0x92, 0x01, 0xa1, 'q', 0x00},
		{1, 0x91, 0x01},
		{},
		{9, 0x90},
		{1, 0x92, 0x63, 0xa1, 'q'},
	} {
		insider.send(t, frame)
	}
	eventually(t, "counted", func() bool {
		return b.dropped("malformed") == 5 && b.dropped("unknown_version") == 1 && b.dropped("unknown_kind") == 1
	})
	insider.send(t, []byte{1, 0x92, 0x01, 0xa1, 'q'})
	eventually(t, "a good one after them", func() bool { return len(b.Wakes()) == 1 })
	require.Equal(t, []mesh.Wake{{Queue: "q", QueueWide: true}}, b.Wakes())
	m := b.View().Members
	require.Len(t, m, 2, "a member whose meta says nothing is one that speaks v1")
	require.Equal(t, mesh.FrameRange{Min: 1, Max: 1}, m[1].Frames)
}

func TestAPeerWithoutACommonVersionIsSentNothing(t *testing.T) {
	t.Parallel()
	b := socketBroker(t, &meshtest.Registry{}, "b1", nil)
	insider := newInsider(t, b.address)
	meta := make([]byte, 30)
	meta[0], meta[1], meta[17], meta[18] = 1, 7, 8, 9 // layout, start id, frames 8..9
	insider.setMeta(t, meta)
	eventually(t, "meta seen", func() bool {
		_, ok := b.View().ByStartID(uuid.UUID{7})
		return ok
	})
	b.SendWake(wake("orders", "eu"))
	require.NotZero(t, b.dropped("no_version"))
}

// insider is a member that holds the keys and sends what it likes.
type insider struct {
	list   *memberlist.Memberlist
	target *memberlist.Node
	meta   []byte
}

func newInsider(t *testing.T, address string) *insider {
	i := &insider{}
	conf := memberlist.DefaultLANConfig()
	conf.Name, conf.Label, conf.BindAddr, conf.BindPort = "insider", "cluster", "127.0.0.1", 0
	conf.SecretKey = bytes.Repeat([]byte{1}, 32)
	conf.EnableCompression = false
	conf.DelegateProtocolVersion, conf.DelegateProtocolMin, conf.DelegateProtocolMax = 1, 1, 1
	conf.Delegate = i
	conf.LogOutput = t.Output()
	var err error
	i.list, err = memberlist.Create(conf)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, i.list.Shutdown()) })
	_, err = i.list.Join([]string{address})
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	i.target = &memberlist.Node{Name: "target", Addr: net.ParseIP(host), Port: uint16(number)}
	return i
}

func (i *insider) send(t *testing.T, frame []byte) {
	require.NoError(t, i.list.SendBestEffort(i.target, frame))
}

func (i *insider) setMeta(t *testing.T, meta []byte) {
	i.meta = meta
	require.NoError(t, i.list.UpdateNode(patience))
}

func (i *insider) NodeMeta(int) []byte             { return i.meta }
func (i *insider) NotifyMsg([]byte)                {}
func (i *insider) GetBroadcasts(int, int) [][]byte { return nil }
func (i *insider) LocalState(bool) []byte          { return nil }
func (i *insider) MergeRemoteState([]byte, bool)   {}
