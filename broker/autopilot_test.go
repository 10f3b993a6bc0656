package broker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func piloted(queue string) PopRequest {
	req := request(queue)
	req.Group, req.SubscriptionMode, req.Autopilot = "g", "all", true
	req.BatchDefault, req.PartitionsDefault = true, true
	return req
}

// warm gives the group cursors in so many partitions, and leaves it nothing.
func (tb *testBundle) warm(b *Broker, queue string, partitions int) {
	for p := range partitions {
		tb.push(b, queue, fmt.Sprint(p), -1, 0)
	}
	for _, group := range []string{"g", QueueMode} {
		for got := 0; got < partitions; {
			req := piloted(queue)
			req.Group, req.Wait, req.Partitions, req.PartitionsDefault = group, true, 0, false
			answer := tb.pop(b, req)
			got += len(answer.Parts)
			tb.ackAll(b, group, answer)
		}
	}
}

func TestAutopilotTakesManySparseOrOneDensePartition(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	sparse := func(queue string, partitions int) {
		tb.warm(b, queue, partitions)
		for p := range partitions {
			tb.push(b, queue, fmt.Sprint(p), 0, 1+p%2)
		}
	}
	t.Run("one consumer gets all that is sparse, up to 64", func(t *testing.T) {
		sparse("sparse", 80)
		answer := tb.pop(b, piloted("sparse"))
		require.Equal(t, &Piloted{Partitions: 64, Batch: 200}, answer.Autopilot)
		require.Len(t, answer.Parts, 64)
		tb.ackAll(b, "g", answer)
		answer = tb.pop(b, piloted("sparse"))
		require.Len(t, answer.Parts, 16)
		tb.ackAll(b, "g", answer)
	})
	t.Run("one dense partition fills a batch", func(t *testing.T) {
		tb.pop(b, piloted("dense"))
		for p := range 4 {
			tb.push(b, "dense", fmt.Sprint(p), 0, 500)
		}
		tb.ackAll(b, "g", tb.pop(b, piloted("dense"))) // now it knows how much partitions have
		for range 3 {
			answer := tb.pop(b, piloted("dense"))
			require.Equal(t, &Piloted{Partitions: 1, Batch: 200}, answer.Autopilot)
			require.Len(t, payloads(answer), 200)
		}
	})
	t.Run("what the request names stays", func(t *testing.T) {
		sparse("named", 8)
		for _, c := range []struct{ batch, partitions, wantBatch, wantPartitions int }{{3, 0, 3, 2}, {0, 2, 200, 2}, {4, 1, 4, 1}} {
			req := piloted("named")
			if c.batch > 0 {
				req.Batch, req.BatchDefault = c.batch, false
			}
			if c.partitions > 0 {
				req.Partitions, req.PartitionsDefault = c.partitions, false
			}
			answer := tb.pop(b, req)
			require.Equal(t, c.wantBatch, answer.Autopilot.Batch, c)
			require.Equal(t, c.wantPartitions, answer.Autopilot.Partitions, c)
			require.LessOrEqual(t, len(payloads(answer)), c.wantBatch)
			require.LessOrEqual(t, len(answer.Parts), c.wantPartitions)
			for _, r := range b.Ack(t.Context(), DefaultTenant, "g", acksOf(answer, AckRetry)) {
				require.True(t, r.LeaseReleased)
			}
		}
	})
	t.Run("it has no say where it was not asked, or no group or queue is named", func(t *testing.T) {
		sparse("space.unasked", 8)
		space := "space"
		for _, change := range []func(*PopRequest){
			func(r *PopRequest) { r.Autopilot = false },
			func(r *PopRequest) { r.Group = "" },
			func(r *PopRequest) { r.Partition, r.Pinned = "0", true },
			func(r *PopRequest) { r.Queue, r.Discovery, r.Namespace = "", true, &space },
		} {
			req := piloted("space.unasked")
			change(&req)
			answer := tb.pop(b, req)
			require.NotNil(t, answer, req)
			require.Nil(t, answer.Autopilot)
			require.Len(t, answer.Parts, 1)
			b.Ack(t.Context(), DefaultTenant, answer.Group, acksOf(answer, AckRetry))
		}
	})
	t.Run("conflation keeps its own number of partitions", func(t *testing.T) {
		req := piloted("both")
		req.Conflation = said(true)
		tb.pop(b, req)
		var parts int
		for p := range 70 {
			tb.push(b, "both", fmt.Sprint(p), 0, 2)
		}
		for parts < 70 {
			answer := tb.pop(b, req)
			require.Equal(t, &Piloted{Partitions: 64, Batch: 200}, answer.Autopilot)
			parts += len(answer.Parts)
		}
	})
	t.Run("the time to fill is told", func(t *testing.T) {
		tb.configure(b, "filling", map[string]any{"minPopWaitTime": 30})
		sparse("filling", 2)
		req := piloted("filling")
		req.Wait = true
		answer := tb.pop(b, req)
		require.Equal(t, 30*time.Millisecond, answer.Autopilot.FillWait)
		require.Len(t, answer.Parts, 2)
	})
}

func TestAutopilotSharesAmongThoseWhoWait(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.warm(b, "q", 64)
	req := piloted("q")
	// Four wait for messages that appear all at once, behind the broker's back.
	req.Wait, req.Timeout = true, 10*time.Second
	var mu sync.Mutex
	var widths []int
	var consumers sync.WaitGroup
	for range 4 {
		consumers.Go(func() {
			answer, err := b.Pop(t.Context(), req)
			if err == nil && answer != nil {
				mu.Lock()
				widths = append(widths, len(answer.Parts))
				mu.Unlock()
			}
		})
	}
	require.Eventually(t, func() bool { return b.Parked() == 4 }, 30*time.Second, time.Millisecond)
	other := tb.add()
	var items []PushItem
	for p := range 64 {
		items = append(items, item("q", fmt.Sprint(p), 0))
	}
	for _, r := range other.Push(t.Context(), DefaultTenant, "", items) {
		require.Equal(t, Queued, r.Status)
	}
	consumers.Wait()
	require.Len(t, widths, 4, "nobody went without")
	sum := 0
	for _, width := range widths {
		require.LessOrEqual(t, width, 24)
		sum += width
	}
	require.GreaterOrEqual(t, sum, 32)
}

func TestAutopilotModes(t *testing.T) {
	t.Parallel()
	for mode, chooses := range map[AutopilotMode]bool{AutopilotOff: false, AutopilotShadow: true} {
		tb := newBundle(t, 1, func(c *Config) { c.Autopilot = mode })
		b := tb.brokers[0]
		tb.warm(b, "q", 3)
		for p := range 3 {
			tb.push(b, "q", fmt.Sprint(p), 0, 1)
		}
		answer := tb.pop(b, piloted("q"))
		require.Nil(t, answer.Autopilot)
		require.Len(t, answer.Parts, 1, "the defaults apply")
		require.Equal(t, chooses, testutil.ToFloat64(b.metrics.pilots.WithLabelValues("shadow")) > 0)
		require.Zero(t, testutil.ToFloat64(b.metrics.pilots.WithLabelValues("on")))
	}
}
