package broker

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// history is a random load over several brokers, and a checker of what its clients saw:
//
//   - what was acknowledged to a producer is delivered to every group;
//   - first deliveries are in order within a partition;
//   - what was acknowledged by a consumer is not delivered again to its group by a pop that began afterwards;
//   - a message keeps its id.
type history struct {
	t      *testing.T
	tb     *testBundle
	groups []string

	mu      sync.Mutex // guards everything below
	live    []*Broker
	pushed  map[string]int // by partition: messages below are acknowledged to the producer
	ids     map[string]uuid.UUID
	acked   map[string]int // by group and partition: messages below are acknowledged by the consumer
	first   map[string]int // by group and partition: the next message to be delivered for the first time
	again   int
	errors  int
	last    error
	ending  bool          // chaos is over: consumers finish without tricks
	recover time.Duration // the longest time that a producer could not push
}

func newHistory(t *testing.T, tb *testBundle) *history {
	return &history{
		t: t, tb: tb, groups: []string{QueueMode, "g"}, live: slices.Clone(tb.brokers), pushed: map[string]int{},
		ids: map[string]uuid.UUID{}, acked: map[string]int{}, first: map[string]int{},
	}
}

func (h *history) broker() *Broker {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live[rand.IntN(len(h.live))]
}

const historyQueue = "history"

// produce pushes one partition's messages in order, each batch again until it is stored.
func (h *history) produce(partition string, stop <-chan struct{}) {
	for n := 0; ; {
		select {
		case <-stop:
			return
		default:
		}
		count := 1 + rand.IntN(8)
		began := time.Now()
		for !h.push(partition, n, n+count) {
			time.Sleep(5 * time.Millisecond)
		}
		n += count
		h.mu.Lock()
		h.pushed[partition] = n
		h.recover = max(h.recover, time.Since(began))
		h.mu.Unlock()
	}
}

func (h *history) push(partition string, from, to int) (stored bool) {
	var items []PushItem
	for i := from; i < to; i++ {
		items = append(items, item(historyQueue, partition, i))
	}
	stored = true
	for i, r := range h.broker().Push(context.Background(), DefaultTenant, "", items) {
		if r.Status != Queued && r.Status != Duplicate {
			stored = false
			continue
		}
		h.sameID(partition, from+i, r.MessageID)
	}
	return stored
}

func (h *history) sameID(partition string, n int, id uuid.UUID) {
	key := fmt.Sprint(partition, "/", n)
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.ids[key]; ok && known != id {
		h.t.Errorf("%s is stored twice: %s and %s", key, known, id)
	}
	h.ids[key] = id
}

func number(payload []byte) int {
	n, err := strconv.Atoi(strings.Trim(string(payload), `{"n:}`))
	if err != nil {
		panic(err)
	}
	return n
}

// consume pops and acks, well or badly, until done says so.
func (h *history) consume(group string, done func() bool) {
	for !done() {
		h.mu.Lock()
		before, careful := maps.Clone(h.acked), h.ending
		h.mu.Unlock()
		req := PopRequest{
			Tenant: DefaultTenant, Queue: historyQueue, Group: group, SubscriptionMode: "all", Batch: 1 + rand.IntN(40),
			Partitions: rand.IntN(4), LeaseSeconds: 1, Wait: rand.IntN(2) == 0, Timeout: 100 * time.Millisecond,
		}
		if careful {
			req.Batch, req.Partitions = 1000, 0
		}
		b := h.broker()
		answer, err := b.Pop(context.Background(), req)
		if err != nil {
			h.failed(err)
			continue
		}
		if answer == nil {
			continue
		}
		h.delivered(group, answer, before)
		h.acknowledge(b, group, answer, careful)
		answer.Release()
	}
}

func (h *history) failed(err error) {
	h.mu.Lock()
	h.errors++
	h.last = err
	h.mu.Unlock()
	time.Sleep(5 * time.Millisecond)
}

func (h *history) delivered(group string, answer *PopAnswer, before map[string]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, part := range answer.Parts {
		key := group + "/" + part.Partition
		for i, m := range part.Messages {
			n := number(m.Payload)
			if n < before[key] {
				h.t.Errorf("%s: %d came again although it had been acknowledged up to %d", key, n, before[key])
			}
			if i > 0 && n != number(part.Messages[i-1].Payload)+1 {
				h.t.Errorf("%s: %d after %d", key, n, number(part.Messages[i-1].Payload))
			}
			switch {
			case n > h.first[key]:
				h.t.Errorf("%s: %d before %d", key, n, h.first[key])
			case n == h.first[key]:
				h.first[key]++
			default:
				h.again++
			}
		}
	}
}

