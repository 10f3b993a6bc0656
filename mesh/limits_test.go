package mesh

import (
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// bytesPerRun is what fn allocates, on average.
func bytesPerRun(fn func()) int {
	const runs = 100
	fn()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		fn()
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) / runs
}

// It is not parallel: what others allocate would be counted.
func TestNoLengthInAFrameIsBelievedBeforeItsBytesAreThere(t *testing.T) {
	longest := 0
	lengths := [][]byte{
		{0xdd, 0xff, 0xff, 0xff, 0xff},
		{0xdc, 0xff, 0xff},
		{0xc6, 0xff, 0xff, 0xff, 0xff},
		{0xc5, 0xff, 0xff},
		{0xdb, 0xff, 0xff, 0xff, 0xff},
		{0xda, 0xff, 0xff},
		{0xdf, 0xff, 0xff, 0xff, 0xff},
		{0xde, 0xff, 0xff},
		{0xc9, 0xff, 0xff, 0xff, 0xff, 0x01},
		{0xdd, 0x7f, 0xff, 0xff, 0xff},
		{0xdf, 0x80, 0x00, 0x00, 0x00},
	}
	for _, golden := range goldenFrames {
		good := newEncoder().Encode(&golden.frame)
		decoding := bytesPerRun(func() { _, _ = Decode(good, FrameMax) })
		for at := 1; at < len(good); at++ {
			for _, length := range lengths {
				data := append(append([]byte(nil), good[:at]...), length...)
				used := bytesPerRun(func() { _, _ = Decode(data, FrameMax) })
				longest = max(longest, used)
				// What the good part before the length decodes to, the frame itself and the error.
				require.LessOrEqual(t, used, decoding+len(data)+512, "%s with %x at %d", golden.name, length, at)
			}
		}
	}
	t.Logf("at most %d bytes for a frame with a hostile length", longest)
}

// It is not parallel either. The frame that decodes to most has nothing but empty partition names, of one byte each.
func TestTheMostThatAFrameDecodesToIsBounded(t *testing.T) {
	data := []byte{2, 0x95, byte(KindWake), 0xc4, 16}
	data = append(data, originA[:]...)
	data = append(data, 1, 1, 0x91, 0x93, 0xc0, 0xa1, 'q', 0xdc)
	names := FrameLimit - len(data) - 2
	data = append(data, byte(names>>8), byte(names))
	data = append(data, make([]byte, names)...)
	for i := len(data) - names; i < len(data); i++ {
		data[i] = 0xa0
	}
	f, err := Decode(data, FrameMax)
	require.NoError(t, err)
	require.Len(t, f.Wakes, names)
	used := bytesPerRun(func() { _, _ = Decode(data, FrameMax) })
	allocations := testing.AllocsPerRun(10, func() { _, _ = Decode(data, FrameMax) })
	t.Logf("%d bytes in %.0f allocations for a frame of %d bytes", used, allocations, len(data))
	require.Less(t, used, 256<<10)
}

func TestWhatIsLongerThanAFrameIsNotCopied(t *testing.T) {
	meters, err := newMeters(prometheus.NewRegistry())
	require.NoError(t, err)
	d := &delegate{inbox: make(chan []byte, 200), meters: meters}
	data := make([]byte, 20<<20)
	require.Less(t, bytesPerRun(func() { d.NotifyMsg(data) }), 1024)
	require.Empty(t, d.inbox)
	require.EqualValues(t, 101, testutil.ToFloat64(meters.dropped[dropOversize]))
	d.NotifyMsg(data[:FrameLimit])
	require.Len(t, d.inbox, 1)
}

// newReceiver makes the receiving side of a mesh that is not running.
func newReceiver(t require.TestingT) *receiver {
	cfg := goodConfig()
	cfg.StartID = targetA
	m, err := New(cfg)
	require.NoError(t, err)
	return &receiver{m: m, streams: make(map[uuid.UUID]*stream), due: time.NewTimer(time.Hour)}
}

// FuzzReceive: whatever comes, it is counted once, as a frame or as dropped, and a second time it is no news. Frames of interest
// carry no number, and say nothing but what their broker says anyhow.
func FuzzReceive(f *testing.F) {
	for _, seed := range hostile {
		f.Add(seed.data)
	}
	for _, golden := range goldenFrames {
		f.Add(newEncoder().Encode(&golden.frame))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newReceiver(t)
		defer r.due.Stop()
		now := time.Now()
		delegate := &delegate{inbox: r.m.inbox, meters: r.m.meters}
		receive := func() (Counts, *Frame) {
			delegate.NotifyMsg(data)
			select {
			case got := <-r.m.inbox:
				r.frame(got, now)
			default:
			}
			decoded, _ := Decode(data, FrameMax)
			return r.m.Counts(), decoded
		}
		counts, decoded := receive()
		require.EqualValues(t, 1, counts.Received+counts.Dropped)
		require.Equal(t, decoded != nil, counts.Received == 1)
		hints := len(r.m.hints)
		counts, _ = receive()
		if decoded != nil && decoded.Version == 2 && decoded.Kind != KindInterest && decoded.Destination == destinationMark(targetA) {
			require.EqualValues(t, 1, counts.Dropped, "replayed")
			require.Len(t, r.m.hints, hints)
		}
	})
}

// FuzzNumbers: two bytes at a time are a number of one stream. What is called replayed has come before, what has come
// before is never news, and nothing within the window is called stale.
func FuzzNumbers(f *testing.F) {
	f.Add([]byte{0, 1, 0, 3, 0, 2, 0, 2})
	f.Add([]byte{0, 1, 4, 1, 0, 1, 0, 2, 4, 2, 8, 3})
	f.Add([]byte{255, 255, 0, 1, 255, 254})
	f.Fuzz(func(t *testing.T, data []byte) {
		var numbers []uint32
		for ; len(data) > 1; data = data[2:] {
			numbers = append(numbers, uint32(data[0])<<8|uint32(data[1]))
		}
		checkNumbers(t, numbers)
	})
}

func TestReplaysAreToldFromNews(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		checkNumbers(t, rapid.SliceOf(rapid.Uint32Range(1, 3000)).Draw(t, "numbers"))
	})
}

func checkNumbers(t require.TestingT, numbers []uint32) {
	var g gaps
	came := make(map[uint32]bool)
	highest := uint32(0)
	now := time.Unix(1000, 0)
	for i, n := range numbers {
		saw := g.observe(number(1, n), now)
		old := n < highest && highest-n >= seenNumbers
		require.Equal(t, old, saw.stale, "number %d, the %dth", n, i)
		require.Equal(t, !old && came[n], saw.replayed, "number %d, the %dth", n, i)
		require.Equal(t, i == 0, saw.opened)
		came[n] = true
		highest = max(highest, n)
		now = now.Add(time.Millisecond)
	}
}
