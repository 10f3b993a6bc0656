package broker

import (
	"slices"
	"sync"
	"sync/atomic"

	"waggle/pg"
)

// activity counts what was done for one queue since it was last taken. It hangs on the queue, so that counting needs no
// look-up, and outlives what is remembered of the queue's options.
type activity struct {
	pushRequests, pushMessages           atomic.Int64
	popRequests, popMessages, popEmpty   atomic.Int64
	ackRequests, ackSuccess, ackFailed   atomic.Int64
	transactions, partitions, letters    atomic.Int64
	expired, completed, evicted, steps   atomic.Int64
	lagCount, lagSumMillis, lagMaxMillis atomic.Int64
	conflated                            atomic.Int64
	all                                  *totals
}

// totals count what this process has done since its start.
type totals struct {
	pushRequests, pushMessages atomic.Int64
	popRequests, popMessages   atomic.Int64
	ackRequests, ackMessages   atomic.Int64
}

// activities holds those of all queues that this broker has met. Beyond maxActivities queues the rest shares one that
// nobody reads: a list of what was done must not grow without bound.
type activities struct {
	mu      sync.Mutex // guards byQueue
	byQueue map[int64]*activity
	rest    activity
	all     totals
}

const maxActivities = 50_000

func newActivities() *activities {
	a := &activities{byQueue: map[int64]*activity{}}
	a.rest.all = &a.all
	return a
}

func (a *activities) of(queue int64) *activity {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.byQueue[queue]
	if found == nil {
		if len(a.byQueue) >= maxActivities {
			return &a.rest
		}
		found = &activity{all: &a.all}
		a.byQueue[queue] = found
	}
	return found
}

func (a *activity) pushed(messages int) {
	a.pushRequests.Add(1)
	a.pushMessages.Add(int64(messages))
	a.all.pushRequests.Add(1)
	a.all.pushMessages.Add(int64(messages))
}

// popped counts an answer and how old the first message of each part was, by the database's clock.
func (a *activity) popped(parts []PopPart, now int64) {
	a.popRequests.Add(1)
	a.all.popRequests.Add(1)
	for i := range parts {
		a.popMessages.Add(int64(len(parts[i].Messages)))
		a.all.popMessages.Add(int64(len(parts[i].Messages)))
		lag := max((now-parts[i].Messages[0].CreatedAt.UnixMicro())/1000, 0)
		a.lagCount.Add(1)
		a.lagSumMillis.Add(lag)
		for {
			highest := a.lagMaxMillis.Load()
			if lag <= highest || a.lagMaxMillis.CompareAndSwap(highest, lag) {
				break
			}
		}
	}
}

func (a *activity) empty() {
	a.popRequests.Add(1)
	a.all.popRequests.Add(1)
	a.popEmpty.Add(1)
}

func (a *activity) acked(results []AckResult, indexes []int) {
	a.ackRequests.Add(1)
	a.all.ackRequests.Add(1)
	a.all.ackMessages.Add(int64(len(indexes)))
	for _, i := range indexes {
		if results[i].Success {
			a.ackSuccess.Add(1)
		} else {
			a.ackFailed.Add(1)
		}
	}
}

func (a *activity) take(queue int64) pg.QueueActivity {
	return pg.QueueActivity{
		Queue: queue, PushRequests: a.pushRequests.Swap(0), PushMessages: a.pushMessages.Swap(0),
		PopRequests: a.popRequests.Swap(0), PopMessages: a.popMessages.Swap(0), PopEmpty: a.popEmpty.Swap(0),
		AckRequests: a.ackRequests.Swap(0), AckSuccess: a.ackSuccess.Swap(0), AckFailed: a.ackFailed.Swap(0),
		Transactions: a.transactions.Swap(0), PartitionsCreated: a.partitions.Swap(0), DeadLetters: a.letters.Swap(0),
		Expired: a.expired.Swap(0), Completed: a.completed.Swap(0), Evicted: a.evicted.Swap(0), RetentionSteps: a.steps.Swap(0),
		LagCount: a.lagCount.Swap(0), LagSumMillis: a.lagSumMillis.Swap(0), LagMaxMillis: a.lagMaxMillis.Swap(0),
		Conflated: a.conflated.Swap(0),
	}
}

