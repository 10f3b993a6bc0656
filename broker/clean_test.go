package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

// reign lets a broker lead, as far as jobs can tell.
func (tb *testBundle) reign(b *Broker) *pg.Fenced {
	tb.t.Helper()
	reign := pg.Reign{StartID: uuid.New()}
	require.NoError(tb.t, b.db.Pool().QueryRow(tb.t.Context(), `update waggle.leader set epoch = epoch + 1, start_id = $1, name = 'test', since = clock_timestamp()
		returning epoch, left(pg_walfile_name(pg_current_wal_lsn()), 8)`, reign.StartID).Scan(&reign.Epoch, &reign.Timeline))
	return b.db.Fenced(reign)
}

// Partitions that fall idle are taken away while two brokers push to them and pop from them: nothing is lost, doubled or out of
// order, and a partition that is pushed to again is simply there again.
func TestTakingIdlePartitionsAwayLosesNothing(t *testing.T) {
	t.Parallel()
	const partitions, rounds = 4, 25
	tb := newBundle(t, 2, quiet)
	fenced := tb.reign(tb.brokers[0])

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var cleaning, working sync.WaitGroup
	var taken int64
	cleaning.Go(func() {
		retention, clean := fenced.Retention(), fenced.Partitions()
		for ctx.Err() == nil {
			if _, err := retention.Run(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("retention: %v", err)
			}
			rows, _, err := clean.Clean(ctx, time.Millisecond)
			if err != nil && ctx.Err() == nil {
				t.Errorf("clean: %v", err)
			}
			taken += rows
			if _, _, err := fenced.Purge(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("purge: %v", err)
			}
		}
	})
	for p := range partitions {
		tb.configure(tb.brokers[0], fmt.Sprint("p", p), map[string]any{"retentionEnabled": true, "completedRetentionSeconds": 1})
		working.Go(func() {
			name := fmt.Sprint("p", p)
			pusher, popper := tb.brokers[p%2], tb.brokers[(p+1)%2]
			req := fromStart(name, "g")
			req.Wait, req.Timeout = true, 10*time.Second
			for n := range rounds {
				results := pusher.Push(t.Context(), DefaultTenant, "", []PushItem{item(name, "p", n)})
				if results[0].Status != Queued {
					t.Errorf("%s: push %d: %+v", name, n, results[0])
					return
				}
				answer, err := popper.Pop(t.Context(), req)
				if err != nil || answer == nil {
					t.Errorf("%s: message %d did not come: %v", name, n, err)
					return
				}
				if got := payloads(answer); len(got) != 1 || got[0] != fmt.Sprintf(`{"n":%d}`, n) {
					t.Errorf("%s: got %v instead of message %d", name, got, n)
					return
				}
				for _, r := range popper.Ack(t.Context(), DefaultTenant, "g", acksOf(answer, AckCompleted)) {
					if !r.Success {
						t.Errorf("%s: ack %d: %+v", name, n, r)
					}
				}
				if n%5 == 4 { // retention takes a second
					time.Sleep(1200 * time.Millisecond)
				}
			}
		})
	}
	working.Wait()
	stop()
	cleaning.Wait()
	t.Logf("%d times a partition was taken away", taken)
	require.Greater(t, taken, int64(partitions))
}
