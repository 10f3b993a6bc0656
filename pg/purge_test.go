package pg_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPurge(t *testing.T) {
	t.Parallel()
	const partitions, segments = 30, 40

	setUp := func(t *testing.T) *reignBundle {
		b := newReign(t)
		b.exec(`insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
			select p, n * 10, clock_timestamp(), 10, 1, '\x00', '\x01' from generate_series(1, $1) p, generate_series(0, $2) n`,
			partitions+1, segments-1)
		b.exec("insert into waggle.log_start select p, 10 from generate_series(1, $1) p", partitions+1)
		b.exec("insert into waggle.purge (partition_id) select p from generate_series(1, $1) p", partitions)
		return b
	}
	purged := func(t *testing.T, b *reignBundle) {
		require.Zero(t, b.count("from waggle.purge"))
		require.Equal(t, segments, b.count("from waggle.segment"), "the partition that was not deleted keeps its segments")
		require.Equal(t, 1, b.count("from waggle.log_start"))
	}

	t.Run("removes deleted partitions in bounded batches", func(t *testing.T) {
		t.Parallel()
		b := setUp(t)
		var total int64
		batches := 0
		for more := true; more; batches++ {
			rows, again, err := b.fenced.Purge(b.ctx)
			require.NoError(t, err)
			total, more = total+rows, again
		}
		require.EqualValues(t, partitions*segments+partitions, total)
		require.Greater(t, batches, partitions*segments/250)
		purged(t, b)
	})

	t.Run("may run twice at once", func(t *testing.T) {
		t.Parallel()
		b := setUp(t)
		var group sync.WaitGroup
		var mu sync.Mutex
		var total int64
		for range 3 {
			group.Go(func() {
				for range 20 {
					rows, _, err := b.fenced.Purge(b.ctx)
					if err != nil {
						t.Errorf("purge: %v", err)
					}
					mu.Lock()
					total += rows
					mu.Unlock()
				}
			})
		}
		group.Wait()
		require.EqualValues(t, partitions*segments+partitions, total)
		purged(t, b)
	})
}
