package node_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// Cursors that one broker moves are seen by a pop parked on another at once, because the first one says so.
func TestASeekWakesAPopParkedOnAnotherBroker(t *testing.T) {
	c := startCluster(t, pgtest.New(t).URL, 2)
	c.awaitMesh(t)
	consumer := newClient(t, c[1].url)
	_, err := consumer.Push(t.Context(), []client.Item{{Queue: "jobs", Partition: "p"}})
	require.NoError(t, err)
	request := client.PopRequest{Queue: "jobs", Group: "ledger", Mode: "all", Wait: true, AutoAck: true}
	_, err = consumer.Pop(t.Context(), request)
	require.NoError(t, err)
	var took []time.Duration
	for range 5 {
		done := popBeside(t, consumer, request)
		c[1].awaitParked(t, 1)
		began := time.Now()
		got := call(t, http.MethodPost, c[0].url+"/api/v1/consumer-groups/ledger/queues/jobs/seek", `{"timestamp":"2001-02-03"}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		answer := <-done
		require.NoError(t, answer.err)
		require.Len(t, answer.answer.Messages, 1)
		took = append(took, answer.at.Sub(began))
	}
	slices.Sort(took)
	t.Logf("from seek to answer: median %v, worst %v", took[2], took[4])
	require.Less(t, took[2], 300*time.Millisecond, "median from seek to answer")
}
