package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The list of the contract's appendix B, as far as it is the data plane's. Its numbers stand in the names.

func TestContract1ConfigureEchoesAndDeleteDeletes(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	b := tb.brokers[0]
	sent := map[string]any{
		"leaseTime": 17, "retryLimit": 5, "retryDelay": 2000, "priority": 7, "maxSize": 10000, "ttl": 7200,
		"deadLetterQueue": false, "dlqAfterMaxRetries": false, "delayedProcessing": 3, "windowBuffer": 4,
		"retentionEnabled": true, "retentionSeconds": 86400, "completedRetentionSeconds": 3600, "maxWaitTimeSeconds": 60,
		"encryptionEnabled": true, "minPopWaitTime": 50, "dedupWindowSeconds": 60, "retentionSinkHold": "s", "retentionSinkHoldMaxSeconds": 61,
	}
	configure := func(req ConfigureRequest) ConfigureAnswer {
		req.Tenant, req.Queue = DefaultTenant, "q"
		answer, err := b.Configure(t.Context(), req)
		require.NoError(t, err)
		return answer
	}
	namespace, task := "name\x00space", "t"
	answer := configure(ConfigureRequest{Options: sent, Namespace: &namespace, Task: &task})
	for key, value := range sent {
		require.Equal(t, fmt.Sprint(value), fmt.Sprint(answer.Options[key]), key)
	}
	require.Len(t, answer.Options, len(sent))
	require.Equal(t, []string{"name\uFFFDspace", "t"}, []string{answer.Namespace, answer.Task})
	id := answer.QueueID

	answer = configure(ConfigureRequest{Options: map[string]any{"ttl": nil, "priority": 9, "someday": 1}})
	require.Equal(t, id, answer.QueueID)
	require.Equal(t, []any{json.Number("3600"), json.Number("9"), json.Number("17")},
		[]any{answer.Options["ttl"], answer.Options["priority"], answer.Options["leaseTime"]})
	require.Equal(t, []string{"someday"}, answer.Ignored)
	require.Equal(t, "t", answer.Task, "absent keeps")
	version := answer.OptionsVersion

	_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", IfVersion: version - 1})
	require.ErrorIs(t, err, ErrVersionConflict)
	answer = configure(ConfigureRequest{Replace: true, IfVersion: version})
	require.Equal(t, defaultWith(300), answer.Options)
	require.Empty(t, answer.Namespace)

	existed, err := tb.brokers[1].DeleteQueue(t.Context(), DefaultTenant, "q")
	require.NoError(t, err)
	require.True(t, existed)
	tb.push(b, "made.by.push", "p", 0, 1)
	q, err := b.catalog.find(t.Context(), queueKey{DefaultTenant, "made.by.push"})
	require.NoError(t, err)
	require.Equal(t, []any{"made", "by", 60}, []any{q.namespace, q.task, q.options.LeaseTime})
}

func defaultWith(lease int) map[string]any {
	o := defaultOptions
	o.LeaseTime = lease
	return o.echo()
}

