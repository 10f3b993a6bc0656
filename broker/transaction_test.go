package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

func pushes(items ...PushItem) (operations []Operation) {
	for i := range items {
		operations = append(operations, Operation{Push: &items[i]})
	}
	return operations
}

// acking makes an ack of each message of the answer.
func acking(answer *PopAnswer, group string, status AckStatus) (operations []Operation) {
	if group == "" {
		group = QueueMode
	}
	items := acksOf(answer, status)
	for i := range items {
		operations = append(operations, Operation{Ack: &items[i], Group: group})
	}
	return operations
}

func (tb *testBundle) transact(b *Broker, operations ...Operation) ([]OperationResult, error) {
	return b.Transact(tb.t.Context(), Transaction{Tenant: DefaultTenant, Operations: operations})
}

func (tb *testBundle) rollsBack(b *Broker, reason, says string, operations ...Operation) {
	tb.t.Helper()
	_, err := tb.transact(b, operations...)
	var rollback *Rollback
	require.ErrorAs(tb.t, err, &rollback)
	require.Equal(tb.t, reason, rollback.Reason)
	require.Contains(tb.t, rollback.Text, says)
}

func (tb *testBundle) stored() int64 {
	return tb.count(tb.connect(), "select coalesce(sum(count), 0) from waggle.segment")
}

// What one broker commits the other sees, whole, and pops that were parked are woken.
func TestTransactionMovesMessagesAtomically(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "in", "p", 0, 3)
	answer := tb.pop(a, request("in"))
	waiting := request("out1")
	waiting.Wait, waiting.Timeout = true, 20*time.Second
	parked := tb.park(b, waiting)
	trace := uuid.New()
	out := []PushItem{item("out1", "x", 1), item("out2", "y", 2), item("out1", "x", 1), {Queue: "out1", Partition: "x", Payload: []byte(`7`), TraceID: trace}}
	for _, popper := range []*Broker{a, b} { // through the broker that holds the lease in memory, and through another one
		operations := append(pushes(out...), acking(answer, "", AckCompleted)...)
		results, err := tb.transact(popper, operations...)
		require.NoError(t, err)
		require.Len(t, results, len(operations))
		require.Equal(t, results[0].MessageID, results[2].MessageID)
		require.False(t, results[0].Duplicate)
		require.True(t, results[2].Duplicate, "the second of one bundle follows the first")
		require.Equal(t, results[3].MessageID.String(), results[3].TransactionID)
		if popper == a {
			got := <-parked
			require.Len(t, got.Parts[0].Messages, 2)
			require.Equal(t, results[0].MessageID, got.Parts[0].Messages[0].ID)
			require.Equal(t, trace, got.Parts[0].Messages[1].TraceID)
			require.Len(t, tb.pop(b, request("out2")).Parts[0].Messages, 1)
			require.Nil(t, tb.pop(b, request("in")), "the acks are part of it")
			tb.push(a, "in", "p", 10, 12)
			answer = tb.pop(a, request("in"))
			for i := range out {
				out[i].TransactionID += "again"
			}
		}
	}
	require.Nil(t, tb.pop(a, request("in")))
}

func TestTransactionRollsBackWhole(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "in", "p", 0, 3)
	tb.push(a, "out", "x", 1, 2)
	answer := tb.pop(a, request("in"))
	before := tb.stored()
	fresh := item("out", "x", 99)
	good := acking(answer, "", AckCompleted)
	bad := func(change func(*AckItem)) []Operation {
		ack := *good[1].Ack
		change(&ack)
		return []Operation{{Push: &fresh}, good[0], {Ack: &ack, Group: QueueMode}}
	}
	for _, broker := range tb.brokers {
		tb.rollsBack(broker, ReasonDuplicate, "QDUP", append(pushes(fresh, item("out", "x", 1)), good...)...)
		tb.rollsBack(broker, ReasonAckRejected, "QTXN ack references unknown transactionId", bad(func(a *AckItem) { a.TransactionID = "nobody" })...)
		tb.rollsBack(broker, ReasonAckRejected, errLease, bad(func(a *AckItem) { a.Lease = uuid.NewString() })...)
		tb.rollsBack(broker, ReasonAckRejected, errLease, bad(func(a *AckItem) { a.Lease = "no lease" })...)
		tb.rollsBack(broker, ReasonAckRejected, errNotOwned, bad(func(a *AckItem) { a.PartitionID = uuid.NewString() })...)
		tb.rollsBack(broker, ReasonAckRejected, "invalid input syntax", bad(func(a *AckItem) { a.PartitionID = "p" })...)
		tb.rollsBack(broker, ReasonAckRejected, errNoConsumer, Operation{Push: &fresh}, Operation{Ack: good[0].Ack, Group: "nobody"})
	}
	_, err := b.Transact(t.Context(), Transaction{Tenant: uuid.New(), Operations: good})
	require.ErrorContains(t, err, errNotOwned, "of another tenant")
	require.Equal(t, before, tb.stored(), "nothing was pushed")
	require.Nil(t, tb.pop(b, request("in")), "and the lease is still held")
	for _, r := range b.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(answer, AckCompleted)) {
		require.True(t, r.Success)
		require.False(t, r.Noop)
	}
	// What is committed already may be completed again, but not failed.
	_, err = tb.transact(a, Operation{Push: &fresh}, Operation{Ack: &AckItem{TransactionID: "txn-0", PartitionID: good[0].Ack.PartitionID}, Group: QueueMode})
	require.NoError(t, err)
	tb.rollsBack(a, ReasonAckRejected, "already committed",
		Operation{Ack: &AckItem{TransactionID: "txn-0", PartitionID: good[0].Ack.PartitionID, Status: AckFailed}, Group: QueueMode})
}

