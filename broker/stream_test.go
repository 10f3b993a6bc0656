package broker

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func (tb *testBundle) register(b *Broker, name string) string {
	tb.t.Helper()
	r, err := b.RegisterStream(tb.t.Context(), StreamQuery{Tenant: DefaultTenant, Name: name, SourceQueue: "in", ConfigHash: "h1"}, false)
	require.NoError(tb.t, err)
	require.False(tb.t, r.Conflict)
	return r.ID.String()
}

func (tb *testBundle) state(b *Broker, r StateRequest) (rows []string) {
	tb.t.Helper()
	if r.Tenant == uuid.Nil {
		r.Tenant = DefaultTenant
	}
	got, err := b.StreamState(tb.t.Context(), r)
	require.NoError(tb.t, err)
	for _, row := range got {
		rows = append(rows, string(row.Key)+"="+string(row.Value))
	}
	return rows
}

func upsert(key, value string) StateOp { return StateOp{Key: key, Value: []byte(value)} }

func TestStreamRegistration(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	q := StreamQuery{Tenant: DefaultTenant, Name: "totals", SourceQueue: "in", ConfigHash: "h1"}
	var wg sync.WaitGroup
	ids := make(chan uuid.UUID, 8)
	fresh := make(chan bool, 8)
	for i := range 8 {
		wg.Go(func() {
			r, err := tb.brokers[i%2].RegisterStream(t.Context(), q, false)
			require.NoError(t, err)
			ids <- r.ID
			fresh <- r.Fresh
		})
	}
	wg.Wait()
	first, made := <-ids, 0
	for range 7 {
		require.Equal(t, first, <-ids)
	}
	for range 8 {
		if <-fresh {
			made++
		}
	}
	require.Equal(t, 1, made)
	tb.push(a, "in", "p", 0, 1)
	partition := tb.pop(a, request("in")).Parts[0].PartitionID.String()
	_, err := a.Cycle(t.Context(), Cycle{Tenant: DefaultTenant, QueryID: first.String(), PartitionID: partition, State: []StateOp{upsert("k", "1")}})
	require.NoError(t, err)

	q.ConfigHash = "h2"
	r, err := b.RegisterStream(t.Context(), q, false)
	require.NoError(t, err)
	require.True(t, r.Conflict)
	require.Equal(t, "h1", r.ConfigHash)
	require.Len(t, tb.state(b, StateRequest{QueryID: first.String(), PartitionID: partition}), 1)
	r, err = b.RegisterStream(t.Context(), q, true)
	require.NoError(t, err)
	require.Equal(t, StreamRegistration{ID: first, ConfigHash: "h2", Reset: true}, r)
	require.Empty(t, tb.state(b, StateRequest{QueryID: first.String(), PartitionID: partition}))
	q.Tenant = uuid.New()
	r, err = b.RegisterStream(t.Context(), q, false)
	require.NoError(t, err)
	require.True(t, r.Fresh, "names belong to tenants")
}

