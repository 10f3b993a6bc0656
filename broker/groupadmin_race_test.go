package broker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg"
)

// Seeks, deletions of the group, changes of its subscription and new partitions run into pops and acks of two brokers.
// Nothing fails, nothing deadlocks (the test database says so), and the group still gets everything afterwards.
func TestCursorsMayBeMovedWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	ctx := t.Context()
	for i := range 40 {
		tb.push(tb.brokers[0], "q", fmt.Sprint("p", i), i, i+1)
	}
	end := time.Now().Add(2 * time.Second)
	var running sync.WaitGroup
	repeat := func(work func(b *Broker, n int) error) {
		for _, b := range tb.brokers {
			running.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					if err := work(b, n); err != nil {
						t.Errorf("%v", err)
						return
					}
				}
			})
		}
	}
	repeat(func(b *Broker, n int) error {
		req := fromStart("q", "g")
		req.Partitions, req.Batch = 0, 20
		answer, err := b.Pop(ctx, req)
		if answer == nil {
			return err
		}
		defer answer.Release()
		for _, r := range b.Ack(ctx, DefaultTenant, "g", acksOf(answer, AckStatus(n%2))) {
			switch r.Error {
			case "", errLease, errNoConsumer:
			default:
				return fmt.Errorf("ack: %s", r.Error)
			}
		}
		return nil
	})
	repeat(func(b *Broker, n int) error {
		_, err := b.db.SeekGroup(ctx, pg.Seek{
			Queue: pg.QueueName{Tenant: DefaultTenant, Name: "q"}, Group: "g", ToEnd: n%3 == 0, At: longAgo,
		}, 7)
		return err
	})
	repeat(func(b *Broker, n int) error {
		if _, err := b.Resubscribe(ctx, DefaultTenant, "g", longAgo); err != nil {
			return err
		}
		_, err := b.DeleteGroup(ctx, DefaultTenant, "g", nil, n%2 == 0)
		return err
	})
	repeat(func(b *Broker, n int) error {
		items := []PushItem{item("q", fmt.Sprint("n", n), n), item("q", fmt.Sprint("p", n%40), 1000+n)}
		for _, r := range b.Push(ctx, DefaultTenant, "", items) {
			if r.Status == Failed {
				return fmt.Errorf("push failed")
			}
		}
		return nil
	})
	running.Wait()

	tb.seek(tb.brokers[0], SeekRequest{Queue: "q", Group: "g", At: longAgo})
	var stored, got int
	require.NoError(t, tb.brokers[0].db.Pool().QueryRow(ctx, "select sum(count) from waggle.segment").Scan(&stored))
	req := fromStart("q", "g")
	req.Partitions, req.Batch = 0, 10_000
	for {
		answer := tb.pop(tb.brokers[1], req)
		if answer == nil {
			break
		}
		got += len(payloads(answer))
		tb.ackAll(tb.brokers[0], "g", answer)
		answer.Release()
	}
	require.Equal(t, stored, got)
}