func TestContract3EqualTransactionIDs(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 3)
	b := tb.brokers[0]
	t.Run("the empty id is taken literally", func(t *testing.T) {
		empty := PushItem{Queue: "a", Partition: "p", Payload: []byte("1"), HasTransactionID: true}
		first := b.Push(t.Context(), DefaultTenant, "", []PushItem{empty})
		again := tb.brokers[1].Push(t.Context(), DefaultTenant, "", []PushItem{empty})
		require.Equal(t, []PushStatus{Queued, Duplicate}, []PushStatus{first[0].Status, again[0].Status})
		require.Empty(t, first[0].TransactionID)
	})
	t.Run("followers of a stored one carry the stored id", func(t *testing.T) {
		first := tb.push(b, "b", "p", 0, 1)
		r := b.Push(t.Context(), DefaultTenant, "", []PushItem{item("b", "p", 0), item("b", "p", 1), item("b", "p", 0)})
		require.Equal(t, []PushStatus{Duplicate, Queued, Duplicate}, []PushStatus{r[0].Status, r[1].Status, r[2].Status})
		require.Equal(t, []uuid.UUID{first[0].MessageID, first[0].MessageID}, []uuid.UUID{r[0].MessageID, r[2].MessageID})
	})
	t.Run("a window of zero lets all in", func(t *testing.T) {
		_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "c", Options: map[string]any{"dedupWindowSeconds": 0}})
		require.NoError(t, err)
		for _, other := range tb.brokers {
			r := other.Push(t.Context(), DefaultTenant, "", []PushItem{item("c", "p", 1)})
			require.Equal(t, Queued, r[0].Status)
		}
		_, err = b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "c", Options: map[string]any{"dedupWindowSeconds": nil}})
		require.NoError(t, err)
		for _, other := range tb.brokers {
			r := other.Push(t.Context(), DefaultTenant, "", []PushItem{item("c", "p", 1)})
			require.Equal(t, Duplicate, r[0].Status, "the option binds the very next push on every broker")
		}
	})
	t.Run("a window that has passed forgets", func(t *testing.T) {
		_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "d", Options: map[string]any{"dedupWindowSeconds": 1}})
		require.NoError(t, err)
		tb.push(b, "d", "p", 0, 1)
		require.Eventually(t, func() bool {
			return tb.brokers[1].Push(t.Context(), DefaultTenant, "", []PushItem{item("d", "p", 0)})[0].Status == Queued
		}, 30*time.Second, 100*time.Millisecond)
	})
	t.Run("a message id made on one broker is known on one that knows an older log", func(t *testing.T) {
		for _, other := range tb.brokers {
			tb.push(other, "e", "p", int(other.clockForTest()), int(other.clockForTest())+1)
		}
		minted := tb.brokers[0].Push(t.Context(), DefaultTenant, "", []PushItem{{Queue: "e", Partition: "p", Payload: []byte("1")}})
		for _, other := range tb.brokers {
			r := other.Push(t.Context(), DefaultTenant, "", []PushItem{{
				Queue: "e", Partition: "p", Payload: []byte("1"), TransactionID: minted[0].TransactionID, HasTransactionID: true,
			}})
			require.Equal(t, Duplicate, r[0].Status)
			require.Equal(t, minted[0].MessageID, r[0].MessageID)
		}
	})
	t.Run("one flush with the same id from many requests", func(t *testing.T) {
		for round := range 20 {
			var wg sync.WaitGroup
			all := make([][]PushResult, 12)
			for i := range all {
				wg.Go(func() {
					all[i] = b.Push(t.Context(), DefaultTenant, "", []PushItem{item("f", "p", 2*round), item("f", "p", 1000+100*round+i), item("f", "p", 2*round)})
				})
			}
			wg.Wait()
			queued := 0
			for _, r := range all {
				require.Equal(t, all[0][0].MessageID, r[0].MessageID)
				require.Equal(t, r[0].MessageID, r[2].MessageID)
				require.Equal(t, []PushStatus{Queued, Duplicate}, []PushStatus{r[1].Status, r[2].Status})
				if r[0].Status == Queued {
					queued++
				}
			}
			require.Equal(t, 1, queued)
		}
	})
}

// clockForTest gives each broker of a test numbers of its own.
func (b *Broker) clockForTest() int64 { return int64(len(b.lanes)) + time.Now().UnixNano()%1_000_000 }