// Totals are what this process has done since its start.
type Totals struct {
	PushRequests, PushMessages int64
	PopRequests, PopMessages   int64
	AckRequests, AckMessages   int64
}

// Totals returns them.
func (b *Broker) Totals() Totals {
	t := &b.activities.all
	return Totals{
		PushRequests: t.pushRequests.Load(), PushMessages: t.pushMessages.Load(), PopRequests: t.popRequests.Load(),
		PopMessages: t.popMessages.Load(), AckRequests: t.ackRequests.Load(), AckMessages: t.ackMessages.Load(),
	}
}

// ParkedByName counts the pops that wait, by the names of their queues, those of all tenants together.
func (b *Broker) ParkedByName() map[string]int64 {
	out := map[string]int64{}
	parked := b.watch.parkedByQueue()
	b.catalog.mu.RLock()
	defer b.catalog.mu.RUnlock()
	for id, n := range parked {
		if q := b.catalog.byID[id]; q != nil {
			out[q.name] += n
		}
	}
	return out
}

// QueueActivity is what was done for a queue.
type QueueActivity = pg.QueueActivity

// TakeActivity returns what was done for queues since the last call, and how many consumers are parked now. Queues for
// which nothing was done are left out.
func (b *Broker) TakeActivity() []QueueActivity {
	parked := b.watch.parkedByQueue()
	b.activities.mu.Lock()
	defer b.activities.mu.Unlock()
	var out []QueueActivity
	for id, a := range b.activities.byQueue {
		taken := a.take(id)
		taken.Parked = parked[id]
		if taken != (QueueActivity{Queue: id}) {
			out = append(out, taken)
		}
	}
	slices.SortFunc(out, func(a, b QueueActivity) int { return int(a.Queue - b.Queue) })
	return out
}

// GiveBackActivity adds what could not be written, so that the next call returns it again.
func (b *Broker) GiveBackActivity(lost []QueueActivity) {
	for i := range lost {
		l, a := &lost[i], b.activities.of(lost[i].Queue)
		a.pushRequests.Add(l.PushRequests)
		a.pushMessages.Add(l.PushMessages)
		a.popRequests.Add(l.PopRequests)
		a.popMessages.Add(l.PopMessages)
		a.popEmpty.Add(l.PopEmpty)
		a.ackRequests.Add(l.AckRequests)
		a.ackSuccess.Add(l.AckSuccess)
		a.ackFailed.Add(l.AckFailed)
		a.transactions.Add(l.Transactions)
		a.partitions.Add(l.PartitionsCreated)
		a.letters.Add(l.DeadLetters)
		a.expired.Add(l.Expired)
		a.completed.Add(l.Completed)
		a.evicted.Add(l.Evicted)
		a.steps.Add(l.RetentionSteps)
		a.lagCount.Add(l.LagCount)
		a.lagSumMillis.Add(l.LagSumMillis)
		a.conflated.Add(l.Conflated)
		a.lagMaxMillis.Store(max(a.lagMaxMillis.Load(), l.LagMaxMillis))
	}
}

// NoteRemoved counts the messages of a queue that retention took away.
func (b *Broker) NoteRemoved(queue, expired, completed, evicted, steps int64) {
	a := b.activities.of(queue)
	a.expired.Add(expired)
	a.completed.Add(completed)
	a.evicted.Add(evicted)
	a.steps.Add(steps)
}

// parkedByQueue counts the pops that wait, by queue.
func (w *watch) parkedByQueue() map[int64]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	parked := map[int64]int64{}
	for _, s := range w.sets {
		n := s.parked.Len()
		for _, l := range s.pinned {
			n += l.Len()
		}
		if n > 0 {
			parked[s.key.queue] += int64(n)
		}
	}
	return parked
}
