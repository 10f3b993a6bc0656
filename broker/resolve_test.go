package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/broker/segment"
	"waggle/broker/wireid"
	"waggle/pg"
)

// fakeLog is an idReader over segments in memory.
type fakeLog struct{ segments []pg.Segment }

func (f *fakeLog) IDsAfter(_ context.Context, _, low int64, limit int) ([]pg.Segment, error) {
	var out []pg.Segment
	for _, s := range f.segments {
		if s.Base+int64(s.Count) > low+1 && len(out) < limit {
			out = append(out, s)
		}
	}
	return out, nil
}

func (f *fakeLog) FindIDs(_ context.Context, queries []pg.IDQuery, _ time.Duration) ([]pg.Found, error) {
	var out []pg.Found
	for i, q := range queries {
		for _, s := range slices.Backward(f.segments) {
			found := -1
			for k := range s.Count {
				at := s.Base + int64(k)
				if at >= q.Low && at <= q.High && found < 0 && string(s.IDs[k*segment.HashSize:(k+1)*segment.HashSize]) == string(q.Hash) {
					found = k
				}
			}
			if found >= 0 {
				out = append(out, pg.Found{Query: i, Offset: s.Base + int64(found)})
				break
			}
		}
	}
	return out, nil
}

// The k-th occurrence of an id in a set is its k-th lowest offset, through memory and through the log alike.
func TestResolvingIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stamp := time.UnixMilli(1_700_000_000_000)
		log, names := &fakeLog{}, []string{}
		for range rapid.IntRange(1, 6).Draw(t, "segments") {
			s := pg.Segment{Base: int64(len(names)), CreatedAt: stamp, Count: rapid.IntRange(1, 5).Draw(t, "count")}
			for range s.Count {
				var h segment.Hash
				name := ""
				if rapid.IntRange(0, 3).Draw(t, "named") > 0 {
					// Few names: with de-duplication off they occur again.
					name = fmt.Sprint("t", rapid.IntRange(0, 6).Draw(t, "name"))
					h = segment.HashOf(name)
				} else {
					id, err := wireid.Message(stamp, int64(len(names)), 9)
					require.NoError(t, err)
					name = id.String()
				}
				names, s.IDs = append(names, name), append(s.IDs, h[:]...)
			}
			log.segments = append(log.segments, s)
		}
		committed := rapid.Int64Range(-1, int64(len(names)-1)).Draw(t, "committed")
		end := rapid.Int64Range(committed, int64(len(names)-1)).Draw(t, "end")
		set := &ackSet{partition: &partition{id: 9}, queue: &queue{options: defaultOptions}}
		items := []AckItem{}
		for i := range rapid.IntRange(1, 12).Draw(t, "acks") {
			items = append(items, AckItem{TransactionID: rapid.SampledFrom(append([]string{"no such id"}, names...)).Draw(t, "id")})
			set.indexes = append(set.indexes, i)
		}
		want := make([]int64, len(items))
		seen := map[string]int{}
		for i, item := range items {
			var at []int64
			for offset := committed + 1; offset <= end; offset++ {
				if names[offset] == item.TransactionID {
					at = append(at, offset)
				}
			}
			want[i] = -1
			if len(at) > 0 {
				want[i] = at[min(seen[item.TransactionID], len(at)-1)]
			}
			seen[item.TransactionID]++
		}
		window := spansOf(log.segments)
		require.Equal(t, want, window.resolve(set, items, committed, end))

		list, err := resolveInLog(t.Context(), log, set, items, cursorState{committed: committed, batchEnd: end, live: end > committed})
		require.NoError(t, err)
		if end == committed {
			return // without a lease there is no upper bound
		}
		for i := range items {
			if want[i] >= 0 {
				require.Equal(t, want[i], list[i].offset)
			} else if list[i].offset >= 0 {
				require.LessOrEqual(t, list[i].offset, committed)
				require.Equal(t, items[i].TransactionID, names[list[i].offset])
			} else {
				require.NotContains(t, names[:committed+1], items[i].TransactionID)
			}
		}
	})
}
