package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestContract11Acks(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	// Every case through the broker that gave the lease, and through one that did not.
	for i := range 2 {
		a, b := tb.brokers[0], tb.brokers[i]
		t.Run([]string{"where the lease was given", "elsewhere"}[i], func(t *testing.T) {
			queue := fmt.Sprint("q", i)
			begin := func(from, to int) (*PopAnswer, []AckItem) {
				tb.push(a, queue, "p", from, to)
				answer := tb.pop(a, request(queue))
				require.NotNil(t, answer)
				return answer, acksOf(answer, AckCompleted)
			}
			ack := func(items ...AckItem) []AckResult { return b.Ack(t.Context(), DefaultTenant, QueueMode, items) }
			ok, released := AckResult{Success: true}, AckResult{Success: true, LeaseReleased: true}

			_, acks := begin(0, 5)
			require.Equal(t, []AckResult{ok}, ack(acks[2]), "out of order, completes those below")
			require.Equal(t, []AckResult{{Success: true, Noop: true}}, ack(acks[1]))
			below := acks[1]
			below.Status = AckFailed
			require.Equal(t, []AckResult{{Error: errBelow}}, ack(below))
			unknown := acks[3]
			unknown.TransactionID = "never pushed"
			require.Equal(t, []AckResult{{Error: errUnresolvable}}, ack(unknown))
			require.Equal(t, []AckResult{{Success: true, Noop: true, LeaseReleased: true}, released}, ack(acks[0], acks[4]))
			require.Equal(t, []AckResult{{Error: errLease}}, ack(acks[4]), "a lease that has ended is stale")

			_, acks = begin(10, 14)
			nack := acks[1]
			nack.Status = AckFailed
			require.Equal(t, []AckResult{released, released, released}, ack(acks[3], nack, acks[0]))
			answer := tb.pop(a, request(queue))
			require.Equal(t, numbers(11, 14), payloads(answer), "in order from the nack on")
			require.Equal(t, 2, answer.Parts[0].Attempt, "it was handed out before, behind another")
			acks = acksOf(answer, AckRetry)
			require.True(t, ack(acks[0])[0].LeaseReleased)
			answer = tb.pop(a, request(queue))
			require.Equal(t, 3, answer.Parts[0].Attempt)
			acks = acksOf(answer, AckCompleted)

			for k := range acks {
				acks[k].Lease = ""
			}
			require.Equal(t, []AckResult{ok}, ack(acks[0]), "without a lease, under one")
			require.Equal(t, []AckResult{released}, ack(acks[2]), "and to its end")
			require.Equal(t, []AckResult{{Success: true, Noop: true}}, ack(acks[2]))

			tb.push(a, queue, "p", 20, 23)
			free := acks[0]
			free.TransactionID = "txn-21"
			require.Equal(t, []AckResult{ok}, ack(free), "without a lease at all")
			free.TransactionID, free.Status = "txn-22", AckDLQ
			require.Equal(t, []AckResult{ok}, ack(free), "a signal then has no effect")
			answer = tb.pop(a, request(queue))
			require.Equal(t, numbers(22, 23), payloads(answer))

			_, acks = answer, acksOf(answer, AckCompleted)
			foreign := acks[0]
			foreign.PartitionID = uuid.NewString()
			require.Equal(t, []AckResult{{Error: errNotOwned}, released}, ack(foreign, acks[0]), "sets are independent")
			foreign.PartitionID = "not a uuid"
			require.Contains(t, ack(foreign)[0].Error, "invalid input syntax")
			require.Equal(t, errNotOwned, b.Ack(t.Context(), uuid.New(), QueueMode, acks[:1])[0].Error)
			require.Equal(t, errNoConsumer, b.Ack(t.Context(), DefaultTenant, "no such group", acks[:1])[0].Error)
			badLease := acks[0]
			badLease.Lease = "nonsense"
			require.Equal(t, errLease, ack(badLease)[0].Error)
		})
	}
}

// A broker that remembers a lease which has ended meanwhile does not let it move a cursor that another one holds.
func TestAnExpiredLeaseAcksNothing(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 3)
	req := request("q")
	req.LeaseSeconds = 1
	old := tb.pop(a, req)
	req.Wait, req.LeaseSeconds = true, 60
	held := tb.pop(b, req)
	require.Equal(t, 2, held.Parts[0].Attempt)
	for _, status := range []AckStatus{AckCompleted, AckFailed} {
		for _, broker := range tb.brokers {
			require.Equal(t, AckResult{Error: errLease}, broker.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(old, status)[:1])[0])
		}
	}
	tb.ackAll(a, "", held)
}