func (h *history) acknowledge(b *Broker, group string, answer *PopAnswer, careful bool) {
	if rand.IntN(3) == 0 {
		b = h.broker()
	}
	items := acksOf(answer, AckCompleted)
	way := rand.IntN(10)
	if careful {
		way = 9
	}
	switch way {
	case 0:
		return // the lease expires
	case 1:
		b.GiveBack(answer)
		return
	case 2:
		for i := range items {
			items[i].Status = AckRetry
		}
	case 3:
		items = items[:1+rand.IntN(len(items))]
	}
	at := 0
	results := b.Ack(context.Background(), DefaultTenant, group, items)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, part := range answer.Parts {
		key := group + "/" + part.Partition
		for _, m := range part.Messages {
			if at == len(items) {
				return
			}
			if results[at].Success && items[at].Status == AckCompleted {
				h.acked[key] = max(h.acked[key], number(m.Payload)+1)
			}
			at++
		}
	}
}

// run lets the load run while chaos works, then consumes what is left, and checks.
func (h *history) run(partitions int, chaos func()) {
	stop := make(chan struct{})
	var producers, consumers sync.WaitGroup
	for p := range partitions {
		producers.Go(func() { h.produce(fmt.Sprint("p", p), stop) })
	}
	deadline := time.Time{}
	done := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		if deadline.IsZero() {
			return false
		}
		for _, group := range h.groups {
			for partition, n := range h.pushed {
				if h.acked[group+"/"+partition] < n {
					return time.Now().After(deadline)
				}
			}
		}
		return true
	}
	for i := range 6 {
		consumers.Go(func() { h.consume(h.groups[i%2], done) })
	}
	chaos()
	close(stop)
	producers.Wait()
	h.mu.Lock()
	deadline, h.ending = time.Now().Add(20*time.Second), true
	h.mu.Unlock()
	consumers.Wait()
	total := 0
	for partition, n := range h.pushed {
		total += n
		for _, group := range h.groups {
			require.GreaterOrEqual(h.t, h.first[group+"/"+partition], n, "%s lost messages of %s", group, partition)
			require.GreaterOrEqual(h.t, h.acked[group+"/"+partition], n, "%s could not acknowledge %s", group, partition)
		}
	}
	h.t.Logf("%d messages, %d redeliveries, longest push %v, %d failed pops, last %v", total, h.again, h.recover, h.errors, h.last)
	require.Greater(h.t, total, 10)
}

func (h *history) replace(i int) {
	fresh := h.tb.add()
	h.mu.Lock()
	old := h.live[i]
	h.live[i] = fresh
	h.mu.Unlock()
	old.Close()
	old.db.Close()
}

func TestNothingIsLostWhenBrokersComeAndGo(t *testing.T) {
	t.Parallel()
	h := newHistory(t, newBundle(t, 3, quiet))
	h.run(5, func() {
		for range 12 {
			time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
			h.replace(rand.IntN(3))
		}
	})
}

func TestNothingIsLostWhenTheServerRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("restarts a server")
	}
	t.Parallel()
	server := pgtest.NewServer(t, nil)
	h := newHistory(t, newBundleOn(t, 3, server, quiet))
	h.run(4, func() {
		restart := func(end func()) (away time.Duration) {
			time.Sleep(700 * time.Millisecond)
			began := time.Now()
			end()
			server.Start()
			away = time.Since(began)
			time.Sleep(700 * time.Millisecond)
			return away
		}
		away := max(restart(server.Stop), restart(server.Stop))
		h.mu.Lock()
		recovered := h.recover - away
		h.mu.Unlock()
		require.Less(h.t, recovered, 15*time.Second, "to work again after the server is back")
		// A crash may leave sessions that hang in the middle of a commit.
		restart(server.Kill)
	})
	require.Less(t, h.recover, 45*time.Second)
}

// The connection breaks again and again, at random moments of the protocol.
func TestNothingIsLostOnABadLine(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, quiet)
	proxy := pgtest.NewProxy(t, tb.database.URL)
	tb.addAt(proxy.URL(), quiet)
	tb.addAt(proxy.URL(), quiet)
	h := newHistory(t, tb)
	h.run(4, func() {
		for range 60 {
			time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
			switch rand.IntN(3) {
			case 0:
				proxy.CutOnSync(pgtest.BeforeAnswer, func(string) bool { return true })
			case 1:
				proxy.CutOnSync(pgtest.BeforeServer, func(string) bool { return true })
			default:
				proxy.Cut()
			}
		}
		proxy.CutOnSync(pgtest.BeforeServer, func(string) bool { return false })
	})
}
