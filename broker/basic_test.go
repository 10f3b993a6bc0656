package broker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"
)

const zapLevel = zapcore.WarnLevel

func TestWhatIsPushedIsPoppedInOrderAndAckedOnce(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	results := tb.push(b, "q", "p", 0, 100)
	answer := tb.pop(b, request("q"))
	require.Equal(t, numbers(0, 100), payloads(answer))
	require.Equal(t, results[0].MessageID, answer.Parts[0].Messages[0].ID)
	require.Equal(t, "txn-99", answer.Parts[0].Messages[99].TransactionID)
	require.Equal(t, 1, answer.Parts[0].Attempt)
	require.Nil(t, tb.pop(b, request("q")), "leased messages are not given twice")
	tb.ackAll(b, "", answer)
	require.Nil(t, tb.pop(b, request("q")))
	tb.push(b, "q", "p", 100, 101)
	require.Equal(t, numbers(100, 101), payloads(tb.pop(b, request("q"))))
}

func TestAnotherBrokerSeesWhatWasAcknowledgedBefore(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 3)
	for i := range 30 {
		tb.push(tb.brokers[i%3], "q", "p", i, i+1)
		answer := tb.pop(tb.brokers[(i+1)%3], request("q"))
		require.Equal(t, numbers(i, i+1), payloads(answer), "round %d", i)
		tb.ackAll(tb.brokers[(i+2)%3], "", answer)
	}
}

func TestAParkedPopIsServedByAPushInTheSameCommit(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 1)
	tb.ackAll(b, "", tb.pop(b, request("q")))
	req := request("q")
	req.Wait = true
	got := make(chan *PopAnswer, 1)
	go func() {
		answer, _ := b.Pop(t.Context(), req)
		got <- answer
	}()
	require.Eventually(t, func() bool { return b.Parked() == 1 }, 30*time.Second, time.Millisecond)
	tb.push(b, "q", "p", 1, 4)
	require.Equal(t, numbers(1, 4), payloads(<-got))
}

func TestAParkedPopOnAnotherBrokerIsServedWithoutHints(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	req := request("q")
	req.Wait = true
	got := make(chan *PopAnswer, 1)
	go func() {
		answer, _ := tb.brokers[1].Pop(t.Context(), req)
		got <- answer
	}()
	require.Eventually(t, func() bool { return tb.brokers[1].Parked() == 1 }, 30*time.Second, time.Millisecond)
	tb.push(tb.brokers[0], "q", "p", 0, 3)
	require.Equal(t, numbers(0, 3), payloads(<-got))
}

func TestEqualTransactionIDs(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 3)
	b := tb.brokers[0]

	t.Run("in one request the first wins", func(t *testing.T) {
		r := b.Push(t.Context(), DefaultTenant, "", []PushItem{item("a", "p", 1), item("a", "p", 1), item("a", "p", 1)})
		require.Equal(t, []PushStatus{Queued, Duplicate, Duplicate}, []PushStatus{r[0].Status, r[1].Status, r[2].Status})
		require.Equal(t, []uuid.UUID{r[0].MessageID, r[0].MessageID, r[0].MessageID}, ids(r))
	})
	t.Run("later pushes get the first id on every broker", func(t *testing.T) {
		first := b.Push(t.Context(), DefaultTenant, "", []PushItem{item("b", "p", 1)})
		for i, other := range tb.brokers {
			again := other.Push(t.Context(), DefaultTenant, "", []PushItem{item("b", "p", 1), item("b", "p", 100+i)})
			require.Equal(t, Duplicate, again[0].Status)
			require.Equal(t, first[0].MessageID, again[0].MessageID)
			require.Equal(t, Queued, again[1].Status)
		}
	})
	t.Run("another partition has its own", func(t *testing.T) {
		tb.push(b, "c", "p1", 1, 2)
		tb.push(b, "c", "p2", 1, 2)
	})
	t.Run("eight at once over three brokers leave one queued", func(t *testing.T) {
		for round := range 20 {
			var wg sync.WaitGroup
			all := make([]PushResult, 8)
			for i := range all {
				wg.Go(func() {
					all[i] = tb.brokers[i%3].Push(t.Context(), DefaultTenant, "", []PushItem{item("d", "p", round)})[0]
				})
			}
			wg.Wait()
			queued := 0
			for _, r := range all {
				if r.Status == Queued {
					queued++
				} else {
					require.Equal(t, Duplicate, r.Status)
				}
				require.Equal(t, all[0].MessageID, r.MessageID)
			}
			require.Equal(t, 1, queued, "round %d", round)
		}
	})
	t.Run("without ids all differ", func(t *testing.T) {
		items := make([]PushItem, 100)
		for i := range items {
			items[i] = PushItem{Queue: "e", Partition: "p", Payload: []byte("null")}
		}
		seen := map[uuid.UUID]bool{}
		for _, r := range b.Push(t.Context(), DefaultTenant, "", items) {
			require.Equal(t, Queued, r.Status)
			require.Equal(t, r.MessageID.String(), r.TransactionID)
			seen[r.MessageID] = true
		}
		require.Len(t, seen, 100)
	})
	t.Run("a message id given back as a transaction id is the same message", func(t *testing.T) {
		first := b.Push(t.Context(), DefaultTenant, "", []PushItem{{Queue: "f", Partition: "p", Payload: []byte("1")}})
		again := PushItem{Queue: "f", Partition: "p", Payload: []byte("1"), TransactionID: first[0].TransactionID, HasTransactionID: true}
		for _, other := range tb.brokers {
			r := other.Push(t.Context(), DefaultTenant, "", []PushItem{again})
			require.Equal(t, Duplicate, r[0].Status)
			require.Equal(t, first[0].MessageID, r[0].MessageID)
		}
	})
}

