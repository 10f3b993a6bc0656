package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/pg"
)

func said(value bool) *bool { return &value }

// newest asks for a group's newest messages, all of them from the beginning.
func newest(queue, group string) PopRequest {
	req := request(queue)
	req.Group, req.Conflation, req.SubscriptionMode = group, said(true), "all"
	req.BatchDefault, req.PartitionsDefault = true, true
	return req
}

func (tb *testBundle) configure(b *Broker, queue string, options map[string]any) {
	tb.t.Helper()
	_, err := b.Configure(tb.t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: queue, Options: options})
	require.NoError(tb.t, err)
}

// committed is where the group's cursor stands.
func (tb *testBundle) committed(b *Broker, queue, partition, group string) int64 {
	tb.t.Helper()
	q, err := b.catalog.find(tb.t.Context(), queueKey{DefaultTenant, queue})
	require.NoError(tb.t, err)
	key := partitionKey{q.id, partition}
	found, err := b.catalog.findPartitions(tb.t.Context(), []partitionKey{key})
	require.NoError(tb.t, err)
	cursors, err := b.db.PeekCursors(tb.t.Context(), []int64{q.id}, []int64{found[key].id}, group)
	require.NoError(tb.t, err)
	return cursors[0].Committed
}

func TestConflationGivesTheNewestAndItsAckCommitsPastTheRest(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 5)
	tb.push(a, "q", "p", 5, 7)
	tb.push(b, "q", "r", 10, 13)
	// A pop may come before a partition that has just been made is known to be one of the group's.
	var answer *PopAnswer
	require.Eventually(t, func() bool {
		answer = tb.pop(b, newest("q", "g"))
		if len(answer.Parts) == 2 {
			return true
		}
		b.GiveBack(answer)
		return false
	}, 30*time.Second, time.Millisecond)
	require.ElementsMatch(t, []string{`{"n":6}`, `{"n":12}`}, payloads(answer))
	require.True(t, answer.Conflation)
	require.False(t, answer.ConflationConflict)
	require.Equal(t, 1, answer.Parts[0].Attempt)
	require.Empty(t, tb.pop(a, newest("q", "g")).Parts, "everything up to the newest is leased")

	acks := acksOf(answer, AckCompleted)
	for i, r := range append(a.Ack(t.Context(), DefaultTenant, "g", acks[:1]), b.Ack(t.Context(), DefaultTenant, "g", acks[1:])...) {
		require.Equal(t, AckResult{Success: true, LeaseReleased: true, Conflated: true}, r, i)
	}
	require.Equal(t, int64(6), tb.committed(a, "q", "p", "g"))
	require.Equal(t, int64(2), tb.committed(a, "q", "r", "g"))
	for _, broker := range tb.brokers {
		require.Equal(t, &PopAnswer{Group: "g", Conflation: true}, tb.pop(broker, newest("q", "g")))
	}
	require.Equal(t, 8.0, testutil.ToFloat64(a.metrics.skipped)+testutil.ToFloat64(b.metrics.skipped))

	other := request("q")
	other.Group, other.Partition, other.Pinned, other.SubscriptionMode = "other", "p", true, "all"
	require.Equal(t, numbers(0, 7), payloads(tb.pop(a, other)), "another group has its own policy")
}