func TestStreamState(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	query := tb.register(a, "q")
	tb.push(a, "in", "p", 0, 1)
	partition := tb.pop(a, request("in")).Parts[0].PartitionID.String()
	cycle := func(ops ...StateOp) {
		_, err := a.Cycle(t.Context(), Cycle{Tenant: DefaultTenant, QueryID: query, PartitionID: partition, State: ops})
		require.NoError(t, err)
	}
	cycle(upsert("w\x1f1\x1fu", `{"acc":1,"windowEnd":100}`), upsert("w\x1f2\x1fu", `{"windowEnd":200.5}`), upsert("__wm__", `{"eventTimeMs":5}`),
		upsert("zero\x00", `null`), upsert("text", `{"windowEnd":"100"}`), upsert("gone", `1`), StateOp{Key: "gone"}, upsert("back", `1`), StateOp{Key: "back"}, upsert("back", `2`))
	here := StateRequest{QueryID: query, PartitionID: partition}
	all := []string{`__wm__={"eventTimeMs":5}`, `back=2`, `text={"windowEnd":"100"}`, "w\x1f1\x1fu=" + `{"acc":1,"windowEnd":100}`, "w\x1f2\x1fu=" + `{"windowEnd":200.5}`, "zero\x00=null"}
	require.Equal(t, all, tb.state(b, here))
	ask := here
	ask.Keys = []string{"text", "back", "nothing"}
	require.Equal(t, all[1:3], tb.state(b, ask))
	ask = here
	ask.Prefix = "w\x1f"
	require.Equal(t, all[3:5], tb.state(b, ask))
	ripe := 100.0
	ask.RipeUpTo = &ripe
	require.Equal(t, all[3:4], tb.state(b, ask))
	ask.Keys = []string{"w\x1f2\x1fu"}
	require.Empty(t, tb.state(b, ask), "filters are ANDed")

	for _, ask := range []StateRequest{
		{Tenant: uuid.New(), QueryID: query, PartitionID: partition},
		{Tenant: DefaultTenant, QueryID: uuid.NewString(), PartitionID: partition},
		{Tenant: DefaultTenant, QueryID: query, PartitionID: uuid.NewString()},
		{Tenant: DefaultTenant, QueryID: "q", PartitionID: partition},
	} {
		_, err := b.StreamState(t.Context(), ask)
		require.ErrorIs(t, err, ErrNotFound)
		_, err = b.Cycle(t.Context(), Cycle{Tenant: ask.Tenant, QueryID: ask.QueryID, PartitionID: ask.PartitionID, State: []StateOp{upsert("k", "1")}})
		require.ErrorIs(t, err, ErrNotFound)
	}
	_, err := a.Cycle(t.Context(), Cycle{Tenant: DefaultTenant, QueryID: query, PartitionID: partition, State: []StateOp{upsert(strings.Repeat("k", 1025), "1")}})
	require.ErrorContains(t, err, "state key 0 is longer")
}

func TestCycleCommitsStatePushesAndAckTogether(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	query := tb.register(a, "q")
	tb.push(a, "in", "p", 0, 6)
	req := request("in")
	req.Group, req.SubscriptionMode, req.LeaseSeconds = "streams.q", "all", 4
	answer := tb.pop(a, req)
	partition, lease := answer.Parts[0].PartitionID.String(), answer.Lease.String()
	c := Cycle{
		Tenant: DefaultTenant, QueryID: query, PartitionID: partition, Group: "streams.q", State: []StateOp{upsert("k", "1")},
		Pushes: []PushItem{item("out", "x", 1), item("out", "x", 2), item("out", "y", 1)}, Ack: &CycleAck{Lease: uuid.NewString(), OK: true}, Release: true,
	}
	var rollback *Rollback
	for _, wrong := range []string{"", uuid.NewString()} {
		c.Ack.Lease = wrong
		_, err := b.Cycle(t.Context(), c)
		require.ErrorAs(t, err, &rollback)
		require.Contains(t, rollback.Text, errLease)
	}
	require.Empty(t, tb.state(b, StateRequest{QueryID: query, PartitionID: partition}), "everything was rolled back")
	require.Nil(t, tb.pop(b, request("out")))

	// A gate lets two through; the rest comes back in order when the lease ends.
	c.Ack, c.Release = &CycleAck{Lease: lease, OK: true, Count: 2}, false
	got, err := b.Cycle(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, CycleAnswer{Queue: "in", Pushed: []CyclePush{{"out", "x", 0}, {"out", "y", 0}}, Count: 2}, got)
	require.Nil(t, tb.pop(a, req), "the lease stays")
	require.Eventually(t, func() bool { answer = tb.pop(a, req); return answer != nil }, 20*time.Second, 50*time.Millisecond)
	require.Len(t, answer.Parts[0].Messages, 4)
	require.Equal(t, "txn-2", answer.Parts[0].Messages[0].TransactionID)

	// What was pushed already is left out, and the cycle goes on.
	c.Ack, c.Release = &CycleAck{Lease: answer.Lease.String(), OK: false}, true
	c.Pushes = []PushItem{item("out", "x", 1), item("out", "y", 5)}
	got, err = a.Cycle(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []CyclePush{{"out", "x", -1}, {"out", "y", 1}}, got.Pushed)
	require.True(t, got.LeaseReleased)
	require.Zero(t, got.Count)
	answer = tb.pop(b, req)
	require.Len(t, answer.Parts[0].Messages, 4, "a bad ack commits nothing and releases")
	c.Ack, c.Pushes = &CycleAck{Lease: answer.Lease.String(), OK: true, Count: 4}, nil
	got, err = a.Cycle(t.Context(), c)
	require.NoError(t, err)
	require.EqualValues(t, 4, got.Count)
	require.True(t, got.LeaseReleased)
	require.Nil(t, tb.pop(b, req))
}

