package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// pushLoad pushes as fast as brokers answer: closed loop, one request in flight per connection.
type pushLoad struct {
	// targets are the brokers; each request goes to a random one.
	targets     []string
	queue       string
	prefix      string
	connections int
	batch       int
	partitions  int
	// audit, when set, is told what was stored.
	audit *audit
	// most, when positive, ends the load after so many messages.
	most int64
	// admit, when set, holds a connection back before each request; false ends it.
	admit func(ctx context.Context) bool
	// stored, when set, counts every stored message, also outside the span.
	stored *atomic.Int64
}

const (
	failurePause = 10 * time.Millisecond
	// graceAfterSpan is how long a connection may outlive the span it works in.
	graceAfterSpan = 30 * time.Second
	// pushGrace is how long a push may take to be answered when the load has been called off.
	pushGrace = 5 * time.Second
)

var queuedMark = []byte(`"queued"`)

// run starts the load; the function it returns waits for its end, which is the end of the span.
func (l *pushLoad) run(ctx context.Context, s span) func() *sample {
	var left atomic.Int64
	left.Store(l.most)
	return gather(l.connections, func(worker int, c *counter) { l.work(ctx, s, worker, c, &left) })
}

func (l *pushLoad) work(ctx context.Context, s span, worker int, c *counter, left *atomic.Int64) {
	random := rand.New(rand.NewPCG(uint64(worker), uint64(s.begin.UnixNano())))
	requests := newTemplate(l.queue, l.prefix, worker, l.batch, l.partitions, random)
	wires := make([]*wire, len(l.targets))
	for i, target := range l.targets {
		wires[i] = newWire(target, s.end.Add(graceAfterSpan))
		wires[i].grace = pushGrace
		defer wires[i].close()
	}
	for ctx.Err() == nil && (l.admit == nil || l.admit(ctx)) {
		started := time.Now()
		if !started.Before(s.end) || l.most > 0 && left.Add(int64(-l.batch)) < 0 {
			return
		}
		partition := random.IntN(l.partitions)
		request, first := requests.fill(partition)
		status, body, err := wires[random.IntN(len(wires))].do(ctx, request)
		ended := time.Now()
		if err == nil {
			err = checkPushed(status, body, l.batch)
		}
		if err != nil {
			if ctx.Err() == nil {
				c.fail(err)
			}
			time.Sleep(failurePause)
			continue
		}
		if l.audit != nil {
			l.audit.acknowledged(worker, partition, first, l.batch)
		}
		if l.stored != nil {
			l.stored.Add(int64(l.batch))
		}
		if s.holds(ended) {
			c.done(l.batch, ended.Sub(started))
		}
	}
}

// checkPushed wants every item stored: ids are distinct, so that even a duplicate is wrong.
func checkPushed(status int, body []byte, batch int) error {
	if status != http.StatusCreated {
		return fmt.Errorf("push: status %d: %.200s", status, body)
	}
	if n := bytes.Count(body, queuedMark); n != batch {
		return fmt.Errorf("push: %d of %d items queued: %.200s", n, batch, body)
	}
	return nil
}
