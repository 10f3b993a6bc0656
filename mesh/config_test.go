package mesh

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// A probe that the library has begun outlasts its shutdown by up to a few seconds; nothing else may.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

type nothing struct{}

func (nothing) Live(context.Context) ([]RegistryMember, error) { return nil, nil }
func (nothing) Wake([]Wake)                                    {}
func (nothing) Invalidate([]Invalidation)                      {}
func (nothing) Repair(RepairReason)                            {}
func (nothing) LeaderHint()                                    {}

func goodConfig() Config {
	return Config{
		Name: "b1", StartID: originA, Label: "cluster", Listen: "127.0.0.1:0", Keys: [][]byte{key(1)},
		Registry: nothing{}, Handler: nothing{}, Logger: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	}
}

func TestABadConfigurationIsRefusedWithEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := New(goodConfig())
	require.NoError(t, err)
	_, err = New(Config{
		Name: "a b", Build: strings.Repeat("b", 65), HTTP: strings.Repeat("h", 129), Listen: "localhost:0",
		Seeds: []string{"nowhere"}, FrameMax: 3, Keys: [][]byte{{1}}, Plaintext: true,
	})
	require.Error(t, err)
	for _, part := range []string{
		"broker name", "start id", "cluster id", "build", "http address", "listen address", "seed", "frame version", "plaintext",
		"key 0", "registry",
	} {
		require.ErrorContains(t, err, part)
	}
	_, err = New(Config{Listen: "127.0.0.1:70000"})
	require.ErrorContains(t, err, "port")
}

func TestAllMetricsExistFromTheStart(t *testing.T) {
	t.Parallel()
	cfg := goodConfig()
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	_, err := New(cfg)
	require.NoError(t, err)
	for name, series := range map[string]int{
		"waggle_mesh_frames_in_total": 12, "waggle_mesh_frames_out_total": 12, "waggle_mesh_dropped_total": len(dropReasons),
		"waggle_mesh_gaps_total": 1, "waggle_mesh_fanouts_total": 1, "waggle_mesh_wakes_withheld_total": 1, "waggle_mesh_peers": 4, "waggle_mesh_unheard": 1,
		"waggle_mesh_beacon_seconds": 1, "waggle_mesh_undecryptable_total": 1, "waggle_mesh_wrong_label_total": 1,
	} {
		count, err := testutil.GatherAndCount(registry, name)
		require.NoError(t, err)
		require.Equal(t, series, count, name)
	}
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	_, err = New(cfg)
	require.Error(t, err, "the same names twice")
}

func TestLibraryLinesAreCountedByHowTheyBegin(t *testing.T) {
	t.Parallel()
	meters, err := newMeters(prometheus.NewRegistry())
	require.NoError(t, err)
	reloads := 0
	library := &libraryLog{log: zap.NewNop(), meters: meters, undecryptable: func() { reloads++ }}
	logger := library.logger()
	for _, line := range []string{
		`[ERR] memberlist: discarding packet with unacceptable label "other": from=1.2.3.4:5`,
		`[ERR] memberlist: discarding stream with unacceptable label "Decrypt packet failed": from=1.2.3.4:5`,
		`[ERR] memberlist: cannot decode label; packet has been truncated from=1.2.3.4:5`,
		`[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=1.2.3.4:5`,
		`[ERR] memberlist: failed to receive: no installed keys could decrypt the message from=1.2.3.4:5`,
		`[WARN] memberlist: handler queue full, dropping message (8) from=1.2.3.4:5`,
		`[DEBUG] memberlist: Stream connection from=1.2.3.4:5`,
		``,
		`[`,
	} {
		logger.Print(line)
	}
	require.EqualValues(t, 3, testutil.ToFloat64(meters.wrongLabel))
	require.EqualValues(t, 2, testutil.ToFloat64(meters.undecryptable))
	require.EqualValues(t, 1, testutil.ToFloat64(meters.dropped[dropLibrary]))
	require.Equal(t, 2, reloads)
}