func TestConflationIsAPropertyOfTheRegistration(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 3)
	t.Run("a plain group stays plain", func(t *testing.T) {
		req := newest("q", "plain")
		req.Conflation = said(false)
		answer := tb.pop(a, req)
		require.Equal(t, numbers(0, 3), payloads(answer))
		require.False(t, answer.Conflation || answer.ConflationConflict)
		a.GiveBack(answer)
		require.Eventually(t, func() bool {
			answer = tb.pop(b, newest("q", "plain"))
			return answer != nil
		}, 30*time.Second, 10*time.Millisecond)
		require.Equal(t, numbers(0, 3), payloads(answer))
		require.True(t, answer.ConflationConflict)
		require.False(t, answer.Conflation)
		require.Nil(t, tb.pop(a, newest("q", "plain")))
	})
	t.Run("a conflating group stays conflating, and an absent flag disagrees with nothing", func(t *testing.T) {
		for i, sent := range []*bool{said(true), nil, said(false)} {
			req := newest("q", "conflating")
			req.Conflation, req.AutoAck = sent, i == 2
			answer := tb.pop(tb.brokers[i%2], req)
			require.Equal(t, []string{`{"n":2}`}, payloads(answer))
			require.True(t, answer.Conflation)
			require.Equal(t, i == 2, answer.ConflationConflict)
			if i < 2 {
				for _, r := range b.Ack(t.Context(), DefaultTenant, "conflating", acksOf(answer, AckRetry)) {
					require.True(t, r.LeaseReleased)
				}
			}
			require.Equal(t, i == 2, tb.committed(a, "q", "p", "conflating") == 2, "autoAck commits past all")
			empty := newest("q", "conflating")
			empty.Conflation, empty.Partition, empty.Pinned = sent, "none", true
			require.Equal(t, &PopAnswer{Group: "conflating", Conflation: true, ConflationConflict: i == 2}, tb.pop(b, empty))
		}
	})
	t.Run("a pinned pop registers it", func(t *testing.T) {
		req := newest("q", "pinned")
		req.Partition, req.Pinned = "p", true
		tb.ackAll(b, "pinned", tb.pop(a, req))
		tb.push(a, "q", "late", 0, 4)
		req = newest("q", "pinned")
		req.Conflation = nil
		require.Equal(t, []string{`{"n":3}`}, payloads(tb.pop(b, req)))
	})
	t.Run("a group that popped single partitions may still become one, and every broker knows at once", func(t *testing.T) {
		tb.push(a, "single", "p", 0, 4)
		req := request("single")
		req.Group, req.Partition, req.Pinned, req.SubscriptionMode, req.Batch = "g", "p", true, "all", 1
		answer := tb.pop(b, req)
		require.Equal(t, numbers(0, 1), payloads(answer))
		other := req
		other.Partition = "r"
		tb.push(a, "single", "r", 0, 1)
		tb.ackAll(b, "g", tb.pop(b, other))

		require.Empty(t, tb.pop(a, newest("single", "g")).Parts, "p is leased still, r consumed")
		tb.push(a, "single", "r", 1, 4)
		require.Equal(t, []string{`{"n":3}`}, payloads(tb.pop(b, other)), "the policy binds a broker that was not told")
		tb.ackAll(b, "g", answer)
		require.Equal(t, []string{`{"n":3}`}, payloads(tb.pop(b, req)))
	})
	t.Run("nothing is there yet", func(t *testing.T) {
		req := newest("none", "g")
		req.Partition, req.Pinned = "p", true
		require.Equal(t, &PopAnswer{Group: "g", Conflation: true}, tb.pop(a, req))
		req = newest("", "g")
		task := "nobody's"
		req.Discovery, req.Task = true, &task
		require.Equal(t, &PopAnswer{Group: "g", Conflation: true}, tb.pop(a, req))
	})
}

func TestConflationMeetsDelaysAndQuietTimes(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	t.Run("only what is visible counts", func(t *testing.T) {
		tb.push(a, "delay", "p", 0, 3)
		tb.configure(a, "delay", map[string]any{"delayedProcessing": 2})
		req := newest("delay", "g")
		require.Empty(t, tb.pop(b, req).Parts)
		time.Sleep(time.Second)
		tb.push(b, "delay", "p", 3, 5)
		req.Wait = true
		answer := tb.pop(b, req)
		require.Equal(t, []string{`{"n":2}`}, payloads(answer))
		tb.ackAll(a, "g", answer)
		require.Equal(t, int64(2), tb.committed(a, "delay", "p", "g"))
		answer = tb.pop(a, req)
		require.Equal(t, []string{`{"n":4}`}, payloads(answer))
		tb.ackAll(a, "g", answer)
	})
	t.Run("a quiet window holds all back", func(t *testing.T) {
		tb.push(a, "quiet", "p", 0, 3)
		tb.configure(a, "quiet", map[string]any{"windowBuffer": 1})
		tb.push(a, "quiet", "p", 3, 4)
		req := newest("quiet", "g")
		require.Empty(t, tb.pop(b, req).Parts)
		req.Wait = true
		require.Equal(t, []string{`{"n":3}`}, payloads(tb.pop(b, req)))
	})
}