func TestLeaseOfATransactionsAck(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	for name, test := range map[string]struct {
		own      func(lease string) string
		required func(lease string) []string
		refused  bool
	}{
		"its own":                      {func(l string) string { return l }, func(string) []string { return nil }, false},
		"its own, wrong":               {func(string) string { return uuid.NewString() }, func(l string) []string { return []string{l} }, true},
		"the only required one":        {func(string) string { return "" }, func(l string) []string { return []string{l, l, ""} }, false},
		"the only required one, wrong": {func(string) string { return "" }, func(string) []string { return []string{uuid.NewString()} }, true},
		"the holder among several":     {func(string) string { return "" }, func(l string) []string { return []string{uuid.NewString(), l} }, false},
		"several, none the holder":     {func(string) string { return "" }, func(string) []string { return []string{uuid.NewString(), "x"} }, false},
		"none anywhere":                {func(string) string { return "" }, func(string) []string { return nil }, false},
	} {
		queue := "q " + name
		tb.push(b, queue, "p", 0, 2)
		answer := tb.pop(b, request(queue))
		lease := answer.Lease.String()
		operations := acking(answer, "", AckCompleted)
		for i := range operations {
			operations[i].Ack.Lease = test.own(lease)
		}
		results, err := b.Transact(t.Context(), Transaction{Tenant: DefaultTenant, Operations: operations, RequiredLeases: test.required(lease)})
		if test.refused {
			require.ErrorContains(t, err, errLease, name)
			continue
		}
		require.NoError(t, err, name)
		require.Len(t, results, 2)
	}
}

// Failed acks act as outside of transactions, and groups do not touch each other.
func TestNacksInATransaction(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	_, err := a.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "in", Options: map[string]any{"retryLimit": int64(0)}})
	require.NoError(t, err)
	tb.push(a, "in", "p", 0, 3)
	for i, group := range []string{"g", "h"} {
		req := request("in")
		req.Group, req.SubscriptionMode = group, "all"
		answer := tb.pop(a, req)
		operations := acking(answer, group, AckFailed)[1:2]
		operations[0].Ack.Error = "card refused"
		results, err := tb.transact(tb.brokers[i], append(operations, pushes(item("out", group, i))...)...)
		require.NoError(t, err)
		require.True(t, results[0].DLQ, "no retries are left")
		rest := tb.pop(b, req)
		require.Len(t, rest.Parts[0].Messages, 1)
		require.Equal(t, "txn-2", rest.Parts[0].Messages[0].TransactionID)
	}
	require.EqualValues(t, 2, tb.count(tb.connect(), "select count(*) from waggle.dead_letter where error = 'card refused' and transaction_id = 'txn-1'"))
}

// Of everything that pushes one transaction id at one time, on all brokers and in both ways, one wins.
func TestOnePushOfATransactionIDWins(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	for round := range 10 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 8 {
			b := tb.brokers[i%2]
			wg.Go(func() {
				it := item("q", "p", round)
				ok := false
				if i < 4 {
					ok = b.Push(t.Context(), DefaultTenant, "", []PushItem{it})[0].Status == Queued
				} else {
					_, err := tb.transact(b, pushes(it, item("other", fmt.Sprint(i), round))...)
					ok = err == nil
				}
				mu.Lock()
				defer mu.Unlock()
				if ok {
					won++
				}
			})
		}
		wg.Wait()
		require.Equal(t, 1, won)
	}
	require.EqualValues(t, 10, tb.count(tb.connect(), "select sum(s.count) from waggle.segment s join waggle.partition p on p.id = s.partition_id where p.name = 'p'"))
}

