package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

const (
	payloadSize = 256
	producers   = 16
	consumers   = 16
	// backlog is how much may be unconsumed: beyond it producers wait.
	backlog = 20_000
	warmUp  = time.Second
	// patience is for what is left to consume at the end.
	patience = 60 * time.Second
)

// single is one measurement.
type single struct {
	rate float64
	// cpu is the processor time of one message in microseconds, all processes together, and servers that of all but this one.
	cpu, servers float64
	// lost, doubled and disordered count messages.
	lost, doubled, disordered int64
}

func (s single) String() string {
	return fmt.Sprintf("%8.0f messages/s, %7.1f us of processor each (%.1f without the clients), lost %d, doubled %d, out of order %d",
		s.rate, s.cpu, s.servers, s.lost, s.doubled, s.disordered)
}

// ledger knows what was published and consumed.
type ledger struct {
	published, consumed atomic.Int64

	mu   sync.Mutex // guards what follows
	seen []bool
	// last is the highest number consumed of each key; numbers of one key rise in the order in which they were published.
	last       []int64
	doubled    int64
	disordered int64
}

func (l *ledger) consume(payloads [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := int64(0)
	for _, p := range payloads {
		number, key := int64(binary.BigEndian.Uint64(p)), int(binary.BigEndian.Uint32(p[8:]))
		for int64(len(l.seen)) <= number {
			l.seen = append(l.seen, make([]bool, 1<<16)...)
		}
		if l.seen[number] {
			l.doubled++
			continue
		}
		l.seen[number] = true
		fresh++
		if number < l.last[key] {
			l.disordered++
		}
		l.last[key] = max(l.last[key], number)
	}
	l.consumed.Add(fresh)
}

// measure publishes and consumes at once, closed loop, for one span.
func measure(ctx context.Context, s system, w work, side time.Duration) (got single, err error) {
	t, err := s.topic(ctx, w)
	if err != nil {
		return got, err
	}
	defer t.close()
	l := &ledger{last: make([]int64, max(w.keys, producers))}
	consuming, stopConsuming := context.WithCancel(ctx)
	defer stopConsuming()
	publishing, stopPublishing := context.WithCancel(ctx)
	defer stopPublishing()
	failures := make(chan error, producers+consumers)
	var consumed, published sync.WaitGroup
	for worker := range consumers {
		consumed.Go(func() {
			if err := t.consume(consuming, worker, l.consume); err != nil && consuming.Err() == nil {
				failures <- fmt.Errorf("consume: %w", err)
			}
		})
	}
	var numbers numbering
	for worker := range producers {
		publish, err := t.producer(ctx)
		if err != nil {
			return got, err
		}
		published.Go(func() {
			if err := produce(publishing, l, &numbers, w, worker, publish); err != nil && publishing.Err() == nil {
				failures <- fmt.Errorf("publish: %w", err)
			}
		})
	}
	sleep(ctx, warmUp)
	pids := s.pids()
	before, own, servers := l.consumed.Load(), ownTime(), processesTime(pids)
	began := time.Now()
	sleep(ctx, side)
	took := time.Since(began)
	messages := float64(l.consumed.Load() - before)
	ownSpent, serversSpent := ownTime()-own, processesTime(pids)-servers
	stopPublishing()
	published.Wait()
	for deadline := time.Now().Add(patience); l.consumed.Load() < l.published.Load() && time.Now().Before(deadline) && len(failures) == 0; {
		sleep(ctx, 10*time.Millisecond)
	}
	stopConsuming()
	consumed.Wait()
	select {
	case err := <-failures:
		return got, err
	default:
	}
	if messages == 0 {
		return got, errors.New("nothing came through")
	}
	got.rate = messages / took.Seconds()
	got.servers = float64(serversSpent.Microseconds()) / messages
	got.cpu = float64((ownSpent + serversSpent).Microseconds()) / messages
	got.lost, got.doubled, got.disordered = l.published.Load()-l.consumed.Load(), l.doubled, l.disordered
	return got, ctx.Err()
}

// numbering gives messages their numbers; those of a key rise in the order of publishing because one producer owns it.
type numbering struct{ next atomic.Int64 }

func produce(ctx context.Context, l *ledger, numbers *numbering, w work, worker int, publish func(context.Context, []message) error) error {
	random := rand.New(rand.NewPCG(uint64(worker), 1))
	filler := make([]byte, payloadSize)
	for i := range filler {
		filler[i] = "abcdefghijklmnop"[random.IntN(16)]
	}
	for ctx.Err() == nil {
		if l.published.Load()-l.consumed.Load() > backlog {
			sleep(ctx, time.Millisecond)
			continue
		}
		batch := make([]message, w.batch)
		first := numbers.next.Add(int64(w.batch)) - int64(w.batch)
		// Each producer has keys of its own, so that there is an order to be kept.
		key := worker
		if w.keys > producers {
			key = worker + producers*random.IntN(w.keys/producers)
		}
		partition := key
		if w.keys == 1 {
			partition = 0
		}
		for i := range batch {
			payload := slices.Clone(filler)
			binary.BigEndian.PutUint64(payload, uint64(first)+uint64(i))
			binary.BigEndian.PutUint32(payload[8:], uint32(key))
			batch[i] = message{partition, payload}
		}
		// What is being published when the time is over is published: it counts.
		if err := publish(context.WithoutCancel(ctx), batch); err != nil {
			return err
		}
		l.published.Add(int64(w.batch))
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// result is the median of some measurements.
type result struct {
	System     string  `json:"system"`
	Settings   string  `json:"settings"`
	Batch      int     `json:"batch"`
	Keys       int     `json:"keys"`
	Rate       float64 `json:"messagesPerSecond"`
	CPU        float64 `json:"microsPerMessage"`
	ServersCPU float64 `json:"serverMicrosPerMessage"`
	Lost       int64   `json:"lost"`
	Doubled    int64   `json:"doubled"`
	Disordered int64   `json:"outOfOrder"`

	singles []single
}

func (r *result) add(s single) {
	r.singles = append(r.singles, s)
	r.Rate = median(r.singles, func(s single) float64 { return s.rate })
	r.CPU = median(r.singles, func(s single) float64 { return s.cpu })
	r.ServersCPU = median(r.singles, func(s single) float64 { return s.servers })
	r.Lost, r.Doubled, r.Disordered = r.Lost+s.lost, r.Doubled+s.doubled, r.Disordered+s.disordered
}

func median(list []single, of func(single) float64) float64 {
	values := make([]float64, len(list))
	for i, s := range list {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// writeTable prints each result beside waggle's of the same work.
func writeTable(w io.Writer, results []result) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "SYSTEM\tBATCH\tKEYS\tMESSAGES/S\tCPU US/MESSAGE\tSERVERS ALONE\tPER CPU SECOND\tWAGGLE IS\tLOST\tDOUBLED\tOUT OF ORDER")
	for _, r := range results {
		times := "-"
		if i := slices.IndexFunc(results, func(o result) bool { return o.System == "waggle" && o.Batch == r.Batch && o.Keys == r.Keys }); i >= 0 && r.System != "waggle" {
			times = fmt.Sprintf("%.1fx", r.CPU/results[i].CPU)
		}
		disordered := fmt.Sprint(r.Disordered)
		if r.Keys == 0 {
			disordered = "any order"
		}
		fmt.Fprintf(out, "%s\t%d\t%d\t%.0f\t%.1f\t%.1f\t%.0f\t%s\t%d\t%d\t%s\n",
			r.System, r.Batch, r.Keys, r.Rate, r.CPU, r.ServersCPU, 1e6/r.CPU, times, r.Lost, r.Doubled, disordered)
	}
	_ = out.Flush() // to a terminal or a file
}
