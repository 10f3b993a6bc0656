package mesh

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// writeMissing writes golden files that do not exist yet. One that exists is never rewritten: its bytes are what
// released builds send.
var writeMissing = flag.Bool("write-missing", false, "write golden frames that do not exist yet")

var (
	tenantA = uuid.MustParse("0198a000-0000-7000-8000-00000000000a")
	originA = uuid.MustParse("0198a000-1111-7000-9000-00000000000b")
	targetA = uuid.MustParse("0198a000-2222-7000-a000-00000000000c")
)

func v2(kind Kind, fill func(*Frame)) Frame {
	f := Frame{
		Version: 2, Kind: kind, Origin: originA, Destination: destinationMark(targetA),
		Number: firstNumber(1_760_000_000) + 7,
	}
	if fill != nil {
		fill(&f)
	}
	return f
}

// goldenFrames pins the bytes of every kind in every version.
var goldenFrames = []struct {
	name  string
	frame Frame
}{
	{"v1-wake-queue", Frame{Version: 1, Kind: KindWake, Wakes: []Wake{{Queue: "orders", QueueWide: true}}}},
	{"v1-wake-partition", Frame{Version: 1, Kind: KindWake, Wakes: []Wake{{Queue: "orders", Partition: "eu/1"}}}},
	{"v1-invalidation", Frame{Version: 1, Kind: KindInvalidation, Invalidations: []Invalidation{
		{Queue: "orders", OptionsChanged: true, CursorsMoved: true},
	}}},
	{"v2-wake", v2(KindWake, func(f *Frame) {
		f.Wakes = []Wake{
			{Tenant: tenantA, TenantKnown: true, Queue: "orders", Partition: "eu/1"},
			{Tenant: tenantA, TenantKnown: true, Queue: "orders", Partition: "eu/2"},
			{Tenant: tenantA, TenantKnown: true, Queue: "mail", QueueWide: true},
			{Queue: "anyone's", Partition: "Default"},
		}
	})},
	{"v2-invalidation", v2(KindInvalidation, func(f *Frame) {
		f.Invalidations = []Invalidation{
			{Tenant: tenantA, TenantKnown: true, Queue: "orders", OptionsChanged: true, Version: 300},
			{Tenant: tenantA, TenantKnown: true, Queue: "mail", Deleted: true},
			{Tenant: tenantA, TenantKnown: true, Queue: "log", CursorsMoved: true, Group: "billing"},
			{Queue: "anyone's", CursorsMoved: true},
		}
	})},
	{"v2-leader-hint", v2(KindLeaderHint, nil)},
	{"v2-leave", v2(KindLeave, nil)},
	{"v2-beacon", v2(KindBeacon, func(f *Frame) { f.Round = 1000 })},
	{"v2-echo", v2(KindBeacon, func(f *Frame) { f.Round, f.Echo = 1000, true })},
	{"v2-beacon-generation", v2(KindBeacon, func(f *Frame) { f.Round, f.Generation = 1000, 300 })},
	{"v2-interest", v2(KindInterest, func(f *Frame) {
		set := newInterestSet()
		set.add(interestHash(tenantA, "orders"))
		f.Number, f.Generation, f.Interest = 0, 300, set.encoded()
	})},
	{"v2-interest-held", v2(KindInterest, func(f *Frame) { f.Number, f.Generation = 0, 300 })},
}

func TestFramesHaveTheBytesOfTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, golden := range goldenFrames {
		t.Run(golden.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", golden.name+".frame")
			encoded := newEncoder().Encode(&golden.frame)
			if _, err := os.Stat(path); *writeMissing && os.IsNotExist(err) {
				require.NoError(t, os.WriteFile(path, encoded, 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, want, encoded)
			decoded, err := Decode(want, FrameMax)
			require.NoError(t, err)
			require.Equal(t, golden.frame, *decoded)
		})
	}
}

func TestFramesAreOneMsgpackValue(t *testing.T) {
	t.Parallel()
	for _, golden := range goldenFrames {
		reader := bytes.NewReader(newEncoder().Encode(&golden.frame)[1:])
		value, err := msgpack.NewDecoder(reader).DecodeInterface()
		require.NoError(t, err, golden.name)
		require.IsType(t, []any{}, value, golden.name)
		require.Zero(t, reader.Len(), golden.name)
	}
}

