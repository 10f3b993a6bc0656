package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

// The rhythm of the open loop: slow enough that the machine is idle in between, jittered so that it beats with no
// timer of the cluster.
const (
	wakeInterval = 25 * time.Millisecond
	wakeJitter   = 15 * time.Millisecond
	// parkTimeout outlasts any side.
	parkTimeout = 5 * time.Minute
	// wakePatience is how long the last pushes are waited for.
	wakePatience = 35 * time.Second
)

// schedule plans moments of an open loop within a span: a late one does not move those after it.
func schedule(s span, random *rand.Rand) []time.Time {
	var plan []time.Time
	for t := s.begin; t.Before(s.end); t = t.Add(wakeInterval + time.Duration(random.Int64N(int64(wakeJitter)))) {
		plan = append(plan, t)
	}
	return plan
}

func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// arrival is one message at the parked consumer.
type arrival struct {
	mark string
	at   time.Time
	err  error
}

// wakeLoad pushes to one broker while a consumer is parked on another.
type wakeLoad struct {
	pushTo string
	popAt  string
	queue  string
	prefix string
}

// run measures from the moment a push was planned to the moment its pop's answer was read.
func (l *wakeLoad) run(ctx context.Context, s span) (*sample, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	random := rand.New(rand.NewPCG(1, uint64(s.begin.UnixNano())))
	plan := schedule(s, random)
	arrivals := make(chan arrival, len(plan))
	consumerDone := make(chan struct{})
	go func() {
		defer close(consumerDone)
		l.consume(ctx, s.end.Add(wakePatience+time.Second), arrivals)
	}()
	defer func() {
		cancel()
		<-consumerDone
	}()

	requests := newTemplate(l.queue, l.prefix, 0, 1, 1, random)
	planned := make(map[string]time.Time, len(plan))
	pusher := newWire(l.pushTo, s.end.Add(wakePatience))
	defer pusher.close()
	for _, at := range plan {
		if !sleepUntil(ctx, at) {
			return nil, context.Cause(ctx)
		}
		request, first := requests.fill(0)
		planned[l.mark(first)] = at
		status, body, err := pusher.do(ctx, request)
		if err == nil {
			err = checkPushed(status, body, 1)
		}
		if err != nil {
			return nil, err
		}
	}
	return l.collect(ctx, planned, arrivals)
}

// mark is the mark of the only writer's only partition.
func (l *wakeLoad) mark(sequence uint32) string {
	return fmt.Sprintf("%s%04x%04x%08x", l.prefix, 0, 0, sequence)
}

func (l *wakeLoad) collect(ctx context.Context, planned map[string]time.Time, arrivals <-chan arrival) (*sample, error) {
	got := &sample{latencies: newHistogram(), tally: &Tally{Pushed: int64(len(planned))}}
	patience := time.NewTimer(wakePatience)
	defer patience.Stop()
	for len(planned) > 0 {
		select {
		case a := <-arrivals:
			if a.err != nil {
				return nil, a.err
			}
			at, ok := planned[a.mark]
			if !ok {
				got.tally.Duplicates++
				continue
			}
			delete(planned, a.mark)
			got.tally.Delivered++
			got.messages++
			_ = got.latencies.RecordValue(min(a.at.Sub(at), maxLatency).Microseconds()) // cannot be out of range
		case <-patience.C:
			got.tally.Lost = int64(len(planned))
			return got, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return got, nil
}

// consume parks, takes one message, acknowledges it and parks again.
func (l *wakeLoad) consume(ctx context.Context, deadline time.Time, arrivals chan<- arrival) {
	w := newWire(l.popAt, deadline)
	defer w.close()
	pop := fmt.Appendf(nil, "GET /api/v1/pop/queue/%s?batch=1&wait=true&timeout=%d HTTP/1.1\r\nHost: bench\r\n\r\n",
		url.PathEscape(l.queue), parkTimeout.Milliseconds())
	var taken delivery
	for ctx.Err() == nil {
		status, body, err := w.do(ctx, pop)
		at := time.Now()
		if err == nil && status == http.StatusNoContent {
			continue
		}
		if err == nil {
			err = taken.read(status, body)
		}
		if err == nil {
			send(ctx, arrivals, arrival{mark: string(taken.marks[0]), at: at})
			status, body, err = w.do(ctx, taken.appendAck(nil, false))
		}
		if err == nil {
			err = taken.checkAcked(status, body, false)
		}
		if err != nil {
			send(ctx, arrivals, arrival{err: fmt.Errorf("parked consumer: %w", err)})
			return
		}
	}
}

func send(ctx context.Context, arrivals chan<- arrival, a arrival) {
	select {
	case arrivals <- a:
	case <-ctx.Done():
	}
}

// updateLoad is the yardstick of wake: one row updated and committed, at the same rhythm.
func updateLoad(ctx context.Context, d *database, s span) (*sample, error) {
	random := rand.New(rand.NewPCG(2, uint64(s.begin.UnixNano())))
	got := &sample{latencies: newHistogram()}
	for _, at := range schedule(s, random) {
		if !sleepUntil(ctx, at) {
			return nil, context.Cause(ctx)
		}
		if _, err := d.conn.Exec(ctx, updateProbe); err != nil {
			return nil, fmt.Errorf("update probe: %w", err)
		}
		got.messages++
		_ = got.latencies.RecordValue(min(time.Since(at), maxLatency).Microseconds()) // cannot be out of range
	}
	if got.messages == 0 {
		return nil, errors.New("update probe: the side was too short")
	}
	return got, nil
}