func TestContract4Payloads(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	large := `"` + strings.Repeat("x", 3<<20) + `"`
	want := []string{"null", "{}", large, `[1,"\u0000",{"a":null}]`, "0"}
	var items []PushItem
	for _, payload := range want {
		items = append(items, PushItem{Queue: "q", Partition: "p", Payload: []byte(payload)})
	}
	tb.brokers[0].Push(t.Context(), DefaultTenant, "some one", items)
	for i, b := range tb.brokers {
		req := request("q")
		req.Group, req.SubscriptionMode = fmt.Sprint("g", i), "all"
		answer := tb.pop(b, req)
		require.Equal(t, want, payloads(answer))
		m := answer.Parts[0].Messages[0]
		require.Equal(t, "some one", m.ProducerSub)
		require.Equal(t, m.ID.String(), m.TransactionID)
		require.Zero(t, m.CreatedAt.Nanosecond()%1000)
		require.Equal(t, time.UTC, m.CreatedAt.Location())
	}
	items = items[:0]
	for range 1000 {
		items = append(items, PushItem{Queue: "wide", Partition: "p", Payload: []byte(`"` + strings.Repeat("y", 10<<10) + `"`)})
	}
	for _, r := range tb.brokers[0].Push(t.Context(), DefaultTenant, "", items) {
		require.Equal(t, Queued, r.Status)
	}
	req := request("wide")
	req.Batch = 1000
	require.Len(t, payloads(tb.pop(tb.brokers[1], req)), 1000)
	require.Empty(t, tb.brokers[0].Push(t.Context(), DefaultTenant, "", nil))
}

// Answers are cut at 32 MiB; what is left comes next, also with autoAck, and no partition is leased without being given.
func TestAnswersAreCut(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	payload := `"` + strings.Repeat("z", 1<<20) + `"`
	for p := range 3 {
		var items []PushItem
		for range 16 {
			items = append(items, PushItem{Queue: "q", Partition: fmt.Sprint("p", p), Payload: []byte(payload)})
		}
		for _, r := range tb.brokers[0].Push(t.Context(), DefaultTenant, "", items) {
			require.Equal(t, Queued, r.Status)
		}
	}
	for i, group := range []string{"acked", "automatic"} {
		total := 0
		for total < 48 {
			req := request("q")
			req.Batch, req.Partitions, req.Group, req.SubscriptionMode, req.AutoAck = 10000, 0, group, "all", i == 1
			answer := tb.pop(tb.brokers[1], req)
			require.NotNil(t, answer, "after %d", total)
			n := len(payloads(answer))
			require.LessOrEqual(t, n, 32)
			total += n
			if i == 0 {
				tb.ackAll(tb.brokers[1], group, answer)
			}
			answer.Release()
		}
		require.Equal(t, 48, total)
	}
	one := PushItem{Queue: "one", Partition: "p", Payload: []byte(`"` + strings.Repeat("z", 40<<20) + `"`)}
	require.Equal(t, Queued, tb.brokers[0].Push(t.Context(), DefaultTenant, "", []PushItem{one, one})[0].Status)
	answer := tb.pop(tb.brokers[1], request("one"))
	require.Len(t, payloads(answer), 1, "a large one stands alone")
	tb.ackAll(tb.brokers[1], "", answer)
	require.Len(t, payloads(tb.pop(tb.brokers[1], request("one"))), 1)
}

// While clients have not taken what they were given, others wait; they are not told that there is nothing.
func TestBytesBeingAnsweredAreBounded(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, func(c *Config) { c.AnswerBytes = 1 << 20 })
	b := tb.brokers[0]
	for p := range 3 {
		b.Push(t.Context(), DefaultTenant, "", []PushItem{{Queue: "q", Partition: fmt.Sprint(p), Payload: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}})
	}
	first := tb.pop(b, request("q"))
	require.NotNil(t, first)
	second := make(chan *PopAnswer, 1)
	go func() {
		answer, _ := b.Pop(context.Background(), request("q"))
		second <- answer
	}()
	select {
	case <-second:
		t.Fatal("there was no room")
	case <-time.After(100 * time.Millisecond):
	}
	first.Release()
	first.Release()
	answer := <-second
	require.NotNil(t, answer)
	b.GiveBack(answer)
	require.NotNil(t, tb.pop(b, request("q")))
}

