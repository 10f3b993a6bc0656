package bench

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// side runs one side once.
func (r *runner) side(ctx context.Context, side string) (*sample, error) {
	switch side {
	case sideNoStore:
		return r.noStoreSide(ctx)
	case sidePush1:
		return r.pushSide(ctx, side, connections1, 1, partitions, r.targets[:1])
	case sidePush1Wide:
		return r.pushSide(ctx, side, connections1, 1, partitionsWide, r.targets[:1])
	case sidePush100:
		return r.pushSide(ctx, side, connections100, batch100, partitions, r.targets[:1])
	case sideCluster:
		return r.pushSide(ctx, side, connections100, batch100, partitions, r.targets)
	case sideBlobs:
		load := &blobLoad{url: r.cluster.Postgres, connections: connections100, records: batch100, partitions: partitions}
		return r.timed(ctx, load.run, r.cluster.pids())
	case sideDrain100:
		return r.drainWithin(ctx, drainPatience)
	case sideLive100:
		return r.liveSide(ctx, side, liveShape{
			connections: connections100, batch: batch100, partitions: partitions, consumers: consumers100, backlog: backlog100,
			ask: askBatch(batch100),
		})
	case sideLive1:
		return r.liveSide(ctx, side, liveShape{
			connections: connections1, batch: 1, partitions: partitionsLive, consumers: consumersLive1, backlog: backlog1,
			ask: askBatch(1),
		})
	case sidePilot64, sideFixed64, sidePilot1, sideFixed1, sidePilot16, sideFixed16:
		return r.liveSide(ctx, side, pilotShapes[side])
	case sideMove, sideMoveApart:
		return r.liveSide(ctx, side, liveShape{
			connections: connections100, batch: batch100, partitions: partitions, consumers: consumers100, backlog: backlog100,
			ask: askBatch(batch100), onward: true, together: side == sideMove,
		})
	case sideSparse, sideDense:
		shape := liveShape{
			connections: connections100, batch: batch100, partitions: partitionsWide, consumers: consumers100, backlog: backlog100,
			group: sparseGroup, ask: askBatch(batch100) + "&consumerGroup=" + sparseGroup, fresh: true,
		}
		if side == sideSparse {
			shape.idle = r.config.Idle
		}
		return r.liveSide(ctx, side, shape)
	case sideUpdate:
		return updateLoad(ctx, r.db, r.nextSpan(0))
	case sideWake:
		return r.wakeSide(ctx)
	}
	return nil, fmt.Errorf("there is no side %q", side)
}

// nextSpan begins after a warm-up from now.
func (r *runner) nextSpan(warmUp time.Duration) span {
	begin := time.Now().Add(warmUp)
	return span{begin, begin.Add(r.config.Side)}
}

// spent is what has been used up so far by the given processes, the server and this process.
func (r *runner) spent(ctx context.Context, pids []int) cost {
	c := cost{brokers: processesTime(pids), postgres: -1, load: ownTime(), writes: -1, wal: -1}
	if r.db != nil {
		c.postgres = familyTime(r.db.postmaster)
		c.writes, c.wal = r.db.counters(ctx)
	}
	return c
}

// timed runs a closed loop for one span and charges it with what was spent within.
func (r *runner) timed(ctx context.Context, run func(context.Context, span) func() *sample, pids []int) (*sample, error) {
	s := r.nextSpan(r.config.WarmUp)
	wait := run(ctx, s)
	spent := r.meter(ctx, s, pids)
	got := wait()
	got.cost = spent
	got.rate = float64(got.messages) / s.end.Sub(s.begin).Seconds()
	return got, nil
}

// meter returns at the end of the span, or earlier with the context.
func (r *runner) meter(ctx context.Context, s span, pids []int) cost {
	sleepUntil(ctx, s.begin)
	before := r.spent(ctx, pids)
	sleepUntil(ctx, s.end)
	return r.spent(ctx, pids).since(before)
}

func (r *runner) noStoreSide(ctx context.Context) (*sample, error) {
	address, err := r.noStore.broker.address()
	if err != nil {
		return nil, err
	}
	load := &pushLoad{
		targets: []string{address}, queue: "bench-no-store-00000000", prefix: "00000000",
		connections: connections1, batch: 1, partitions: partitions,
	}
	return r.timed(ctx, load.run, []int{r.noStore.broker.PID})
}

func (r *runner) pushSide(ctx context.Context, side string, connections, batch, partitions int, targets []string) (*sample, error) {
	queue, prefix, err := r.newQueue(ctx, side, partitions)
	if err != nil {
		return nil, err
	}
	load := &pushLoad{
		targets: targets, queue: queue, prefix: prefix, connections: connections, batch: batch, partitions: partitions,
	}
	return r.timed(ctx, load.run, r.cluster.pids())
}

