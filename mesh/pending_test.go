package mesh

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drain takes all frames and checks that each one fits and survives the wire.
func drain(t require.TestingT, p *pending) (frames []Frame) {
	encoder := newEncoder()
	for {
		var f Frame
		if !p.next(&f) {
			require.Empty(t, p.queues)
			require.Empty(t, p.order)
			return frames
		}
		if f.Version > 1 {
			f.Origin, f.Destination, f.Number = originA, 1<<63, Number(1<<63)
		}
		data := encoder.Encode(&f)
		require.LessOrEqual(t, len(data), FrameLimit)
		decoded, err := Decode(data, FrameMax)
		require.NoError(t, err)
		frames = append(frames, *decoded)
		require.Less(t, len(frames), 100_000)
	}
}

func partition(i int) string { return fmt.Sprintf("p%d", i) }

func TestManyPartitionsOfAQueueBecomeTheQueue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version    uint8
		partitions int
		frames     int
		wide       bool
	}{
		{2, 1, 1, false},
		{2, 16, 1, false},
		{2, 17, 1, true},
		{1, 1, 1, false},
		{1, 4, 4, false},
		{1, 5, 1, true},
	} {
		t.Run(fmt.Sprintf("v%d with %d", test.version, test.partitions), func(t *testing.T) {
			t.Parallel()
			p := newPending(test.version)
			for range 3 {
				for i := range test.partitions {
					p.addWake(&Wake{Tenant: tenantA, TenantKnown: true, Queue: "q", Partition: partition(i)})
				}
			}
			frames := drain(t, p)
			require.Len(t, frames, test.frames)
			for _, f := range frames {
				for _, w := range f.Wakes {
					require.Equal(t, test.wide, w.QueueWide)
					require.Equal(t, test.version > 1, w.TenantKnown)
				}
			}
		})
	}
}

func TestTowardsV1EverythingIsAboutTheQueue(t *testing.T) {
	t.Parallel()
	p := newPending(1)
	for _, item := range []Invalidation{
		{Tenant: tenantA, TenantKnown: true, Queue: "q", CursorsMoved: true, Group: "g"},
		{Tenant: originA, TenantKnown: true, Queue: "q", Deleted: true},
		{Tenant: tenantA, TenantKnown: true, Queue: "q", OptionsChanged: true, Version: 7},
	} {
		p.addInvalidation(item)
	}
	p.beacon, p.hint, p.leave = 1, true, true
	frames := drain(t, p)
	require.Len(t, frames, 1)
	require.Equal(t, KindInvalidation, frames[0].Kind)
	require.Equal(t, []Invalidation{{Queue: "q", OptionsChanged: true, CursorsMoved: true}}, frames[0].Invalidations)
}

