package node_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"waggle/client"
)

// ledger is what the clients of a run know: every acknowledged push, every delivery, every acknowledged ack. check says
// whether the brokers kept their promises, judged by that alone.
type ledger struct {
	lease time.Duration

	mu      sync.Mutex // guards what follows
	entries map[string]*entry
	clock   int // numbers the deliveries in the order in which they were noted
}

// entry is the life of one message. Its transaction id is "PARTITION-NUMBER", and numbers rise in the order of pushes.
type entry struct {
	partition string
	number    int
	// id is what the acknowledged push said; empty while nothing was acknowledged.
	id         string
	deliveries []delivery
	// acked is when the first successful ack was answered; doubtful means that an ack was sent and its answer lost.
	acked    time.Time
	doubtful bool
}

type delivery struct {
	id      string
	attempt int
	// The claim happened between asked and got.
	asked, got time.Time
	order      int
}

func newLedger(lease time.Duration) *ledger {
	return &ledger{lease: lease, entries: map[string]*entry{}}
}

func transactionOf(partition string, number int) string {
	return fmt.Sprintf("%s-%d", partition, number)
}

func (l *ledger) entry(transaction string) *entry {
	e := l.entries[transaction]
	if e == nil {
		e = &entry{number: -1}
		l.entries[transaction] = e
	}
	return e
}

func (l *ledger) pushed(partition string, number int, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(transactionOf(partition, number))
	e.partition, e.number, e.id = partition, number, id
}

func (l *ledger) delivered(asked time.Time, got *client.PopAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, m := range got.Messages {
		e := l.entry(m.TransactionID)
		l.clock++
		e.deliveries = append(e.deliveries, delivery{m.ID, m.DeliveryAttempt, asked, now, l.clock})
	}
}

func (l *ledger) acked(got *client.PopAnswer, results []client.AckResult, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, m := range got.Messages {
		e := l.entry(m.TransactionID)
		switch {
		case err != nil || !results[i].Success:
			// Refused counts as doubt as well: the client repeats an ack whose answer was lost.
			e.doubtful = true
		case e.acked.IsZero():
			e.acked = time.Now()
		}
	}
}

// settled says whether every stored message was delivered, and acknowledged as far as its consumer can tell.
func (l *ledger) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.id != "" && (len(e.deliveries) == 0 || e.acked.IsZero() && !e.doubtful) {
			return false
		}
	}
	return true
}

// check returns every broken promise. Without exclusive, a lease may end early, as it may in a crash of the database.
func (l *ledger) check(exclusive bool) (broken []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	report := func(transaction, format string, args ...any) {
		broken = append(broken, transaction+": "+fmt.Sprintf(format, args...))
	}
	partitions := map[string][]*entry{}
	for transaction, e := range l.entries {
		switch {
		case e.id == "":
			report(transaction, "delivered, and no push of it was acknowledged in the end")
			continue
		case len(e.deliveries) == 0:
			report(transaction, "lost: acknowledged to its producer and never delivered")
			continue
		}
		partitions[e.partition] = append(partitions[e.partition], e)
		for i, d := range e.deliveries {
			if d.id != e.id {
				report(transaction, "delivered as %s, stored as %s", d.id, e.id)
			}
			if i == 0 {
				continue
			}
			before := e.deliveries[i-1]
			if !e.acked.IsZero() && e.acked.Before(d.asked) {
				report(transaction, "delivered again to a pop that began %v after its ack was answered", d.asked.Sub(e.acked))
			}
			if gap := d.got.Sub(before.asked); exclusive && gap < l.lease {
				report(transaction, "delivered again after %v, within its lease of %v", gap, l.lease)
			}
			if exclusive && d.attempt <= before.attempt {
				report(transaction, "delivery attempt %d came after attempt %d", d.attempt, before.attempt)
			}
		}
	}
	for _, entries := range partitions {
		slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(a.deliveries[0].order, b.deliveries[0].order) })
		for i, e := range entries {
			if e.number != i {
				report(transactionOf(e.partition, e.number), "was the %dth of its partition to be delivered first", i)
				break
			}
		}
	}
	return broken
}

func (l *ledger) counts() (stored, redelivered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		stored++
		redelivered += max(0, len(e.deliveries)-1)
	}
	return stored, redelivered
}

// workload drives a queue of a cluster until it is stopped.
type workload struct {
	*ledger
	queue      string
	client     *client.Client
	partitions int
	consumers  int
	producing  sync.WaitGroup
	consuming  sync.WaitGroup
	stopPush   chan struct{}
	stopPop    context.CancelFunc

	// strict says that somebody is there to answer all the time, so that no call may fail at all.
	strict bool

	failuresMu sync.Mutex // guards failures
	failures   []error
}

// startWorkload configures the queue and starts a producer for each partition and some consumers. Clients know all URLs
// and, like any client that means it, try again until they are answered.
func startWorkload(t testing.TB, queue string, urls []string, partitions, consumers int) *workload {
	t.Helper()
	return startWorkloadOf(t, &workload{queue: queue, partitions: partitions, consumers: consumers}, urls)
}