func TestConflationComesAgainWithTheNewest(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	say := func(broker *Broker, answer *PopAnswer, status AckStatus) AckResult {
		t.Helper()
		results := broker.Ack(t.Context(), DefaultTenant, "g", acksOf(answer, status))
		require.Len(t, results, 1)
		require.True(t, results[0].Success && results[0].LeaseReleased && results[0].Conflated, results)
		return results[0]
	}
	expect := func(broker *Broker, n, attempt int) *PopAnswer {
		t.Helper()
		req := newest("q", "g")
		req.Wait, req.LeaseSeconds = true, 60
		answer := tb.pop(broker, req)
		require.Equal(t, []string{fmt.Sprintf(`{"n":%d}`, n)}, payloads(answer))
		require.Equal(t, attempt, answer.Parts[0].Attempt)
		return answer
	}
	tb.configure(a, "q", map[string]any{"retryLimit": 1})
	tb.push(a, "q", "p", 0, 3)
	say(b, expect(a, 2, 1), AckFailed)
	say(a, expect(b, 2, 2), AckRetry)
	tb.push(b, "q", "p", 3, 5)
	require.False(t, say(a, expect(b, 4, 1), AckRetry).DLQ)
	require.True(t, say(b, expect(a, 4, 2), AckFailed).DLQ, "the budget is the cursor's: it was charged at 2 already")
	require.Equal(t, int64(4), tb.committed(a, "q", "p", "g"))
	tb.push(a, "q", "p", 5, 8)
	require.True(t, say(b, expect(a, 7, 1), AckDLQ).DLQ)
	letters, err := a.db.ListDeadLetters(t.Context(), pg.DeadLetterPage{
		Tenant: DefaultTenant, Limit: 10, MaxBytes: 1 << 20,
	})
	require.NoError(t, err)
	require.Len(t, letters, 2)
	require.Equal(t, []string{"txn-7", "txn-4"}, []string{letters[0].TransactionID, letters[1].TransactionID})

	tb.push(a, "q", "p", 8, 10)
	req := newest("q", "g")
	req.LeaseSeconds = 1
	require.Equal(t, []string{`{"n":9}`}, payloads(tb.pop(a, req)))
	tb.push(a, "q", "p", 10, 11)
	answer := expect(b, 10, 1) // the lease has expired
	below := acksOf(answer, AckCompleted)
	below[0].TransactionID = "txn-8"
	require.Equal(t, []AckResult{{Success: true, Conflated: true}}, a.Ack(t.Context(), DefaultTenant, "g", below),
		"a skipped one below the newest completes what is below it")
	require.Equal(t, int64(8), tb.committed(a, "q", "p", "g"))
	below[0].TransactionID = "txn-9"
	require.Equal(t, []AckResult{{Success: true, Conflated: true}}, b.Ack(t.Context(), DefaultTenant, "g", below))
	say(b, answer, AckCompleted)
	b.GiveBack(func() *PopAnswer { tb.push(a, "q", "p", 11, 13); return expect(b, 12, 1) }())
	say(a, expect(a, 12, 1), AckCompleted)
}

func TestConflationPrefersTheRecordThatWasGiven(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.configure(a, "q", map[string]any{"dedupWindowSeconds": 0})
	for i, broker := range []*Broker{a, b, a, b} { // from memory, from the log, under signals, in a transaction
		tb.push(a, "q", "p", 7, 8)
		tb.push(a, "q", "p", 0, 3)
		tb.push(a, "q", "p", 7, 8)
		answer := tb.pop(a, newest("q", "g"))
		acks := acksOf(answer, AckCompleted)
		if i == 2 {
			acks[0].Status = AckDLQ
		}
		if i == 3 {
			_, err := broker.Transact(t.Context(), Transaction{Tenant: DefaultTenant, Operations: []Operation{{Ack: &acks[0], Group: "g"}}})
			require.NoError(t, err)
		} else {
			r := broker.Ack(t.Context(), DefaultTenant, "g", acks)
			require.True(t, r[0].Success && r[0].LeaseReleased)
		}
		require.Equal(t, int64(5*(i+1)-1), tb.committed(a, "q", "p", "g"), i)
	}
	require.Equal(t, 16.0, testutil.ToFloat64(a.metrics.skipped)+testutil.ToFloat64(b.metrics.skipped))
}

