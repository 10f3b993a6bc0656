package pg_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/pg"
)

// Both ways to find the segments of a time agree with a look at all of them, whatever the size of the pages.
func TestMessageSegmentsArePagedNewestFirst(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	tenant := uuid.New()
	var queue int64
	b.queryRow(`insert into waggle.queue (tenant, name) values ($1, 'q') returning id`, []any{&queue}, tenant)
	partitions := make([]int64, 3)
	for i := range partitions {
		b.queryRow(`insert into waggle.partition (queue_id, name) values ($1, $2) returning id`, []any{&partitions[i]}, queue, string(rune('a'+i)))
	}
	rapid.Check(t, func(r *rapid.T) {
		b.exec("delete from waggle.segment")
		b.exec("delete from waggle.log_start")
		var all []pg.SegmentRef
		for _, partition := range partitions {
			base, second := rapid.Int64Range(0, 100).Draw(r, "base"), int64(10)
			emptied := rapid.IntRange(0, 3).Draw(r, "emptied")
			for i := range rapid.IntRange(0, 8).Draw(r, "segments") {
				count := rapid.IntRange(1, 20).Draw(r, "count")
				second += rapid.Int64Range(0, 2).Draw(r, "later")
				var body []byte
				if i >= emptied {
					body = []byte("12345")
					all = append(all, pg.SegmentRef{Partition: partition, Base: base, Count: count, CreatedAt: time.Unix(second, 0), Bytes: 5})
				}
				b.exec(`insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
					values ($1, $2, to_timestamp($3), $4, 1, '', $5)`, partition, base, second, count, body)
				base += int64(count)
				if body == nil {
					b.exec(`insert into waggle.log_start values ($1, $2) on conflict (partition_id) do update set live_offset = $2`, partition, base)
				}
			}
		}
		from := rapid.Int64Range(8, 30).Draw(r, "from")
		before := rapid.Int64Range(from, 32).Draw(r, "before")
		want := []pg.SegmentRef{}
		for _, s := range all {
			if s.CreatedAt.Unix() >= from && s.CreatedAt.Unix() < before {
				want = append(want, s)
			}
		}
		slices.SortFunc(want, func(x, y pg.SegmentRef) int {
			return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(y.Partition, x.Partition), cmp.Compare(y.Base, x.Base))
		})
		limit := rapid.IntRange(1, 5).Draw(r, "limit")
		for _, few := range [][]int64{partitions, nil} {
			window := pg.SegmentWindow{
				Filter: pg.MessageFilter{Tenant: tenant}, Partitions: few, From: time.Unix(from, 0), Before: time.Unix(before, 0), Limit: limit,
			}
			got := []pg.SegmentRef{}
			for {
				page, err := b.db.MessageSegments(b.ctx, window)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				for _, s := range page {
					s.CreatedAt = s.CreatedAt.Local()
					got = append(got, s)
				}
				if len(page) < limit {
					break
				}
				window.After = &page[len(page)-1]
			}
			require.Equal(t, want, got, "few %v", few)
		}
	})
}