// startStrictWorkload is for clusters of which at least one broker serves at any time.
func startStrictWorkload(t testing.TB, queue string, urls []string, partitions, consumers int) *workload {
	t.Helper()
	return startWorkloadOf(t, &workload{queue: queue, partitions: partitions, consumers: consumers, strict: true}, urls)
}

func startWorkloadOf(t testing.TB, w *workload, urls []string) *workload {
	t.Helper()
	const lease = 2
	w.ledger, w.stopPush = newLedger(lease*time.Second), make(chan struct{})
	w.client = newClientOf(t, client.Config{URLs: urls, DownFor: 200 * time.Millisecond, Timeout: 10 * time.Second})
	queue := w.queue
	if _, err := w.client.Configure(t.Context(), client.Configuration{
		Queue: queue, Options: map[string]any{"leaseTime": lease, "retryLimit": 1000},
	}); err != nil {
		t.Fatalf("configure: %v", err)
	}
	// The group is registered before the first push, so that it starts before it.
	if _, err := w.client.Pop(t.Context(), w.request("all")); err != nil {
		t.Fatalf("register the group: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.stopPop = cancel
	for p := range w.partitions {
		w.producing.Go(func() { w.produce(ctx, fmt.Sprintf("p%d", p)) })
	}
	for range w.consumers {
		w.consuming.Go(func() { w.consume(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		w.producing.Wait()
		w.consuming.Wait()
	})
	return w
}

func (w *workload) request(mode string) client.PopRequest {
	return client.PopRequest{Queue: w.queue, Group: "g", Batch: 60, Partitions: 3, Mode: mode}
}

func (w *workload) produce(ctx context.Context, partition string) {
	for number := 0; ; {
		select {
		case <-w.stopPush:
			return
		case <-ctx.Done():
			return
		default:
		}
		items := make([]client.Item, 1+rand.IntN(12))
		for i := range items {
			items[i] = client.Item{
				Queue: w.queue, Partition: partition, TransactionID: transactionOf(partition, number+i),
				Payload: json.RawMessage(fmt.Sprintf(`{"partition":%q,"number":%d}`, partition, number+i)),
			}
		}
		w.pushAll(ctx, partition, number, items)
		number += len(items)
	}
}

// pushAll repeats a push until every item of it is stored.
func (w *workload) pushAll(ctx context.Context, partition string, number int, items []client.Item) {
	for ctx.Err() == nil {
		results, err := w.client.Push(ctx, items)
		stored := err == nil
		for i := range results {
			if s := results[i].Status; s != client.Queued && s != client.Duplicate {
				stored = false
			}
		}
		if !stored {
			if err == nil && w.strict {
				err = fmt.Errorf("push answered %+v", results)
			}
			w.mustPass(err)
			sitOut(ctx)
			continue
		}
		for i, r := range results {
			w.pushed(partition, number+i, r.MessageID)
		}
		return
	}
}

func (w *workload) consume(ctx context.Context) {
	request := w.request("")
	request.Wait, request.Timeout = true, 500*time.Millisecond
	for ctx.Err() == nil {
		asked := time.Now()
		got, err := w.client.Pop(ctx, request)
		if err != nil {
			w.mustPass(err)
			sitOut(ctx)
			continue
		}
		if got == nil {
			continue
		}
		w.delivered(asked, got)
		if rand.IntN(200) == 0 {
			continue // a consumer that died: its lease has to run out
		}
		results, err := w.client.AckBatch(ctx, "g", got.Completed())
		w.acked(got, results, err)
		w.mustPass(err)
	}
}

// sitOut keeps a client from hammering brokers that cannot serve it now.
func sitOut(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// mustPass notes an error that no outage explains.
func (w *workload) mustPass(err error) {
	var unreachable *client.UnreachableError
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &unreachable) && !w.strict {
		return
	}
	w.failuresMu.Lock()
	defer w.failuresMu.Unlock()
	w.failures = append(w.failures, err)
}

// finish stops the producers, lets the consumers take the rest, and judges.
func (w *workload) finish(t testing.TB, exclusive bool) {
	t.Helper()
	close(w.stopPush)
	w.producing.Wait()
	took := eventually(t, "every message is delivered and acknowledged", w.settled)
	w.stopPop()
	w.consuming.Wait()
	stored, redelivered := w.counts()
	t.Logf("%d messages, %d redeliveries, drained %v after the last push", stored, redelivered, took.Round(time.Millisecond))
	if stored == 0 {
		t.Errorf("nothing was stored")
	}
	broken := w.check(exclusive)
	for _, b := range broken[:min(len(broken), 20)] {
		t.Error(b)
	}
	if len(broken) > 20 {
		t.Errorf("and %d more", len(broken)-20)
	}
	for _, err := range w.failures {
		t.Errorf("a client was told: %v", err)
	}
}