func TestConflationWakesParkedPopsWithTheNewestOnly(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.pop(a, newest("q", "g"))
	req := newest("q", "g")
	req.Wait, req.Timeout = true, 10*time.Second
	for round, broker := range []*Broker{a, b} { // handed off in the commit, found by a look
		got := make(chan *PopAnswer, 1)
		go func() {
			answer, err := broker.Pop(context.WithoutCancel(t.Context()), req)
			if err != nil {
				answer = nil
			}
			got <- answer
		}()
		require.Eventually(t, func() bool { return broker.Parked() == 1 }, 30*time.Second, time.Millisecond)
		tb.push(a, "q", "p", 10*round, 10*round+6)
		answer := <-got
		require.Equal(t, []string{fmt.Sprintf(`{"n":%d}`, 10*round+5)}, payloads(answer))
		tb.ackAll(a, "g", answer)
		require.Equal(t, int64(6*round+5), tb.committed(a, "q", "p", "g"))
	}
}

func TestConflationMeetsPausedPops(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	a := tb.brokers[0]
	tb.pop(a, newest("q", "g"))
	waiting := newest("q", "g")
	waiting.Wait, waiting.Timeout = true, 20*time.Second
	got := make(chan *PopAnswer, 1)
	go func() {
		answer, err := a.Pop(context.WithoutCancel(t.Context()), waiting)
		if err != nil {
			answer = nil
		}
		got <- answer
	}()
	require.Eventually(t, func() bool { return a.Parked() == 1 }, 30*time.Second, time.Millisecond)
	a.PausePops(true)
	require.Equal(t, &PopAnswer{Group: "g", Conflation: true, Paused: true}, tb.pop(a, newest("q", "g")))
	plain := newest("q", "g")
	plain.Conflation = nil
	require.Nil(t, tb.pop(a, plain), "the stored policy is not read")
	tb.push(a, "q", "p", 0, 3)
	select {
	case answer := <-got:
		t.Fatalf("a parked pop was answered while pops are paused: %v", answer)
	case <-time.After(100 * time.Millisecond):
	}
	a.PausePops(false)
	require.Equal(t, []string{`{"n":2}`}, payloads(<-got))
}

func TestConflationSharesBatchAndPartitions(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	a := tb.brokers[0]
	tb.pop(a, newest("q", "g")) // from here on the broker knows what is ready
	for p := range 70 {
		tb.push(a, "q", fmt.Sprint(p), 0, 3)
	}
	// The first pops may come between the making of the cursors and the news of it.
	require.Eventually(t, func() bool {
		answer := tb.pop(a, newest("q", "g"))
		a.Ack(t.Context(), DefaultTenant, "g", acksOf(answer, AckRetry))
		return len(answer.Parts) == 64
	}, 30*time.Second, time.Millisecond)
	for _, c := range []struct {
		batch, partitions, want int
	}{{200, 0, 64}, {5, 0, 5}, {7, 3, 3}, {4, 9, 4}, {1, 0, 1}, {-3, 0, 1}} {
		req := newest("q", "g")
		req.Batch, req.BatchDefault = c.batch, c.batch == 200
		if c.partitions > 0 {
			req.Partitions, req.PartitionsDefault = c.partitions, false
		}
		answer := tb.pop(a, req)
		require.Len(t, answer.Parts, c.want, c)
		require.Len(t, payloads(answer), c.want, c)
		for _, r := range a.Ack(t.Context(), DefaultTenant, "g", acksOf(answer, AckRetry)) {
			require.True(t, r.LeaseReleased)
		}
	}
}