// drainWithin fills a queue outside the clock, through a broker that will not be asked for it, and drains it.
func (r *runner) drainWithin(ctx context.Context, patience time.Duration) (*sample, error) {
	queue, prefix, err := r.newQueue(ctx, sideDrain100, partitions)
	if err != nil {
		return nil, err
	}
	if err := r.takePrimes(ctx, queue, "", partitions); err != nil {
		return nil, err
	}
	if len(r.targets) < 2 {
		r.note("one broker only: part of what is drained may come from its cache")
	}
	ledger := newAudit(prefix, connections100, partitions)
	var stored, consumed, wanted atomic.Int64
	fill := &pushLoad{
		targets: r.targets[len(r.targets)-1:], queue: queue, prefix: prefix, connections: connections100, batch: batch100,
		partitions: partitions, audit: ledger, most: r.config.Records, stored: &stored,
	}
	far := time.Now().Add(10 * time.Minute)
	if filled := fill.run(ctx, span{far, far})(); filled.failed > 0 {
		return nil, fmt.Errorf("fill: %w", filled.failure)
	}
	if r.db != nil {
		if err := r.db.settle(ctx); err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
	}
	wanted.Store(stored.Load())
	drain := &drainLoad{
		target: r.targets[0], queue: queue, consumers: consumers100, ask: askBatch(batch100), ackLast: r.config.AckLast,
		audit: ledger, wanted: &wanted, consumed: &consumed,
	}
	begin := time.Now()
	before := r.spent(ctx, r.cluster.pids())
	got := drain.run(ctx, span{begin, begin.Add(patience)}, 0)()
	got.cost = r.spent(ctx, r.cluster.pids()).since(before)
	end := time.Now()
	if at := drain.drained.Load(); at != 0 {
		end = time.Unix(0, at)
	} else if ctx.Err() == nil {
		r.note("drain100: not all was consumed within %v", patience)
	}
	got.rate = float64(got.messages) / end.Sub(begin).Seconds()
	tally := ledger.result()
	got.tally = &tally
	return got, nil
}

// sparseGroup begins behind the messages that made the partitions.
const sparseGroup = "sparse"

// liveShape is a live side: pushers and consumers at once.
type liveShape struct {
	connections, batch, partitions, consumers int
	backlog                                   int64
	// group and ask are as in drainLoad.
	group, ask string
	// idle partitions stand beside those that are pushed to; fresh says that the group begins when they all are there.
	idle  int
	fresh bool
	// onward consumers pass what they pop on to another queue, together with the acknowledgement or apart from it.
	onward, together bool
}

// liveSide counts what came through both: pushed, popped and acknowledged within the span.
func (r *runner) liveSide(ctx context.Context, side string, shape liveShape) (*sample, error) {
	queue, prefix, err := r.newQueue(ctx, side, shape.partitions+shape.idle)
	if err != nil {
		return nil, err
	}
	if shape.fresh {
		err = r.beginGroup(ctx, queue, shape.group)
	} else {
		err = r.takePrimes(ctx, queue, shape.group, shape.partitions)
	}
	if err != nil {
		return nil, err
	}
	var move func() *mover
	if shape.onward {
		next, _, err := r.newQueue(ctx, side+"-next", shape.partitions)
		if err != nil {
			return nil, err
		}
		move = func() *mover { return &mover{queue: next, together: shape.together} }
	}
	ledger := newAudit(prefix, shape.connections, shape.partitions)
	var stored, consumed, wanted atomic.Int64
	wanted.Store(math.MaxInt64)
	push := &pushLoad{
		targets: r.targets[:1], queue: queue, prefix: prefix, connections: shape.connections, batch: shape.batch,
		partitions: shape.partitions, audit: ledger, stored: &stored,
		admit: func(ctx context.Context) bool {
			for stored.Load()-consumed.Load() > shape.backlog {
				if !sleepUntil(ctx, time.Now().Add(time.Millisecond)) {
					return false
				}
			}
			return true
		},
	}
	drain := &drainLoad{
		target: r.targets[0], queue: queue, consumers: shape.consumers, group: shape.group, ask: shape.ask, ackLast: r.config.AckLast,
		move: move, audit: ledger, wanted: &wanted, consumed: &consumed,
	}
	got, err := r.timed(ctx, func(ctx context.Context, s span) func() *sample {
		pushed, drained := push.run(ctx, s), drain.run(ctx, s, liveGrace)
		return func() *sample {
			p := pushed()
			wanted.Store(stored.Load())
			d := drained()
			d.failed += p.failed
			if d.failure == nil {
				d.failure = p.failure
			}
			return d
		}
	}, r.cluster.pids())
	if err != nil {
		return nil, err
	}
	tally := ledger.result()
	got.tally = &tally
	return got, nil
}

// wakeSide parks on the second broker and pushes to the first.
func (r *runner) wakeSide(ctx context.Context) (*sample, error) {
	queue, prefix, err := r.newQueue(ctx, sideWake, 1)
	if err != nil {
		return nil, err
	}
	if err := r.takePrimes(ctx, queue, "", 1); err != nil {
		return nil, err
	}
	load := &wakeLoad{pushTo: r.targets[0], popAt: r.targets[1], queue: queue, prefix: prefix}
	return load.run(ctx, r.nextSpan(r.config.WarmUp))
}