func TestContract5MinPopWaitTime(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"minPopWaitTime": 400}})
	require.NoError(t, err)
	req := request("q")
	req.Wait, req.Batch = true, 4
	t.Run("an under-full pop is held", func(t *testing.T) {
		tb.push(b, "q", "p", 0, 1)
		started := time.Now()
		answer := tb.pop(b, req)
		require.Equal(t, numbers(0, 1), payloads(answer))
		require.GreaterOrEqual(t, time.Since(started), 380*time.Millisecond)
		tb.ackAll(b, "", answer)
	})
	t.Run("until it is full", func(t *testing.T) {
		got := tb.park(b, req)
		tb.push(b, "q", "p", 10, 12)
		time.Sleep(50 * time.Millisecond)
		started := time.Now()
		tb.push(b, "q", "p", 12, 14)
		answer := <-got
		require.Equal(t, numbers(10, 14), payloads(answer))
		require.Less(t, time.Since(started), 250*time.Millisecond)
		tb.ackAll(b, "", answer)
	})
	t.Run("or its time is over", func(t *testing.T) {
		short := req
		short.Timeout = 50 * time.Millisecond
		tb.push(b, "q", "p", 20, 21)
		started := time.Now()
		answer := tb.pop(b, short)
		require.Equal(t, numbers(20, 21), payloads(answer))
		require.Less(t, time.Since(started), 350*time.Millisecond)
		tb.ackAll(b, "", answer)
	})
	t.Run("not without wait, for one, or for a partition", func(t *testing.T) {
		for i, change := range []func(*PopRequest){
			func(r *PopRequest) { r.Wait = false },
			func(r *PopRequest) { r.Batch = 1 },
			func(r *PopRequest) { r.Pinned, r.Partition = true, "p" },
		} {
			other := req
			change(&other)
			tb.push(b, "q", "p", 30+i, 31+i)
			started := time.Now()
			answer := tb.pop(b, other)
			require.Equal(t, numbers(30+i, 31+i), payloads(answer))
			require.Less(t, time.Since(started), 300*time.Millisecond)
			tb.ackAll(b, "", answer)
		}
	})
}

func TestContract6And7Leases(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	for i := range 6 {
		tb.push(a, "q", fmt.Sprint("p", i%3), i, i+1)
	}
	req := request("q")
	req.Partitions, req.LeaseSeconds = 3, 1
	answer := tb.pop(a, req)
	require.Len(t, answer.Parts, 3)
	extended, err := b.Extend(t.Context(), DefaultTenant, answer.Lease.String(), 30)
	require.NoError(t, err)
	require.Equal(t, 3, extended.Renewed)
	require.WithinDuration(t, time.Now().Add(30*time.Second), extended.ExpiresAt, 5*time.Second)
	shorter, err := b.Extend(t.Context(), DefaultTenant, answer.Lease.String(), 1)
	require.NoError(t, err)
	require.False(t, shorter.ExpiresAt.Before(extended.ExpiresAt), "never shortened")
	for lease, tenant := range map[string]uuid.UUID{answer.Lease.String(): uuid.New(), uuid.NewString(): DefaultTenant, "nonsense": DefaultTenant} {
		none, err := b.Extend(t.Context(), tenant, lease, 30)
		require.NoError(t, err)
		require.Zero(t, none.Renewed)
	}
	huge, err := b.Extend(t.Context(), DefaultTenant, answer.Lease.String(), math.MaxInt)
	require.NoError(t, err)
	require.Equal(t, 3, huge.Renewed)
	time.Sleep(1100 * time.Millisecond)
	require.Nil(t, tb.pop(b, req), "the lease was extended")
	tb.ackAll(b, "", answer)
	tb.push(a, "q", "p0", 100, 101)
	req.LeaseSeconds = math.MaxInt
	require.NotNil(t, tb.pop(a, req))
	require.Nil(t, tb.pop(b, req), "a huge lease is no short one")
}

