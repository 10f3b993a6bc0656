package node_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// popped is the end of a pop that ran beside the test.
type popped struct {
	answer *client.PopAnswer
	at     time.Time
	err    error
}

func popBeside(t testing.TB, c *client.Client, request client.PopRequest) <-chan popped {
	t.Helper()
	done := make(chan popped, 1)
	go func() {
		got, err := c.Pop(t.Context(), request)
		done <- popped{got, time.Now(), err}
	}()
	return done
}

// A pop parked on one broker answers a push to another at once, because the push's broker says so.
func TestAPushWakesAPopParkedOnAnotherBroker(t *testing.T) {
	c := startCluster(t, pgtest.New(t).URL, 3)
	c.awaitMesh(t)
	c.awaitInterest(t)
	producer, consumer := newClient(t, c[0].url), newClient(t, c[2].url)
	const rounds = 20
	var took []time.Duration
	var frames float64
	for n := range 1 + rounds { // the first tells the others that broker 3 is interested
		if n == 1 {
			took, frames = nil, c[2].metric(t, `waggle_mesh_frames_in_total{kind="wake",version="2"}`)
		}
		done := popBeside(t, consumer, client.PopRequest{Queue: "jobs", Wait: true, AutoAck: true})
		c[2].awaitParked(t, 1)
		payload := json.RawMessage(fmt.Sprintf(`{"n":%d,"text":"in one piece"}`, n))
		began := time.Now()
		results, err := producer.Push(t.Context(), []client.Item{{Queue: "jobs", Partition: "p", Payload: payload}})
		require.NoError(t, err)
		require.Equal(t, client.Queued, results[0].Status)
		got := <-done
		require.NoError(t, got.err)
		require.Len(t, got.answer.Messages, 1)
		require.Equal(t, string(payload), string(got.answer.Messages[0].Data))
		took = append(took, got.at.Sub(began))
	}
	slices.Sort(took)
	t.Logf("from push to answer: median %v, worst %v", took[rounds/2], took[rounds-1])
	require.Less(t, took[rounds/2], 50*time.Millisecond, "median from push to answer")
	require.GreaterOrEqual(t, c[2].metric(t, `waggle_mesh_frames_in_total{kind="wake",version="2"}`)-frames, float64(rounds),
		"each push came with a frame")
	require.Zero(t, c[1].metric(t, `waggle_mesh_frames_in_total{kind="wake",version="2"}`), "broker 2 is not interested")
	require.GreaterOrEqual(t, c[2].metric(t, `waggle_broker_wakes_total{scope="partition"}`)+
		c[2].metric(t, `waggle_broker_wakes_total{scope="queue"}`), float64(rounds), "each frame concerned the parked pop")
}

// A batch that is acknowledged through another broker lets what comes behind it go at once.
func TestAnAckThroughAnotherBrokerWakesAParkedPop(t *testing.T) {
	c := startCluster(t, pgtest.New(t).URL, 3)
	c.awaitMesh(t)
	var took []time.Duration
	for range 5 {
		took = append(took, ackElsewhere(t, c))
	}
	slices.Sort(took)
	t.Logf("from ack to answer: median %v, worst %v", took[2], took[4])
	require.Less(t, took[2], 50*time.Millisecond, "median from ack to answer")
}

// ackElsewhere measures how long a pop on broker 3 waits for the rest of a partition after broker 1 was given the ack
// that frees it.
func ackElsewhere(t *testing.T, c cluster) time.Duration {
	t.Helper()
	producer, consumer := newClient(t, c[1].url), newClient(t, c[2].url)
	queue := "freed-" + rand.Text()[:8]
	_, err := producer.Push(t.Context(), []client.Item{{Queue: queue}, {Queue: queue}})
	require.NoError(t, err)
	request := client.PopRequest{Queue: queue, Batch: 1, Wait: true}
	first, err := consumer.Pop(t.Context(), request)
	require.NoError(t, err)
	require.Len(t, first.Messages, 1)
	done := popBeside(t, consumer, request)
	c[2].awaitParked(t, 1)
	began := time.Now()
	results, err := newClient(t, c[0].url).AckBatch(t.Context(), "", first.Completed())
	require.NoError(t, err)
	require.True(t, results[0].Success && results[0].LeaseReleased, "%+v", results)
	second := <-done
	require.NoError(t, second.err)
	require.Len(t, second.answer.Messages, 1)
	return second.at.Sub(began)
}
