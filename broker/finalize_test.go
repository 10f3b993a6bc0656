package broker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg/schema"
)

// The database itself refuses a build that a floor has passed: not one of its flushes commits after finalize has returned,
// whatever was in flight, and what it answered before that is stored.
func TestNoFlushOfAnOlderBuildCommitsAfterFinalizeHasReturned(t *testing.T) {
	t.Parallel()
	const writers, rounds = 8, 60
	tb := newBundle(t, 0)
	tb.knows.System = schema.BuildKnows - 1
	tb.add(quiet)
	tb.add(quiet)
	steps := schema.Steps()
	for i := range steps {
		steps[i].RaisesFloor = steps[i].Version == schema.BuildKnows
	}
	m, err := schema.OpenMigration(t.Context(), tb.database.URL, schema.Options{Build: "9.0.0", Steps: steps})
	require.NoError(t, err)
	defer m.Close(context.Background())

	ctx, stop := context.WithCancel(t.Context())
	var queued, refused [writers]atomic.Int64
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				results := tb.brokers[w%2].Push(ctx, DefaultTenant, "", []PushItem{item("q", fmt.Sprint(w), n)})
				if results[0].Status == Queued {
					queued[w].Add(1)
				} else {
					refused[w].Add(1)
				}
			}
		})
	}
	defer group.Wait()
	defer stop()
	all := func(counts *[writers]atomic.Int64, more int64) {
		t.Helper()
		var from [writers]int64
		for w := range counts {
			from[w] = counts[w].Load()
		}
		require.Eventually(t, func() bool {
			for w := range counts {
				if counts[w].Load() < from[w]+more {
					return false
				}
			}
			return true
		}, 30*time.Second, time.Millisecond)
	}
	conn := tb.connect()
	const stored = "select coalesce(sum(count), 0) from waggle.segment"
	for range rounds {
		all(&queued, 1)
		done, err := m.Finalize(t.Context(), 0, false)
		require.NoError(t, err)
		require.Equal(t, schema.BuildKnows, done.Floor)
		before := tb.count(conn, stored)
		all(&refused, 2)
		require.Equal(t, before, tb.count(conn, stored), "something was committed below the floor")
		_, err = conn.Exec(t.Context(), "update waggle.gate set system_floor = 1")
		require.NoError(t, err)
	}
	stop()
	group.Wait()
	var acknowledged int64
	for w := range queued {
		acknowledged += queued[w].Load()
	}
	require.GreaterOrEqual(t, tb.count(conn, stored), acknowledged)
}
