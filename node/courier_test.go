package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
)

// courier sends numbered messages in through one broker and takes them out through another, where a pop waits for them most
// of the time. It measures from the beginning of a push to the answer of the pop.
type courier struct {
	what     string
	queue    string
	producer *client.Client
	consumer *client.Client
	stop     chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	sent    []time.Time
	arrived int
	took    []time.Duration
	broken  []string
}

// startCourier pushes with the given pause until finish is called. The configurations know one broker each.
func startCourier(t testing.TB, what, queue string, from, to client.Config, pause time.Duration) *courier {
	t.Helper()
	c := &courier{what: what, queue: queue, producer: newClientOf(t, from), consumer: newClientOf(t, to), stop: make(chan struct{})}
	// The group begins before the first message.
	_, err := c.consumer.Pop(t.Context(), c.request(false))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	c.running.Go(func() { c.send(ctx, pause) })
	c.running.Go(func() { c.receive(ctx) })
	t.Cleanup(func() { cancel(); c.running.Wait() })
	return c
}

func (c *courier) request(wait bool) client.PopRequest {
	return client.PopRequest{Queue: c.queue, Group: "courier", Mode: "all", Batch: 100, Wait: wait, Timeout: 5 * time.Second, AutoAck: true}
}

func (c *courier) send(ctx context.Context, pause time.Duration) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for number := 0; ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-c.stop:
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		c.sent = append(c.sent, time.Now())
		c.mu.Unlock()
		item := client.Item{
			Queue: c.queue, Partition: "p", TransactionID: fmt.Sprint(number), Payload: json.RawMessage(fmt.Sprint(number)),
		}
		for !c.store(ctx, item) && ctx.Err() == nil {
			sitOut(ctx)
		}
	}
}

func (c *courier) store(ctx context.Context, item client.Item) bool {
	results, err := c.producer.Push(ctx, []client.Item{item})
	return err == nil && (results[0].Status == client.Queued || results[0].Status == client.Duplicate)
}

func (c *courier) receive(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := c.consumer.Pop(ctx, c.request(true))
		if err != nil {
			sitOut(ctx)
		}
		if got != nil {
			c.note(got.Messages, time.Now())
		}
	}
}

func (c *courier) note(messages []client.Message, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range messages {
		if string(m.Data) != fmt.Sprint(c.arrived) {
			c.broken = append(c.broken, fmt.Sprintf("message %s came where %d was due", m.Data, c.arrived))
		}
		if c.arrived < len(c.sent) {
			c.took = append(c.took, now.Sub(c.sent[c.arrived]))
		}
		c.arrived++
	}
}

// lap returns what was measured since the last lap.
func (c *courier) lap() times {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	c.took = nil
	return took
}

// finish stops sending and requires that each message arrives, once and in order. It returns what was measured since the
// last lap.
func (c *courier) finish(t testing.TB) times {
	t.Helper()
	close(c.stop)
	eventually(t, c.what+": everything arrives", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.arrived >= len(c.sent)
	})
	c.mu.Lock()
	broken, arrived := c.broken, c.arrived
	c.mu.Unlock()
	require.Empty(t, broken[:min(len(broken), 5)], "%s", c.what)
	require.NotZero(t, arrived, "%s", c.what)
	return c.lap()
}

// times are what was measured of one kind.
type times []time.Duration

// at returns the time that the given share of all was not longer than.
func (m times) at(share float64) time.Duration {
	if len(m) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m))
	return sorted[min(int(float64(len(sorted))*share), len(sorted)-1)]
}

func (m times) String() string {
	return fmt.Sprintf("median %v, p99 %v, worst %v of %d", m.at(0.5).Round(100*time.Microsecond),
		m.at(0.99).Round(100*time.Microsecond), m.at(1).Round(100*time.Microsecond), len(m))
}

// lapOf gathers what several couriers have measured since their last lap.
func lapOf(couriers []*courier) (all times) {
	for _, c := range couriers {
		all = append(all, c.lap()...)
	}
	return all
}
