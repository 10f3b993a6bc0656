package broker

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// batchOps are the kinds of calls that share flushes, as the families of the compatible broker call them.
var batchOps = [...]string{"push", "pop", "ack"}

// batching counts how calls share flushes.
type batching struct {
	batches, items       [len(batchOps)]atomic.Int64
	flushes, busy        atomic.Int64 // busy in nanoseconds
	inFlight             atomic.Int64
	fillWaits, fillNanos atomic.Int64
	targeted, wildcard   atomic.Int64
	seconds              *prometheus.SummaryVec
}

func newBatching(registerer prometheus.Registerer) *batching {
	s := prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name: "queen_batch_rtt_milliseconds", Help: "Time from sending a flush to its answer, by what it carried.",
		Objectives: map[float64]float64{0.5: 0.05, 0.95: 0.01, 0.99: 0.001},
	}, []string{"op"})
	for _, op := range batchOps {
		s.WithLabelValues(op)
	}
	registerer.MustRegister(s)
	return &batching{seconds: s}
}

// carried is how much of each kind a flight holds: messages, pops, acknowledgements.
func (f *flight) carried() (n [len(batchOps)]int) {
	for _, p := range f.parts {
		n[0] += len(p.records)
	}
	n[1], n[2] = len(f.claims), len(f.acks)
	return n
}

func (t *batching) flushed(carried [len(batchOps)]int, took time.Duration) {
	t.inFlight.Add(-1)
	t.flushes.Add(1)
	t.busy.Add(int64(took))
	for op, n := range carried {
		if n > 0 {
			t.batches[op].Add(1)
			t.items[op].Add(int64(n))
			t.seconds.WithLabelValues(batchOps[op]).Observe(float64(took) / float64(time.Millisecond))
		}
	}
}

// popArrived counts a pop by whether it names its partition.
func (t *batching) popArrived(pinned bool) {
	if pinned {
		t.targeted.Add(1)
	} else {
		t.wildcard.Add(1)
	}
}

// Batching is how calls have shared flushes since the start of this process.
type Batching struct {
	Ops       []BatchedOp
	Flushes   int64
	FlushTime time.Duration
	// Lanes is how many flushes may be on their way at once, InFlight how many are, not counting those that wait alone
	// for a partition; Waiting is how many calls wait for their turn.
	Lanes, InFlight, Waiting int64
	// FillWaits is how many pops waited for a fuller batch, FillWait for how long together.
	FillWaits int64
	FillWait  time.Duration
	// Targeted pops name their partition, Wildcard ones do not.
	Targeted, Wildcard int64
}

// BatchedOp is one kind of call: how many flushes carried any, and how many they carried.
type BatchedOp struct {
	Op             string
	Batches, Items int64
}

// Batching returns it.
func (b *Broker) Batching() Batching {
	t := b.metrics.batching
	out := Batching{
		Flushes: t.flushes.Load(), FlushTime: time.Duration(t.busy.Load()), Lanes: int64(len(b.lanes)), InFlight: t.inFlight.Load(),
		FillWaits: t.fillWaits.Load(), FillWait: time.Duration(t.fillNanos.Load()),
		Targeted: t.targeted.Load(), Wildcard: t.wildcard.Load(),
	}
	for i, op := range batchOps {
		out.Ops = append(out.Ops, BatchedOp{op, t.batches[i].Load(), t.items[i].Load()})
	}
	for _, l := range b.lanes {
		out.Waiting += int64(l.waiting())
	}
	return out
}

// waiting is how many calls wait for a flush of the lane.
func (l *lane) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.claims) + len(l.acks)
	for _, q := range l.tenants.turns {
		n += len(q.groups) - q.head
	}
	return n
}
