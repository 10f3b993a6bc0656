package broker

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/broker/segment"
)

// naiveLog knows every record for ever.
type naiveLog struct {
	head    int64
	records map[segment.Hash][]place
}

func (n *naiveLog) add(micros int64, ids []byte) {
	for i := 0; i < len(ids); i += segment.HashSize {
		h := segment.Hash(ids[i:])
		n.records[h] = append(n.records[h], place{offset: n.head, micros: micros})
		n.head++
	}
}

// A window may say "here" or "surely not" only where that is so; otherwise the range it names holds the record.
func TestAWindowOnlyNarrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := &naiveLog{records: map[segment.Hash][]place{}}
		id := func(i int) segment.Hash { return segment.HashOf(fmt.Sprint(i)) }
		now, next := int64(1000), 0
		appendSome := func(count int, named bool) (base int64, ids []byte) {
			base = n.head
			for range count {
				h := segment.Hash{}
				if named {
					h = id(next)
					next++
				}
				ids = append(ids, h[:]...)
			}
			now += int64(rapid.IntRange(0, 50).Draw(t, "later"))
			n.add(now, ids)
			return base, ids
		}
		for range rapid.IntRange(0, 3).Draw(t, "before") {
			appendSome(rapid.IntRange(1, 500).Draw(t, "count"), true)
		}
		w := newWindow(n.head) // knows nothing of what came before
		expired := int64(math.MinInt64)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				expired = max(expired, now-int64(rapid.IntRange(0, 300).Draw(t, "age")))
				w.expire(expired)
			case 1:
				w.seal(rapid.IntRange(0, 2000).Draw(t, "keep"))
			case 2: // another broker's append, of which nobody told
				if rapid.IntRange(0, 5).Draw(t, "gap") == 0 {
					appendSome(rapid.IntRange(1, 300).Draw(t, "count"), true)
				}
			default:
				base, ids := appendSome(rapid.IntRange(1, 1000).Draw(t, "count"), rapid.IntRange(0, 3).Draw(t, "named") > 0)
				w.add(base, now, ids)
			}
			require.GreaterOrEqual(t, w.entries, 0)
		}
		if w.head != n.head {
			return // it would be told by the append
		}
		for range 50 {
			h := id(rapid.IntRange(0, next+20).Draw(t, "id"))
			since := int64(0)
			if rapid.Bool().Draw(t, "since") {
				since = rapid.Int64Range(0, n.head).Draw(t, "from")
			}
			at, exact, low, high := w.find(h, since)
			if exact {
				require.Contains(t, n.records[h], at)
				continue
			}
			for _, where := range n.records[h] {
				if where.offset >= since && where.micros >= expired {
					require.True(t, low <= where.offset && where.offset <= high, "%+v is not in [%d, %d]", where, low, high)
				}
			}
		}
	})
}

func TestAWindowForgetsWhatGrewOld(t *testing.T) {
	t.Parallel()
	w := newWindow(0)
	for i := range 100 {
		ids := make([]byte, 0, 1000*segment.HashSize)
		for k := range 1000 {
			h := segment.HashOf(fmt.Sprint(i, "/", k))
			ids = append(ids, h[:]...)
		}
		w.add(int64(i)*1000, int64(i), ids)
	}
	require.LessOrEqual(t, w.entries, maxExact)
	require.Less(t, w.bytes(), 100*1000*20, "old ids cost less than half of what they are")
	asked := 0
	for k := range 10000 {
		if _, exact, low, high := w.find(segment.HashOf(fmt.Sprint("other", k)), 0); !exact && low <= high {
			asked++
		}
	}
	require.Less(t, asked, 50, "a new id is seldom looked for")
	w.expire(1000)
	require.Equal(t, windowCost, w.bytes())
}

func TestFiltersSeldomCallForALook(t *testing.T) {
	t.Parallel()
	f := newFilter(1 << 16)
	for i := range 1 << 16 {
		f.put(segment.HashOf(fmt.Sprint("in", i)))
	}
	for i := range 1 << 16 {
		require.True(t, f.has(segment.HashOf(fmt.Sprint("in", i))))
	}
	wrong := 0
	for i := range 1 << 20 {
		if f.has(segment.HashOf(fmt.Sprint("out", i))) {
			wrong++
		}
	}
	require.Less(t, wrong, 100, "of a million")
}