func TestMintedIDsAreAcked(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	for i, lease := range []bool{true, false, true, false} {
		var items []PushItem
		for range 50 {
			items = append(items, PushItem{Queue: "q", Partition: "p", Payload: []byte("1")})
		}
		tb.brokers[0].Push(t.Context(), DefaultTenant, "", items)
		answer := tb.pop(tb.brokers[0], request("q"))
		acks := acksOf(answer, AckCompleted)
		if !lease {
			for k := range acks {
				acks[k].Lease = ""
			}
		}
		for k, r := range tb.brokers[i/2].Ack(t.Context(), DefaultTenant, QueueMode, acks) {
			require.Equal(t, AckResult{Success: true, LeaseReleased: true}, r, "%d", k)
		}
	}
	require.Nil(t, tb.pop(tb.brokers[1], request("q")))
}

// With de-duplication off an id may occur again: the k-th ack of it means its k-th place.
func TestRepeatedIDsAreAckedInOrder(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	_, err := tb.brokers[0].Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"dedupWindowSeconds": 0}})
	require.NoError(t, err)
	for i := range 2 {
		for _, n := range []int{1, 2, 1, 3, 1} {
			tb.push(tb.brokers[0], "q", "p", n, n+1)
		}
		answer := tb.pop(tb.brokers[0], request("q"))
		acks := acksOf(answer, AckCompleted)
		one := acks[0]
		b := tb.brokers[i]
		require.Equal(t, AckResult{Success: true}, b.Ack(t.Context(), DefaultTenant, QueueMode, []AckItem{one})[0])
		require.Equal(t, AckResult{Success: true}, b.Ack(t.Context(), DefaultTenant, QueueMode, []AckItem{one})[0], "the next place")
		require.Equal(t, AckResult{Success: true, LeaseReleased: true}, b.Ack(t.Context(), DefaultTenant, QueueMode, []AckItem{one})[0], "the last place")
	}
}

func TestAGoneClientGivesBackWithoutCharge(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 3)
	answer := tb.pop(b, request("q"))
	b.GiveBack(answer)
	req := request("q")
	req.Wait = true
	again := tb.pop(tb.brokers[1], req)
	require.Equal(t, numbers(0, 3), payloads(again))
	require.Equal(t, 1, again.Parts[0].Attempt)
	tb.ackAll(b, "", again)

	t.Run("whenever it goes", func(t *testing.T) {
		for i := range 30 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if answer, err := b.Pop(ctx, req); err == nil && answer != nil {
					b.GiveBack(answer) // as the HTTP side does when the client is gone
				}
			}()
			tb.push(b, "q", "p", 10+i, 11+i)
			time.Sleep(time.Duration(i%6) * 200 * time.Microsecond)
			cancel()
			<-done
			answer := tb.pop(b, req)
			require.Equal(t, numbers(10+i, 11+i), payloads(answer))
			require.Equal(t, 1, answer.Parts[0].Attempt)
			tb.ackAll(b, "", answer)
		}
	})
}

func TestAutoAckGivesEachMessageOnce(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	seen := sync.Map{}
	tb.push(tb.brokers[0], "q", "p0", 0, 100)
	tb.push(tb.brokers[0], "q", "p1", 100, 200)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for {
				req := request("q")
				req.AutoAck, req.Batch, req.Partitions = true, 7, 2
				answer := tb.pop(tb.brokers[i%2], req)
				if answer == nil {
					return
				}
				require.Equal(t, uuid.Nil, answer.Lease)
				for _, p := range payloads(answer) {
					_, twice := seen.LoadOrStore(p, true)
					require.False(t, twice, p)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	seen.Range(func(any, any) bool { n++; return true })
	require.Equal(t, 200, n)
}

// What was handed out before says so, also when the next answer begins and ends elsewhere.
func TestDeliveryAttemptsOfAnswersThatOverlap(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 10)
	attempts := func(batch int) (first string, before, all int, answer *PopAnswer) {
		req := request("q")
		req.Batch = batch
		answer = tb.pop(b, req)
		part := answer.Parts[0]
		if part.Repeated > 0 {
			require.GreaterOrEqual(t, part.Attempt, 2)
		}
		return part.Messages[0].TransactionID, part.Repeated, len(part.Messages), answer
	}
	_, before, all, answer := attempts(6)
	require.Equal(t, []int{0, 6}, []int{before, all})
	for _, r := range a.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(answer, AckRetry)) {
		require.True(t, r.LeaseReleased)
	}
	first, before, all, answer := attempts(4)
	require.Equal(t, "txn-0", first)
	require.Equal(t, []int{4, 4}, []int{before, all})
	tb.ackAll(a, "", answer)
	first, before, all, answer = attempts(6)
	require.Equal(t, "txn-4", first)
	require.Equal(t, []int{2, 6}, []int{before, all}, "two of the first answer, and four that nobody has seen")
	tb.ackAll(b, "", answer)
}
