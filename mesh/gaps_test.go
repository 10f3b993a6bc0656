package mesh

import (
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func number(stream, count uint32) Number { return firstNumber(stream) + Number(count) }

func TestGaps(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	type step struct {
		count  uint32
		after  time.Duration
		stream uint32 // 0 means 1
		want   seen
	}
	opened := seen{opened: true}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"in order", []step{{count: 1, want: opened}, {count: 2}, {count: 3}}},
		{"newest first is no gap", []step{{count: 4, want: opened}, {count: 3}, {count: 2}, {count: 1}, {count: 5, after: time.Second}}},
		{"a number missing for 200 ms", []step{{count: 1, want: opened}, {count: 3}, {count: 4, after: gapTime, want: seen{gap: true}}, {count: 5}}},
		{"a late number closes its gap", []step{{count: 1, want: opened}, {count: 3}, {count: 2, after: gapTime - 1}, {count: 4, after: time.Second}}},
		{"the first numbers missing", []step{{count: 3, want: opened}, {count: 4, after: gapTime, want: seen{gap: true}}}},
		{"a leap is a gap at once", []step{{count: 1, want: opened}, {count: 500, want: seen{gap: true}}, {count: 501}}},
		{"a number twice", []step{
			{count: 1, want: opened},
			{count: 1, want: seen{replayed: true}},
			{count: 3},
			{count: 2},
			{count: 2, want: seen{replayed: true}},
			{count: 3, want: seen{replayed: true}},
		}},
		{"a number that was given up may still come, once", []step{
			{count: 1, want: opened},
			{count: 3},
			{count: 4, after: gapTime, want: seen{gap: true}},
			{count: 2},
			{count: 2, want: seen{replayed: true}},
		}},
		{"a number from long ago", []step{
			{count: 1, want: opened},
			{count: seenNumbers, want: seen{gap: true}},
			{count: 1, want: seen{replayed: true}},
			{count: seenNumbers + 1},
			{count: 1, want: seen{stale: true}},
			{count: 2},
		}},
		{"a leap forgets what came before it", []step{
			{count: 5, want: opened},
			{count: 5 + seenNumbers, want: seen{gap: true}},
			{count: 5, want: seen{stale: true}},
			{count: 6},
		}},
		{"a new stream begins anew", []step{{count: 90, want: seen{opened: true}}, {stream: 2, count: 1, want: opened}, {stream: 2, count: 2, after: time.Second}}},
		{"an old stream is over", []step{{stream: 2, count: 1, want: opened}, {stream: 1, count: 9, want: seen{stale: true}}, {stream: 2, count: 2}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var g gaps
			now := start
			for i, s := range test.steps {
				now = now.Add(s.after)
				require.Equal(t, s.want, g.observe(number(max(s.stream, 1), s.count), now), "step %d", i)
			}
		})
	}
}

func TestAGapIsNoticedAfter256LaterNumbers(t *testing.T) {
	t.Parallel()
	var g gaps
	now := time.Unix(1000, 0)
	g.observe(number(1, 1), now)
	for n := uint32(3); n < 2+gapNumbers; n++ {
		require.False(t, g.observe(number(1, n), now).gap, "number %d", n)
	}
	require.True(t, g.observe(number(1, 2+gapNumbers), now).gap)
	_, due := g.due()
	require.False(t, due)
}

func TestDisorderWithinBoundsIsNeverAGapAndLossAlwaysIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(2, 2000).Draw(t, "numbers")
		burst := rapid.IntRange(1, 100).Draw(t, "burst")
		lost := uint32(0)
		if rapid.Bool().Draw(t, "lose one") {
			lost = uint32(rapid.IntRange(1, total-1).Draw(t, "lost"))
		}
		random := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		order := make([]uint32, total)
		for i := range order {
			order[i] = uint32(i + 1)
		}
		for from := 0; from < total; from += burst {
			part := order[from:min(from+burst, total)]
			random.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		}
		var g gaps
		now, gap := time.Unix(1000, 0), false
		for i, n := range order {
			if i%burst == 0 {
				now = now.Add(10 * time.Millisecond)
			}
			if n != lost {
				gap = g.observe(number(1, n), now).gap || gap
			}
		}
		gap = g.observe(number(1, uint32(total+1)), now).gap || gap
		gap = g.expire(now.Add(gapTime)) || gap
		require.Equal(t, lost != 0, gap)
		require.Empty(t, g.missing)
	})
}