// hostile are bytes that break decoders that believe what they read. They also seed the fuzzing.
var hostile = []struct {
	name string
	data []byte
}{
	{"empty", nil},
	{"version only", []byte{2}},
	{"array of 4 billion", []byte{2, 0xdd, 0xff, 0xff, 0xff, 0xff}},
	{"binary of 4 billion", []byte{2, 0xc6, 0xff, 0xff, 0xff, 0xff}},
	{"array of 4 billion in v1", []byte{1, 0xdd, 0xff, 0xff, 0xff, 0xff}},
	{"queue of 4 billion in v1", []byte{1, 0x92, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xff}},
	{"one field fewer", []byte{1, 0x91, 0x01}},
	{"map instead of array", []byte{1, 0x81, 0xa1, 'q', 0x01}},
	{"trailing byte", []byte{1, 0x92, 0x01, 0xa1, 'q', 0x00}},
	{"empty queue", []byte{1, 0x92, 0x01, 0xa0}},
	{"negative kind", []byte{1, 0x92, 0xff, 0xa1, 'q'}},
	{"kind as text", []byte{1, 0x92, 0xa1, '1', 0xa1, 'q'}},
	{"queue as number", []byte{1, 0x92, 0x01, 0x07}},
	{"surplus map of 4 billion", []byte{1, 0x94, 0x01, 0xa1, 'q', 0xc0, 0xdf, 0xff, 0xff, 0xff, 0xff}},
	{"surplus code that msgpack never uses", []byte{1, 0x94, 0x01, 0xa1, 'q', 0xc0, 0xc1}},
	{"surplus cut short", []byte{1, 0x94, 0x01, 0xa1, 'q', 0xc0, 0xd8, 0x01}},
	{"name of 1,025 bytes", append([]byte{1, 0x92, 0x01, 0xda, 0x04, 0x01}, bytes.Repeat([]byte{'n'}, 1025)...)},
	{"longer than a frame", append([]byte{1}, bytes.Repeat([]byte{0x91}, FrameLimit)...)},
	{"interest of three bytes", interestOf([]byte{1, 2, 3})},
	{"interest of no bytes", interestOf([]byte{})},
	{"nested arrays", append([]byte{1, 0x94, 0x01, 0xa1, 'q', 0xc0}, bytes.Repeat([]byte{0x91}, 1000)...)},
}

// interestOf is an interest frame with any bits.
func interestOf(bits []byte) []byte {
	frame := v2(KindInterest, func(f *Frame) { f.Generation, f.Interest = 1, bits })
	return bytes.Clone(newEncoder().Encode(&frame))
}

func TestHostileBytesAreErrors(t *testing.T) {
	t.Parallel()
	for _, seed := range hostile {
		t.Run(seed.name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode(seed.data, FrameMax)
			require.Error(t, err)
		})
	}
	t.Run("every prefix of a good frame", func(t *testing.T) {
		t.Parallel()
		for _, golden := range goldenFrames {
			encoded := newEncoder().Encode(&golden.frame)
			for n := range encoded {
				_, err := Decode(encoded[:n], FrameMax)
				require.Error(t, err, "%s cut to %d bytes", golden.name, n)
			}
		}
	})
}