func TestAdvertiseIP(t *testing.T) {
	t.Parallel()
	ip := netip.MustParseAddr
	for _, test := range []struct {
		name     string
		listen   string
		database netip.Addr
		want     netip.Addr
	}{
		{"the address listened on", "10.1.2.3", ip("10.9.9.9"), ip("10.1.2.3")},
		{"loopback if that is listened on", "127.0.0.1", ip("10.9.9.9"), ip("127.0.0.1")},
		{"behind a wildcard the way to the database", "0.0.0.0", ip("10.9.9.9"), ip("10.9.9.9")},
		{"behind an empty host too", "", ip("::ffff:10.9.9.9"), ip("10.9.9.9")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := AdvertiseIP(test.listen, test.database)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	got, err := AdvertiseIP("::", netip.MustParseAddr("127.0.0.1"))
	require.NoError(t, err)
	require.True(t, got.IsValid() && !got.IsUnspecified())
	_, err = AdvertiseIP("name", netip.Addr{})
	require.Error(t, err)
}

func TestPickAddressPrefersPrivateAndThenIPv4(t *testing.T) {
	t.Parallel()
	network := func(cidr string) net.Addr {
		address, n, err := net.ParseCIDR(cidr)
		require.NoError(t, err)
		return &net.IPNet{IP: address, Mask: n.Mask}
	}
	for _, test := range []struct {
		addresses []string
		want      string
	}{
		{nil, "127.0.0.1"},
		{[]string{"127.0.0.1/8", "fe80::1/64"}, "127.0.0.1"},
		{[]string{"127.0.0.1/8", "203.0.113.5/24"}, "203.0.113.5"},
		{[]string{"203.0.113.5/24", "fd00::5/64"}, "fd00::5"},
		{[]string{"fd00::5/64", "192.168.1.5/24", "10.0.0.5/8"}, "192.168.1.5"},
	} {
		var addresses []net.Addr
		for _, a := range test.addresses {
			addresses = append(addresses, network(a))
		}
		require.Equal(t, test.want, pickAddress(addresses).String())
	}
}

func TestResolveAdvertise(t *testing.T) {
	t.Parallel()
	for advertise, want := range map[string]string{
		"":               "127.0.0.9:6633",
		"10.0.0.7":       "10.0.0.7:6633",
		"10.0.0.7:7000":  "10.0.0.7:7000",
		"[fd00::1]:7000": "[fd00::1]:7000",
	} {
		got, err := resolveAdvertise(t.Context(), advertise, "127.0.0.9", 6633)
		require.NoError(t, err)
		require.Equal(t, want, got.String())
	}
	for _, advertise := range []string{"0.0.0.0", "10.0.0.7:0", "10.0.0.7:70000"} {
		_, err := resolveAdvertise(t.Context(), advertise, "127.0.0.9", 6633)
		require.Error(t, err, advertise)
	}
}

func TestTheLibraryIsSetUpAsTheMeshNeedsIt(t *testing.T) {
	t.Parallel()
	m, err := New(goodConfig())
	require.NoError(t, err)
	conf, err := m.libraryConfig(t.Context(), &libraryLog{log: zap.NewNop(), meters: m.meters})
	require.NoError(t, err)
	require.NoError(t, conf.Transport.Shutdown())
	require.Equal(t, []uint8{1, 1, 1}, []uint8{conf.DelegateProtocolMin, conf.DelegateProtocolMax, conf.DelegateProtocolVersion},
		"another number splits every mesh that is being upgraded")
	require.Equal(t, 700*time.Millisecond, conf.ProbeInterval)
	require.False(t, conf.EnableCompression, "it costs eight times a frame")
	require.True(t, conf.EncryptionEnabled() && conf.GossipVerifyIncoming && conf.GossipVerifyOutgoing)
	require.Equal(t, "cluster", conf.Label)
	require.Equal(t, "b1-"+originA.String(), conf.Name)
}

func TestStreamsToOnePeerRise(t *testing.T) {
	t.Parallel()
	p := &peer{start: targetA, version: 2, node: node{address: "10.0.0.1:6633"}}
	meters, err := newMeters(prometheus.NewRegistry())
	require.NoError(t, err)
	now := time.Unix(1000, 0)
	var before Number
	for i := range 3 { // all within a second
		s := newSender(originA, p, nil, meters, zap.NewNop(), now)
		require.Greater(t, s.number.stream(), before.stream(), "stream %d", i)
		before = s.number
	}
	s := newSender(originA, p, nil, meters, zap.NewNop(), now)
	s.number |= 1<<32 - 1
	before = s.number
	s.skipNumber()
	require.Equal(t, before.stream()+1, s.number.stream(), "a stream that has used up its numbers")
	require.EqualValues(t, 1, s.number.count())
}