func TestInvalidationsOfAQueueAreUnited(t *testing.T) {
	t.Parallel()
	item := func(i Invalidation) Invalidation {
		i.Queue = "q"
		return i
	}
	for _, test := range []struct {
		name string
		add  []Invalidation
		want []Invalidation
	}{
		{
			"the newer version stays",
			[]Invalidation{{OptionsChanged: true, Version: 3}, {OptionsChanged: true, Version: 5}, {OptionsChanged: true, Version: 4}},
			[]Invalidation{{OptionsChanged: true, Version: 5}},
		},
		{
			"an unknown version prevails",
			[]Invalidation{{OptionsChanged: true, Version: 3}, {OptionsChanged: true}},
			[]Invalidation{{OptionsChanged: true}},
		},
		{
			"deletion and options ride together",
			[]Invalidation{{Deleted: true}, {OptionsChanged: true, Version: 1}},
			[]Invalidation{{Deleted: true, OptionsChanged: true, Version: 1}},
		},
		{
			"groups stay apart",
			[]Invalidation{{CursorsMoved: true, Group: "a"}, {CursorsMoved: true, Group: "b"}, {CursorsMoved: true, Group: "a"}},
			[]Invalidation{{CursorsMoved: true, Group: "a"}, {CursorsMoved: true, Group: "b"}},
		},
		{
			"all groups cover one",
			[]Invalidation{{CursorsMoved: true}, {CursorsMoved: true, Group: "b"}},
			[]Invalidation{{CursorsMoved: true}},
		},
		{
			"a group joins what concerns none",
			[]Invalidation{{Deleted: true}, {CursorsMoved: true, Group: "b"}},
			[]Invalidation{{Deleted: true, CursorsMoved: true, Group: "b"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPending(2)
			for _, i := range test.add {
				p.addInvalidation(item(i))
			}
			frames := drain(t, p)
			require.Len(t, frames, 1)
			for i := range test.want {
				test.want[i] = item(test.want[i])
			}
			require.Equal(t, test.want, frames[0].Invalidations)
		})
	}
}

func TestTheOldestQueueIsDroppedWhenTheBacklogIsFull(t *testing.T) {
	t.Parallel()
	p := newPending(2)
	dropped := 0
	for i := range pendingQueues + 10 {
		if p.addWake(&Wake{Queue: fmt.Sprint("q", i), QueueWide: true}) {
			dropped++
		}
	}
	require.Equal(t, 10, dropped)
	frames := drain(t, p)
	require.Equal(t, "q10", frames[0].Wakes[0].Queue)
}

func TestUrgentFramesGoFirst(t *testing.T) {
	t.Parallel()
	p := newPending(2)
	p.addWake(&Wake{Queue: "q", QueueWide: true})
	p.addInvalidation(Invalidation{Queue: "r", Deleted: true})
	p.hint, p.leave, p.beacon = true, true, 5
	p.addEcho(4)
	var got []Kind
	for _, f := range drain(t, p) {
		got = append(got, f.Kind)
	}
	require.Equal(t, []Kind{KindLeave, KindBeacon, KindBeacon, KindLeaderHint, KindInvalidation, KindWake}, got)
}

// covered says whether a wake is contained in what was received, exactly or as a whole queue.
func covered(received map[Wake]bool, w Wake) bool {
	wide := Wake{Tenant: w.Tenant, TenantKnown: w.TenantKnown, Queue: w.Queue, QueueWide: true}
	return received[w] || received[wide]
}

func TestNothingThatWasAddedIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.SampledFrom([]uint8{1, 2}).Draw(t, "version")
		p := newPending(version)
		name := rapid.SampledFrom([]string{
			"a", "b", "c", "d", "e", strings.Repeat("x", 60), strings.Repeat("x", 900), strings.Repeat("y", 900),
			strings.Repeat("z", nameLimit),
		})
		tenants := []uuid.UUID{tenantA, originA}
		var wakes []Wake
		var items []Invalidation
		var frames []Frame
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			tenant, queue := rapid.SampledFrom(tenants).Draw(t, "tenant"), name.Draw(t, "queue")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				item := Invalidation{Tenant: tenant, TenantKnown: true, Queue: queue, CursorsMoved: true, Group: name.Draw(t, "group")}
				items = append(items, item)
				require.False(t, p.addInvalidation(item))
			case 1:
				var f Frame
				if p.next(&f) {
					f.Wakes, f.Invalidations = append([]Wake(nil), f.Wakes...), append([]Invalidation(nil), f.Invalidations...)
					frames = append(frames, f)
				}
			case 2:
				if version == 2 {
					w := Wake{Tenant: tenant, TenantKnown: true, Queue: queue, QueueWide: true}
					wakes = append(wakes, w)
					p.addWake(&w)
				}
			default:
				w := Wake{Tenant: tenant, TenantKnown: true, Queue: queue, Partition: name.Draw(t, "partition")}
				wakes = append(wakes, w)
				require.False(t, p.addWake(&w))
			}
		}
		frames = append(frames, drain(t, p)...)
		received := make(map[Wake]bool)
		var invalidated []Invalidation
		for _, f := range frames {
			for _, w := range f.Wakes {
				received[w] = true
			}
			invalidated = append(invalidated, f.Invalidations...)
		}
		for _, w := range wakes {
			if version == 1 {
				w.Tenant, w.TenantKnown = uuid.UUID{}, false
			}
			require.True(t, covered(received, w), "%v", w)
		}
		for _, item := range items {
			require.True(t, coversInvalidation(invalidated, item, version), "%v", item)
		}
	})
}

func coversInvalidation(received []Invalidation, want Invalidation, version uint8) bool {
	for _, have := range received {
		tenant := have.Tenant == want.Tenant || version == 1 && !have.TenantKnown
		if tenant && have.Queue == want.Queue && have.CursorsMoved && (have.Group == "" || have.Group == want.Group) {
			return true
		}
	}
	return false
}

func TestChangingTheVersionKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	p := newPending(2)
	for _, tenant := range []uuid.UUID{tenantA, originA} {
		p.addWake(&Wake{Tenant: tenant, TenantKnown: true, Queue: "q", Partition: "p"})
		p.addInvalidation(Invalidation{Tenant: tenant, TenantKnown: true, Queue: "q", Deleted: true})
	}
	p.leave = true
	p.setVersion(1)
	frames := drain(t, p)
	require.Len(t, frames, 2, "the tenants of a queue are one towards v1")
	require.Equal(t, KindInvalidation, frames[0].Kind)
	require.Equal(t, []Wake{{Queue: "q", Partition: "p"}}, frames[1].Wakes)
}