func TestLaterBuildsMayAppendFields(t *testing.T) {
	t.Parallel()
	surplus := []byte{0x82, 0xa1, 'k', 0x93, 1, 2, 3, 0xc0, 0xc4, 1, 9} // {"k": [1,2,3], nil: bytes}
	t.Run("v1", func(t *testing.T) {
		t.Parallel()
		data := append([]byte{1, 0x94, 0x01, 0xa1, 'q', 0xa1, 'p'}, surplus...)
		f, err := Decode(data, FrameMax)
		require.NoError(t, err)
		require.Equal(t, []Wake{{Queue: "q", Partition: "p"}}, f.Wakes)
	})
	t.Run("v2", func(t *testing.T) {
		t.Parallel()
		frame := v2(KindLeave, nil)
		data := append(bytes.Clone(newEncoder().Encode(&frame)), surplus...)
		data[1] = 0x96
		f, err := Decode(data, FrameMax)
		require.NoError(t, err)
		require.Equal(t, frame, *f)
	})
	t.Run("an invalidation whose flags are all unknown is passed over", func(t *testing.T) {
		t.Parallel()
		frame := v2(KindInvalidation, func(f *Frame) {
			f.Invalidations = []Invalidation{{Queue: "q", Deleted: true}}
		})
		data := bytes.Clone(newEncoder().Encode(&frame))
		data[len(data)-2] = 0x40 // the flags stand before the nil group
		f, err := Decode(data, FrameMax)
		require.NoError(t, err)
		require.Empty(t, f.Invalidations)
	})
}

func TestUnknownVersionsAndKindsAreToldApartFromGarbage(t *testing.T) {
	t.Parallel()
	_, err := Decode([]byte{3, 0x92, 0x01, 0xa1, 'q'}, FrameMax)
	require.ErrorIs(t, err, ErrUnknownVersion)
	_, err = Decode([]byte{0}, FrameMax)
	require.ErrorIs(t, err, ErrUnknownVersion)
	frame := v2(KindLeave, nil)
	_, err = Decode(newEncoder().Encode(&frame), 1)
	require.ErrorIs(t, err, ErrUnknownVersion, "pinned to v1")
	_, err = Decode([]byte{1, 0x92, 0x03, 0xa1, 'q'}, FrameMax)
	require.ErrorIs(t, err, ErrUnknownKind, "v1 has no leader hint")
	unknown := v2(99, nil)
	_, err = Decode(newEncoder().Encode(&unknown), FrameMax)
	require.ErrorIs(t, err, ErrUnknownKind)
}

// drawFrame makes any frame that a sender may send.
func drawFrame(t *rapid.T) Frame {
	name := rapid.StringN(1, 40, 60)
	if rapid.Bool().Draw(t, "v1") {
		queue := name.Draw(t, "queue")
		switch rapid.IntRange(0, 2).Draw(t, "what") {
		case 0:
			return Frame{Version: 1, Kind: KindWake, Wakes: []Wake{{Queue: queue, QueueWide: true}}}
		case 1:
			return Frame{Version: 1, Kind: KindWake, Wakes: []Wake{{Queue: queue, Partition: name.Draw(t, "partition")}}}
		}
		return Frame{Version: 1, Kind: KindInvalidation, Invalidations: []Invalidation{
			{Queue: queue, OptionsChanged: true, CursorsMoved: true},
		}}
	}
	f := v2(rapid.SampledFrom(kinds).Draw(t, "kind"), nil)
	f.Number = Number(rapid.Uint64().Draw(t, "number"))
	f.Destination = rapid.Uint64().Draw(t, "destination")
	tenant := func() (uuid.UUID, bool) {
		if rapid.Bool().Draw(t, "tenant known") {
			return tenantA, true
		}
		return uuid.UUID{}, false
	}
	switch f.Kind {
	case KindWake:
		for range rapid.IntRange(1, 5).Draw(t, "items") {
			w := Wake{Queue: name.Draw(t, "queue")}
			w.Tenant, w.TenantKnown = tenant()
			if w.QueueWide = rapid.Bool().Draw(t, "wide"); !w.QueueWide {
				w.Partition = rapid.StringN(0, 20, 30).Draw(t, "partition")
			}
			f.Wakes = append(f.Wakes, w)
		}
	case KindInvalidation:
		for range rapid.IntRange(1, 5).Draw(t, "items") {
			i := Invalidation{Queue: name.Draw(t, "queue"), Version: rapid.Int64Min(0).Draw(t, "version")}
			i.Tenant, i.TenantKnown = tenant()
			flags := rapid.IntRange(1, 7).Draw(t, "flags")
			i.OptionsChanged, i.Deleted, i.CursorsMoved = flags&1 != 0, flags&2 != 0, flags&4 != 0
			i.Group = rapid.StringN(0, 20, 30).Draw(t, "group")
			f.Invalidations = append(f.Invalidations, i)
		}
	case KindBeacon:
		f.Round, f.Echo = rapid.Uint64().Draw(t, "round"), rapid.Bool().Draw(t, "echo")
		f.Generation = rapid.Uint64().Draw(t, "generation")
	case KindInterest:
		f.Generation = rapid.Uint64().Draw(t, "generation")
		if rapid.Bool().Draw(t, "summary") {
			n := 1 << rapid.IntRange(0, 10).Draw(t, "size")
			f.Interest = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bits")
		}
	}
	return f
}

func TestFramesSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		frame := drawFrame(t)
		decoded, err := Decode(newEncoder().Encode(&frame), FrameMax)
		require.NoError(t, err)
		require.Equal(t, frame, *decoded)
	})
}

func FuzzDecode(f *testing.F) {
	for _, seed := range hostile {
		f.Add(seed.data)
	}
	for _, golden := range goldenFrames {
		f.Add(newEncoder().Encode(&golden.frame))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := Decode(data, FrameMax)
		if err != nil {
			return
		}
		for _, w := range frame.Wakes {
			require.LessOrEqual(t, len(w.Queue)+len(w.Partition), 2*nameLimit)
			require.NotEmpty(t, w.Queue)
		}
		if len(frame.Wakes)+len(frame.Invalidations) == 0 && (frame.Kind == KindWake || frame.Kind == KindInvalidation) {
			return // a frame of no items, or of items too new for this build
		}
		// What was understood is encoded to something that is understood in the same way.
		encoded := newEncoder().Encode(frame)
		if len(encoded) > FrameLimit {
			return // the stranger wrote its numbers shorter than we do
		}
		again, err := Decode(encoded, FrameMax)
		require.NoError(t, err)
		require.Equal(t, frame, again)
	})
}

func TestTheLongestNamesFitAFrame(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", nameLimit)
	p := newPending(2)
	p.addWake(&Wake{Tenant: tenantA, TenantKnown: true, Queue: long, Partition: long})
	p.addInvalidation(Invalidation{
		Tenant: tenantA, TenantKnown: true, Queue: long, CursorsMoved: true, OptionsChanged: true, Version: 1<<63 - 1, Group: long,
	})
	var f Frame
	for range 2 {
		require.True(t, p.next(&f))
		f.Origin, f.Destination, f.Number = originA, 1<<63, 1<<63
		require.LessOrEqual(t, len(newEncoder().Encode(&f)), FrameLimit, f.Kind)
	}
	require.Equal(t, []Wake{{Tenant: tenantA, TenantKnown: true, Queue: long, QueueWide: true}}, f.Wakes)
	require.False(t, p.next(&f))
	full := Frame{
		Version: 2, Kind: KindInterest, Origin: originA, Destination: 1 << 63, Number: 1 << 63, Generation: 1 << 63,
		Interest: newInterestSet().encoded(),
	}
	require.LessOrEqual(t, len(newEncoder().Encode(&full)), FrameLimit)
}

func TestVersionFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		ours, theirs FrameRange
		version      uint8
		ok           bool
	}{
		{"equal builds speak the highest", FrameRange{1, 2}, FrameRange{1, 2}, 2, true},
		{"an older peer is sent what it knows", FrameRange{1, 2}, FrameRange{1, 1}, 1, true},
		{"a pinned broker sends what it may", FrameRange{1, 1}, FrameRange{1, 2}, 1, true},
		{"a newer peer is sent what we know", FrameRange{1, 2}, FrameRange{1, 9}, 2, true},
		{"a newer peer that still reads v2", FrameRange{1, 2}, FrameRange{2, 3}, 2, true},
		{"a peer that has dropped all we know", FrameRange{1, 2}, FrameRange{3, 4}, 0, false},
		{"a peer that lacks all we write", FrameRange{2, 3}, FrameRange{1, 1}, 0, false},
		{"a peer that says nothing", FrameRange{1, 2}, FrameRange{}, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			version, ok := VersionFor(test.ours, test.theirs)
			require.Equal(t, test.version, version)
			require.Equal(t, test.ok, ok)
		})
	}
}
