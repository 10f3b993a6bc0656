package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBatchingCountsWhatSharesFlushes(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.configure(b, "q", map[string]any{"minPopWaitTime": 30})
	tb.push(b, "q", "p", 0, 3)
	pinned := request("q")
	pinned.Partition, pinned.Pinned, pinned.Batch = "p", true, 1
	first := tb.pop(b, pinned)
	require.Len(t, payloads(first), 1)
	tb.ackAll(b, "", first)
	patient := request("q")
	patient.Batch, patient.Wait, patient.Timeout = 10, true, 5*time.Second
	require.Len(t, payloads(tb.pop(b, patient)), 2)

	got := b.Batching()
	require.Equal(t, BatchedOp{Op: "push", Batches: 1, Items: 3}, got.Ops[0])
	require.Equal(t, "pop", got.Ops[1].Op)
	require.GreaterOrEqual(t, got.Ops[1].Items, int64(2))
	require.LessOrEqual(t, got.Ops[1].Batches, got.Flushes)
	require.Equal(t, BatchedOp{Op: "ack", Batches: 1, Items: 1}, got.Ops[2])
	require.Equal(t, int64(1), got.Targeted)
	require.Equal(t, int64(1), got.Wildcard)
	require.Equal(t, int64(1), got.FillWaits)
	require.GreaterOrEqual(t, got.FillWait, 30*time.Millisecond)
	require.Positive(t, got.FlushTime)
	require.Zero(t, got.InFlight)
	require.Zero(t, got.Waiting)
	require.Equal(t, int64(len(b.lanes)), got.Lanes)
}
