package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// What one broker did is shown by all of them, under the names of the compatible broker.
func TestTotalsOfTheClusterAreShownByEachBroker(t *testing.T) {
	c := startCluster(t, pgtest.New(t).URL, 2, "WAGGLE_METRICS_FLUSH=1s")
	first, second := newClient(t, c[0].url), newClient(t, c[1].url)
	results, err := first.Push(t.Context(), []client.Item{{Queue: "q", Partition: "p"}, {Queue: "q", Partition: "p"}, {Queue: "q", Partition: "p"}})
	require.NoError(t, err)
	require.Len(t, results, 3)
	got, err := second.Pop(t.Context(), client.PopRequest{Queue: "q", AutoAck: true})
	require.NoError(t, err)
	require.Len(t, got.Messages, 3)
	for _, m := range c {
		eventually(t, "the database has been asked since", func() bool {
			return m.metric(t, `queen_cluster_push_messages_total{scope="cluster"}`) == 3 && m.metric(t, `queen_cluster_pop_messages_total{scope="cluster"}`) == 3
		})
		require.Equal(t, 1.0, m.metric(t, `queen_cluster_push_requests_total{scope="cluster"}`))
		require.Zero(t, m.metric(t, `queen_cluster_ack_total{result="failed",scope="cluster"}`))
		require.Zero(t, m.metric(t, `queen_dlq_depth{scope="cluster"}`))
	}
	require.Equal(t, 3.0, c[0].metric(t, `queen_batch_items_fired_total{op="push"}`))
	require.Zero(t, c[1].metric(t, `queen_batch_items_fired_total{op="push"}`))
}