func TestGroups(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 3)
	with := func(group, mode, from string) PopRequest {
		req := request("q")
		req.Group, req.SubscriptionMode, req.SubscriptionFrom = group, mode, from
		return req
	}
	require.Equal(t, numbers(0, 3), payloads(tb.pop(a, with("all", "from_beginning", ""))))
	require.Equal(t, numbers(0, 3), payloads(tb.pop(b, with("all2", "earliest", ""))))
	require.Nil(t, tb.pop(a, with("new", "", "")))
	require.Nil(t, tb.pop(a, with("now", "", "now")))
	require.Nil(t, tb.pop(b, with("newonly", "new-only", "")))
	require.Equal(t, numbers(0, 3), payloads(tb.pop(b, with("old", "", "2001-01-01T00:00:00Z"))))
	tb.push(b, "q", "p", 3, 4)
	tb.push(b, "q", "later", 4, 5)
	for _, group := range []string{"new", "now", "newonly"} {
		first := payloads(tb.pop(a, with(group, "all", "")))
		second := payloads(tb.pop(b, with(group, "all", "")))
		require.ElementsMatch(t, numbers(3, 5), append(first, second...), group)
	}
	both := append(payloads(tb.pop(a, request("q"))), payloads(tb.pop(a, request("q")))...)
	require.ElementsMatch(t, numbers(0, 5), both, "queue mode sees everything")
}

func TestMultiPartitionPops(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	for i := range 6 {
		tb.push(b, "q", fmt.Sprintf("p%d", i%3), i, i+1)
	}
	req := request("q")
	req.Partitions = 3
	answer := tb.pop(b, req)
	require.Len(t, answer.Parts, 3)
	require.Len(t, payloads(answer), 6)
	extended, err := b.Extend(t.Context(), DefaultTenant, answer.Lease.String(), 120)
	require.NoError(t, err)
	require.Equal(t, 3, extended.Renewed)
	tb.ackAll(b, "", answer)

	for i := range 5 {
		for n := range 5 {
			tb.push(b, "r", fmt.Sprintf("p%d", i), 10*i+n, 10*i+n+1)
		}
	}
	req = request("r")
	req.Batch, req.Partitions = 10, 5
	require.Len(t, payloads(tb.pop(b, req)), 10, "batch caps the sum")
	require.Len(t, payloads(tb.pop(b, request("r"))), 5, "one partition unless more are asked for")
}