// Cycles of one query and partition that touch the same keys in any order do not lock each other out.
func TestCyclesOfOnePartitionDoNotDeadlock(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	query := tb.register(tb.brokers[0], "q")
	tb.push(tb.brokers[0], "in", "p", 0, 1)
	partition := tb.pop(tb.brokers[0], request("in")).Parts[0].PartitionID.String()
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 20 {
				ops := []StateOp{upsert(fmt.Sprint("k", (w+i)%5), "1"), {Key: fmt.Sprint("k", (w+2*i)%5)}, upsert(fmt.Sprint("k", i%5), "2")}
				_, err := tb.brokers[w%2].Cycle(t.Context(), Cycle{
					Tenant: DefaultTenant, QueryID: query, PartitionID: partition, State: ops, Pushes: []PushItem{item("out", fmt.Sprint(w), i)},
				})
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
}

func TestReplayMovesADeadLetterOnce(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	_, err := a.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "in", Options: map[string]any{"retryLimit": int64(0)}})
	require.NoError(t, err)
	bury := func(from int) (id, partition string) {
		tb.push(a, "in", "p", from, from+1)
		answer := tb.pop(a, request("in"))
		require.True(t, a.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(answer, AckFailed))[0].DLQ)
		var n int64
		require.NoError(t, tb.connect().QueryRow(t.Context(), "select max(id) from waggle.dead_letter").Scan(&n))
		return fmt.Sprint(n), answer.Parts[0].PartitionID.String()
	}
	id, partition := bury(0)
	for _, foreign := range []ReplayRequest{
		{Tenant: uuid.New(), ID: id},
		{Tenant: uuid.New(), PartitionID: partition, TransactionID: "txn-0"},
		{Tenant: DefaultTenant, ID: "x"},
		{Tenant: DefaultTenant, PartitionID: partition, TransactionID: "nobody"},
		{Tenant: DefaultTenant, PartitionID: "x", TransactionID: "txn-0"},
	} {
		_, err := b.Replay(t.Context(), foreign)
		require.ErrorIs(t, err, ErrNoDeadLetter)
	}
	// Two at once, on two brokers, by both names: one moves it.
	moved := make(chan error, 2)
	for i, r := range []ReplayRequest{{Tenant: DefaultTenant, ID: id}, {Tenant: DefaultTenant, PartitionID: partition, TransactionID: "txn-0"}} {
		go func() {
			_, err := tb.brokers[i].Replay(t.Context(), r)
			moved <- err
		}()
	}
	first, second := <-moved, <-moved
	if first != nil {
		first, second = second, first
	}
	require.NoError(t, first)
	require.ErrorIs(t, second, ErrNoDeadLetter)
	answer := tb.pop(b, request("in"))
	require.Len(t, answer.Parts[0].Messages, 1)
	require.Equal(t, "dlq:"+id, answer.Parts[0].Messages[0].TransactionID)
	require.JSONEq(t, `{"n":0}`, string(answer.Parts[0].Messages[0].Payload))
	tb.ackAll(b, "", answer)
	require.Zero(t, tb.count(tb.connect(), "select count(*) from waggle.dead_letter"))

	// One that was written already is only removed; one may go elsewhere.
	id, _ = bury(1)
	tb.pushItem(PushItem{Queue: "in", Partition: "p", Payload: []byte("1"), TransactionID: "dlq:" + id, HasTransactionID: true})
	r, err := b.Replay(t.Context(), ReplayRequest{Tenant: DefaultTenant, ID: id})
	require.NoError(t, err)
	require.True(t, r.Duplicate)
	tb.ackAll(b, "", tb.pop(b, request("in")))
	id, _ = bury(2)
	queue, name := "elsewhere", "x"
	r, err = b.Replay(t.Context(), ReplayRequest{Tenant: DefaultTenant, ID: id, Queue: &queue, Partition: &name})
	require.NoError(t, err)
	require.Equal(t, "elsewhere", r.Queue)
	require.Zero(t, r.Offset)
	require.Len(t, tb.pop(a, request("elsewhere")).Parts[0].Messages, 1)
}

func (tb *testBundle) pushItem(it PushItem) {
	tb.t.Helper()
	require.Equal(tb.t, Queued, tb.brokers[0].Push(tb.t.Context(), DefaultTenant, "", []PushItem{it})[0].Status)
}