// A queue that was deleted or configured on another broker is seen by the next transaction, whatever is remembered.
func TestTransactionSeesQueuesChangedElsewhere(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	for i := range 3 {
		_, err := tb.transact(a, pushes(item("q", "p", i))...)
		require.NoError(t, err)
	}
	_, err := b.DeleteQueue(t.Context(), DefaultTenant, "q")
	require.NoError(t, err)
	_, err = tb.transact(a, pushes(item("q", "p", 1), item("q", "p", 7))...)
	require.NoError(t, err, "what memory calls stored went with its queue")
	require.Len(t, tb.pop(b, request("q")).Parts[0].Messages, 2)
	_, err = b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"dedupWindowSeconds": int64(0)}})
	require.NoError(t, err)
	_, err = tb.transact(a, pushes(item("q", "p", 7))...)
	require.NoError(t, err, "de-duplication was switched off elsewhere")
}

// Transactions and pushes on the same partitions, from two brokers: all end, none is lost, order holds. A deadlock
// fails the test.
func TestTransactionsAmongOtherTraffic(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	const workers, rounds = 6, 15
	partitions := []string{"a", "b", "c", "d"}
	var wg sync.WaitGroup
	for w := range workers {
		b := tb.brokers[w%2]
		wg.Go(func() {
			for i := range rounds {
				n := w*1000 + i
				some := slices.Clone(partitions)
				rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
				_, err := tb.transact(b, pushes(item("q", some[0], n), item("q", some[1], n), item("r", some[2], n))...)
				require.NoError(t, err)
				require.Equal(t, Queued, b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", some[3], n)})[0].Status)
			}
		})
	}
	// Movers take what comes and pass it on in one transaction.
	ctx, stop := context.WithCancel(t.Context())
	var movers sync.WaitGroup
	for w := range 2 {
		b := tb.brokers[w]
		movers.Go(func() {
			for ctx.Err() == nil {
				req := request("q")
				req.Batch, req.Partitions = 10, 3
				answer, err := b.Pop(ctx, req)
				if err != nil || answer == nil {
					continue
				}
				var operations []Operation
				for _, part := range answer.Parts {
					for _, m := range part.Messages {
						operations = append(operations, Operation{Push: &PushItem{
							Queue: "done", Partition: part.Partition, Payload: m.Payload, TransactionID: m.TransactionID + part.Partition, HasTransactionID: true,
						}})
					}
				}
				_, err = tb.transact(b, append(operations, acking(answer, "", AckCompleted)...)...)
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	conn := tb.connect()
	total := "select coalesce(sum(s.count), 0) from waggle.segment s join waggle.partition p on p.id = s.partition_id join waggle.queue q on q.id = p.queue_id where q.name = $1"
	require.EqualValues(t, workers*rounds*3, tb.count(conn, total, "q"))
	require.EqualValues(t, workers*rounds, tb.count(conn, total, "r"))
	require.Eventually(t, func() bool { return tb.count(conn, total, "done") == workers*rounds*3 }, 30*time.Second, 20*time.Millisecond)
	stop()
	movers.Wait()
}

// A connection that breaks while the commit is on its way is no reason to lie: what happened is asked for.
func TestTransactionWhoseCommitGetsNoAnswer(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 0)
	proxy := pgtest.NewProxy(t, tb.database.URL)
	b := tb.addAt(proxy.URL(), quiet)
	_, err := tb.transact(b, pushes(item("q", "p", 0))...)
	require.NoError(t, err)
	moments := []pgtest.Moment{pgtest.BeforeServer, pgtest.BeforeAnswer}
	for i := 1; i <= 4; i++ {
		fired := proxy.CutOnCommit(moments[i%2])
		results, err := tb.transact(b, pushes(item("q", "p", i))...)
		require.NoError(t, err, "the first was rolled back and tried again, the second had been committed")
		require.NotZero(t, results[0].MessageID)
		<-fired
	}
	answer := tb.pop(b, request("q"))
	require.Len(t, answer.Parts[0].Messages, 5)
}