// Two groups and many consumers on two brokers: whatever is pushed before they begin is given out once a partition.
func TestConflationDrainsEachPartitionWithOneDelivery(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	var items []PushItem
	last := map[string]string{}
	for i := range 1000 {
		it := item("q", fmt.Sprint(i%64), i)
		items = append(items, it)
		last[it.Partition] = it.TransactionID
	}
	for _, r := range tb.brokers[0].Push(t.Context(), DefaultTenant, "", items) {
		require.Equal(t, Queued, r.Status)
	}
	groups := []string{"g", "h"}
	var mu sync.Mutex
	got := map[string][]string{}
	var consumers sync.WaitGroup
	for i := range 8 {
		consumers.Go(func() {
			b, group := tb.brokers[i/2%2], groups[i%2]
			for {
				req := newest("q", group)
				req.Batch, req.BatchDefault = 1+rand.IntN(20), false
				answer, err := b.Pop(t.Context(), req)
				if err != nil || len(answer.Parts) == 0 {
					return
				}
				mu.Lock()
				for _, part := range answer.Parts {
					got[group+part.Partition] = append(got[group+part.Partition], part.Messages[0].TransactionID)
				}
				mu.Unlock()
				tb.brokers[rand.IntN(2)].Ack(t.Context(), DefaultTenant, group, acksOf(answer, AckCompleted))
			}
		})
	}
	consumers.Wait()
	for _, group := range groups {
		for partition, id := range last {
			require.Equal(t, []string{id}, got[group+partition])
			require.Equal(t, int64(len(items)-1)/64-b2i(partition), tb.committed(tb.brokers[1], "q", partition, group))
		}
	}
}

// b2i is 1 for the partitions that got one message fewer than the others.
func b2i(partition string) int64 {
	var n int64
	if _, err := fmt.Sscan(partition, &n); err == nil && n >= 1000%64 {
		return 1
	}
	return 0
}

// Whatever happens, a conflating consumer never goes back behind what it acked and ends on the last message.
func TestConflationAlwaysEndsOnTheLastMessage(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		queue := fmt.Sprint("q", runs)
		broker := func() *Broker { return tb.brokers[rapid.IntRange(0, 1).Draw(rt, "broker")] }
		newestOf, acked := [3]int{}, [3]int{}
		take := func() bool {
			req := newest(queue, "g")
			req.Batch, req.BatchDefault = rapid.IntRange(1, 4).Draw(rt, "batch"), false
			if rapid.Bool().Draw(rt, "pinned") {
				req.Partition, req.Pinned = fmt.Sprint(rapid.IntRange(0, 2).Draw(rt, "pin")), true
			}
			answer, err := broker().Pop(t.Context(), req)
			require.NoError(rt, err)
			for _, part := range answer.Parts {
				p := int(part.Partition[0] - '0')
				n := number(part.Messages[0].Payload)
				require.Len(rt, part.Messages, 1)
				require.Equal(rt, newestOf[p], n)
				require.Greater(rt, n, acked[p])
			}
			if len(answer.Parts) == 0 {
				return false
			}
			status := rapid.SampledFrom([]AckStatus{AckCompleted, AckCompleted, AckRetry, AckDLQ}).Draw(rt, "status")
			for _, r := range broker().Ack(t.Context(), DefaultTenant, "g", acksOf(answer, status)) {
				require.True(rt, r.Success && r.LeaseReleased, r)
			}
			for _, part := range answer.Parts {
				if status != AckRetry {
					acked[part.Partition[0]-'0'] = number(part.Messages[0].Payload)
				}
			}
			return true
		}
		take()
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "push") {
				p := rapid.IntRange(0, 2).Draw(rt, "partition")
				n := rapid.IntRange(1, 4).Draw(rt, "messages")
				tb.push(broker(), queue, fmt.Sprint(p), newestOf[p]+1, newestOf[p]+n+1)
				newestOf[p] += n
			} else {
				take()
			}
		}
		for range 200 { // pinned pops find nothing, retries come again
			if acked == newestOf {
				break
			}
			take()
		}
		require.Equal(rt, newestOf, acked)
	})
}