func TestALeaseExpires(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	tb.push(tb.brokers[0], "q", "p", 0, 2)
	req := request("q")
	req.LeaseSeconds = 1
	require.Equal(t, 1, tb.pop(tb.brokers[0], req).Parts[0].Attempt)
	require.Nil(t, tb.pop(tb.brokers[0], req))
	for i, b := range tb.brokers {
		req.Wait = true
		answer := tb.pop(b, req)
		require.Equal(t, numbers(0, 2), payloads(answer))
		require.Equal(t, i+2, answer.Parts[0].Attempt)
	}
}

func TestDelayAndQuietTime(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	for queue, option := range map[string]string{"delayed": "delayedProcessing", "quiet": "windowBuffer"} {
		_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: queue, Options: map[string]any{option: 1}})
		require.NoError(t, err)
		started := time.Now()
		tb.push(b, queue, "p", 0, 3)
		require.Nil(t, tb.pop(b, request(queue)), queue)
		req := request(queue)
		req.Wait = true
		require.Equal(t, numbers(0, 3), payloads(tb.pop(b, req)), queue)
		require.Greater(t, time.Since(started), time.Second)
		require.Less(t, time.Since(started), 5*time.Second)
	}
}

func TestNackRetryAndDeadLetter(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	_, err := a.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"retryLimit": 1}})
	require.NoError(t, err)
	tb.push(a, "q", "p", 0, 3)
	for try := range 2 {
		answer := tb.pop(a, request("q"))
		require.Equal(t, numbers(0, 3), payloads(answer))
		r := b.Ack(t.Context(), DefaultTenant, QueueMode, []AckItem{{
			TransactionID: "txn-0", PartitionID: answer.Parts[0].PartitionID.String(), Status: AckFailed,
			Lease: answer.Lease.String(), Error: "card refused",
		}})
		require.Equal(t, AckResult{Success: true, LeaseReleased: true, DLQ: try == 1}, r[0])
	}
	answer := tb.pop(b, request("q"))
	require.Equal(t, numbers(1, 3), payloads(answer))
}

func TestAPopOnAnotherBrokerFindsWhatAConfigureChanged(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(b, "q", "p", 0, 1)
	tb.ackAll(b, "", tb.pop(b, request("q")))
	_, err := a.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"delayedProcessing": 30}})
	require.NoError(t, err)
	tb.push(b, "q", "p", 1, 2)
	require.Nil(t, tb.pop(b, request("q")))
	tb.push(b, "r", "p", 0, 1)
	tb.ackAll(b, "", tb.pop(b, request("r")))
	tb.push(b, "r", "p", 1, 2)
	_, err = a.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "r", Options: map[string]any{"delayedProcessing": 30}})
	require.NoError(t, err)
	require.Nil(t, tb.pop(b, request("r")), "the very next pop")
	_, err = a.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"encryptionEnabled": true}})
	require.NoError(t, err)
	r := b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 9)})
	require.Equal(t, Failed, r[0].Status, "nothing is stored in clear")
}

func TestADeletedQueueBeginsAnew(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	for round := range 5 {
		tb.push(a, "q", "p", 0, 2)
		require.Equal(t, numbers(0, 2), payloads(tb.pop(b, request("q"))), "round %d", round)
		existed, err := a.DeleteQueue(t.Context(), DefaultTenant, "q")
		require.NoError(t, err)
		require.True(t, existed)
		require.Nil(t, tb.pop(b, request("q")))
	}
	existed, err := a.DeleteQueue(t.Context(), DefaultTenant, "nothing")
	require.NoError(t, err)
	require.False(t, existed)
}

func TestPinnedPops(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	pinned := func(partition string, wait bool) PopRequest {
		req := request("q")
		req.Pinned, req.Partition, req.Wait = true, partition, wait
		return req
	}
	require.Nil(t, tb.pop(a, pinned("x", false)), "nothing is made")
	got := make(chan *PopAnswer, 1)
	go func() {
		answer, _ := b.Pop(t.Context(), pinned("x", true))
		got <- answer
	}()
	tb.push(a, "q", "y", 0, 1)
	tb.push(a, "q", "x", 1, 2)
	require.Equal(t, numbers(1, 2), payloads(<-got))
	require.Equal(t, numbers(0, 1), payloads(tb.pop(b, pinned("y", false))))
	require.Nil(t, tb.pop(a, pinned("y", false)))
}