func TestContract8Subscriptions(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 2)
	time.Sleep(5 * time.Millisecond)
	middle := time.Now().UTC()
	time.Sleep(5 * time.Millisecond)
	tb.push(b, "q", "p", 2, 4)
	pop := func(b *Broker, group, mode, from string) []string {
		req := request("q")
		req.Group, req.SubscriptionMode, req.SubscriptionFrom = group, mode, from
		return payloads(tb.pop(b, req))
	}
	require.Equal(t, numbers(2, 4), pop(a, "middle", "new", middle.Format(time.RFC3339Nano)))
	require.Empty(t, pop(b, "future", "", middle.Add(time.Hour).Format(time.RFC3339Nano)))
	require.Equal(t, numbers(0, 4), pop(b, "typo", "erliest", ""))
	require.Empty(t, pop(a, "default", "", ""))
	require.Empty(t, pop(b, "nonsense", "all", "yesterday"))
	require.Equal(t, numbers(0, 4), pop(b, "", "new", "now"), "queue mode takes no parameters")
	t.Run("partitions made later lose nothing", func(t *testing.T) {
		for i := range 4 {
			tb.push(tb.brokers[i%2], "q", fmt.Sprint("later", i), 10+i, 11+i)
		}
		var got []string
		for i := range 4 {
			req := request("q")
			req.Group, req.SubscriptionMode = "default", "all"
			got = append(got, payloads(tb.pop(tb.brokers[i%2], req))...)
		}
		require.ElementsMatch(t, numbers(10, 14), got)
	})
	t.Run("pinned pops seed from their own parameters and register nothing", func(t *testing.T) {
		pinned := request("q")
		pinned.Pinned, pinned.Partition, pinned.Group = true, "p", "pinned"
		pinned.SubscriptionFrom = "yesterday"
		require.Equal(t, numbers(0, 4), payloads(tb.pop(a, pinned)))
		pinned.Partition, pinned.SubscriptionFrom, pinned.SubscriptionMode = "later0", "", "new"
		require.Nil(t, tb.pop(b, pinned))
		tb.push(a, "q", "later0", 20, 21)
		require.Equal(t, numbers(20, 21), payloads(tb.pop(b, pinned)))
		conn := tb.connect()
		require.Equal(t, int64(1), tb.count(conn, "select count(*) from waggle.consumer_group where name = 'pinned' and registered_at is null"))
		wide := request("q")
		wide.Group, wide.SubscriptionMode = "pinned", "all"
		require.NotNil(t, tb.pop(a, wide), "a pop of the queue registers it")
		require.Zero(t, tb.count(conn, "select count(*) from waggle.consumer_group where name = 'pinned' and registered_at is null"))
	})
}

func TestContract9DeadLetters(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	conn := tb.connect()
	_, err := a.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"retryLimit": 1}})
	require.NoError(t, err)
	tb.push(a, "q", "p", 0, 3)
	for i, group := range []string{QueueMode, "g"} {
		req := request("q")
		req.Group, req.SubscriptionMode = group, "all"
		for try := range 2 {
			answer := tb.pop(tb.brokers[i], req)
			require.Equal(t, try+1, answer.Parts[0].Attempt)
			acks := acksOf(answer, AckFailed)[:1]
			acks[0].Error = "handler said no\x00"
			r := tb.brokers[1-i].Ack(t.Context(), DefaultTenant, group, acks)
			require.Equal(t, AckResult{Success: true, LeaseReleased: true, DLQ: try == 1}, r[0])
		}
		require.Equal(t, numbers(1, 3), payloads(tb.pop(tb.brokers[i], req)))
	}
	var payload, text []byte
	require.NoError(t, conn.QueryRow(t.Context(), "select payload, error from waggle.dead_letter where group_name = 'g'").Scan(&payload, &text))
	require.Equal(t, []string{`{"n":0}`, "handler said no\x00"}, []string{string(payload), string(text)})
	require.Equal(t, int64(2), tb.count(conn, "select count(*) from waggle.dead_letter"))

	t.Run("a limit set on another broker binds the next nack", func(t *testing.T) {
		tb.push(b, "r", "p", 0, 1)
		answer := tb.pop(b, request("r"))
		_, err := a.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "r", Options: map[string]any{"retryLimit": 0}})
		require.NoError(t, err)
		r := b.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(answer, AckFailed))
		require.True(t, r[0].DLQ)
	})
}

func TestTenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, func(c *Config) { c.Limits = Limits{Queues: 2, Partitions: 3, Groups: 2} })
	b := tb.brokers[0]
	other := uuid.New()
	tb.push(b, "q", "p", 0, 1)
	b.Push(t.Context(), other, "", []PushItem{item("q", "p", 7)})
	req := request("q")
	mine := tb.pop(b, req)
	require.Equal(t, numbers(0, 1), payloads(mine))
	req.Tenant = other
	require.Equal(t, numbers(7, 8), payloads(tb.pop(b, req)))
	require.Equal(t, errNotOwned, b.Ack(t.Context(), other, QueueMode, acksOf(mine, AckCompleted))[0].Error)
	existed, err := b.DeleteQueue(t.Context(), uuid.New(), "q")
	require.NoError(t, err)
	require.False(t, existed)

	t.Run("each may have only so much", func(t *testing.T) {
		r := b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", 1), item("second", "p", 1), item("third", "p", 1)})
		require.Equal(t, Queued, r[0].Status, "what is there still takes")
		require.NotContains(t, []PushStatus{r[2].Status}, Queued)
		r = b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p2", 1), item("q", "p3", 1)})
		require.Equal(t, []PushStatus{Queued, Queued}, []PushStatus{r[0].Status, r[1].Status})
		r = b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p4", 1), item("q", "p", 2)})
		require.Equal(t, []PushStatus{Failed, Queued}, []PushStatus{r[0].Status, r[1].Status})
		for i := range 3 {
			req := request("q")
			req.Group = fmt.Sprint("g", i)
			_, err := b.Pop(t.Context(), req)
			require.Equal(t, i >= 1, errors.Is(err, ErrLimit), "%v", err)
		}
		r = b.Push(t.Context(), other, "", []PushItem{item("mine", "p", 1)})
		require.Equal(t, Queued, r[0].Status)
	})
}

func TestNamesThatCannotBeStoredFailAlone(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	long := strings.Repeat("x", 1024)
	for _, name := range []string{"a.b/c d'\"\\ü\u2028", long, "%", "__x"} {
		tb.push(b, name, name, 0, 1)
		require.Equal(t, numbers(0, 1), payloads(tb.pop(b, request(name))))
	}
	r := b.Push(t.Context(), DefaultTenant, "", []PushItem{
		item(long+"x", "p", 1), item("q", "p\x00", 1), item("q", "\xff", 1), item("q", "p", 1),
	})
	require.Equal(t, []PushStatus{Failed, Failed, Failed, Queued}, []PushStatus{r[0].Status, r[1].Status, r[2].Status, r[3].Status})
	_, err := b.Pop(t.Context(), request("q\x00"))
	require.ErrorIs(t, err, errName)
	text := "a\x00b"
	answer, err := b.Pop(t.Context(), PopRequest{Tenant: DefaultTenant, Discovery: true, Namespace: &text})
	require.NoError(t, err)
	require.Nil(t, answer)
}

func TestContract17TenWorkersKeepTheOrder(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 3)
	const partitions, each = 4, 60
	var wg sync.WaitGroup
	for p := range partitions {
		wg.Go(func() {
			for i := 0; i < each; i += 3 {
				tb.push(tb.brokers[(p+i)%3], "q", fmt.Sprint("p", p), i, i+3)
			}
		})
	}
	var mu sync.Mutex
	got := map[string][]string{}
	total := 0
	for worker := range 10 {
		wg.Go(func() {
			for {
				mu.Lock()
				done := total == partitions*each
				mu.Unlock()
				if done {
					return
				}
				req := request("q")
				req.Wait, req.Batch, req.Timeout = true, 5, 200*time.Millisecond
				answer := tb.pop(tb.brokers[worker%3], req)
				if answer == nil {
					continue
				}
				mu.Lock()
				for _, part := range answer.Parts {
					for _, m := range part.Messages {
						got[part.Partition] = append(got[part.Partition], string(m.Payload))
						total++
					}
				}
				mu.Unlock()
				tb.ackAll(tb.brokers[(worker+1)%3], "", answer)
			}
		})
	}
	wg.Wait()
	for p := range partitions {
		require.Equal(t, numbers(0, each), got[fmt.Sprint("p", p)])
	}
}
