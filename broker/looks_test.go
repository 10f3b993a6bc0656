package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

// park starts a waiting pop and returns once it is parked. Its answer comes through the channel.
func (tb *testBundle) park(b *Broker, req PopRequest) <-chan *PopAnswer {
	tb.t.Helper()
	before := b.Parked()
	req.Wait = true
	got := make(chan *PopAnswer, 1)
	go func() {
		answer, err := b.Pop(context.Background(), req)
		if err != nil {
			tb.t.Errorf("parked pop: %v", err)
		}
		got <- answer
	}()
	require.Eventually(tb.t, func() bool { return b.Parked() > before }, 30*time.Second, time.Millisecond)
	return got
}

// A segment stamped before a look but committed after it is found by a later look: they reach back to the safe point.
func TestALateCommitIsFound(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 1)
	tb.ackAll(b, "", tb.pop(b, request("q")))
	// A neighbour of the same role appends, and its commit takes its time.
	conn, err := pgx.Connect(t.Context(), tb.database.URL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `insert into waggle.segment (partition_id, base_offset, created_at, count, size, format, ids, body)
		select s.partition_id, 1, clock_timestamp(), 1, s.size, s.format, s.ids, s.body from waggle.segment s`)
	require.NoError(t, err)
	req := request("q")
	req.Timeout = 10 * time.Second
	got := tb.park(b, req)
	select {
	case <-got:
		t.Fatal("given what is not committed")
	case <-time.After(3500 * time.Millisecond): // several looks, and the second by which they reach back in any case
	}
	require.NoError(t, tx.Commit(t.Context()))
	select {
	case answer := <-got:
		require.Len(t, payloads(answer), 1)
	case <-time.After(2 * time.Second):
		t.Fatal("missed")
	}
}

// The safe point never passes a stamp that is still to become visible.
func TestSafePoint(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	db := tb.brokers[0].db
	free, err := db.SafePoint(t.Context())
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), tb.database.URL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	var stamp time.Time
	var xid string
	require.NoError(t, tx.QueryRow(t.Context(), "select pg_current_xact_id()::text, clock_timestamp()").Scan(&xid, &stamp))
	require.Eventually(t, func() bool {
		at, err := db.SafePoint(t.Context())
		require.NoError(t, err)
		require.True(t, at.Before(stamp))
		var now time.Time
		require.NoError(t, db.Pool().QueryRow(t.Context(), "select clock_timestamp()").Scan(&now))
		return now.Sub(stamp) > 1500*time.Millisecond
	}, 30*time.Second, 100*time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	at, err := db.SafePoint(t.Context())
	require.NoError(t, err)
	require.True(t, at.After(stamp))
	require.True(t, at.After(free))
}

// A thousand parked pops cost no connection and next to no statements, and a push finds its pop among them.
func TestAThousandParkedPops(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	conn := tb.connect()
	for i := range 20 {
		tb.push(b, fmt.Sprint("q", i), "p", 0, 1)
		tb.ackAll(b, "", tb.pop(b, request(fmt.Sprint("q", i))))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	answers := make(chan *PopAnswer, 1000)
	for i := range 1000 {
		wg.Go(func() {
			req := request(fmt.Sprint("q", i%20))
			req.Wait, req.Timeout = true, time.Minute
			if i%3 == 0 {
				req.Pinned, req.Partition = true, "p"
			}
			answer, err := b.Pop(ctx, req)
			if err == nil {
				answers <- answer
			}
		})
	}
	require.Eventually(t, func() bool { return b.Parked() == 1000 }, 30*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool {
		general, flushes := b.db.Stats()
		return general.AcquiredConns()+flushes.AcquiredConns() == 0
	}, 30*time.Second, 5*time.Millisecond)
	acquired := func() int64 {
		general, flushes := b.db.Stats()
		return general.AcquireCount() + flushes.AcquireCount()
	}
	// Outside of flushes each statement of an idle broker is one acquisition.
	before, started := acquired(), time.Now()
	held := 0
	for time.Since(started) < 3*time.Second {
		general, flushes := b.db.Stats()
		held = max(held, int(general.AcquiredConns()+flushes.AcquiredConns()))
		time.Sleep(10 * time.Millisecond)
	}
	rate := float64(acquired()-before) / time.Since(started).Seconds()
	require.LessOrEqual(t, rate, 5.0, "statements a second")
	require.LessOrEqual(t, held, 1)
	for i := range 20 {
		tb.push(b, fmt.Sprint("q", i), "p", 1, 2)
		require.Equal(t, numbers(1, 2), payloads(<-answers))
	}
	cancel()
	wg.Wait()
	require.Zero(t, b.Parked())
	require.Positive(t, tb.count(conn, "select count(*) from waggle.cursor"))
}

// What no hint tells is found by a look: pushes, releases and ends of leases on other brokers, with 200 pops parked.
func TestParkedPopsFindEverythingWithoutHints(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 1)
	tb.ackAll(b, "", tb.pop(b, request("q")))

	t.Run("a push", func(t *testing.T) {
		started := time.Now()
		got := tb.park(b, request("q"))
		tb.push(a, "q", "p", 1, 2)
		answer := <-got
		require.Equal(t, numbers(1, 2), payloads(answer))
		require.Less(t, time.Since(started), 1500*time.Millisecond)
		tb.ackAll(a, "", answer)
	})
	t.Run("a push to a new partition", func(t *testing.T) {
		got := tb.park(b, request("q"))
		tb.push(a, "q", "new", 2, 3)
		answer := <-got
		require.Equal(t, numbers(2, 3), payloads(answer))
		tb.ackAll(b, "", answer)
	})
	t.Run("a nack", func(t *testing.T) {
		tb.push(a, "q", "p", 3, 4)
		answer := tb.pop(a, request("q"))
		got := tb.park(b, request("q"))
		r := a.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(answer, AckRetry))
		require.True(t, r[0].LeaseReleased)
		again := <-got
		require.Equal(t, numbers(3, 4), payloads(again))
		require.Equal(t, 2, again.Parts[0].Attempt)
		tb.ackAll(b, "", again)
	})
	t.Run("the end of a lease", func(t *testing.T) {
		tb.push(a, "q", "p", 4, 5)
		req := request("q")
		req.LeaseSeconds = 1
		tb.pop(a, req)
		again := <-tb.park(b, request("q"))
		require.Equal(t, numbers(4, 5), payloads(again))
		tb.ackAll(b, "", again)
	})
	t.Run("a queue of a namespace", func(t *testing.T) {
		namespace := "ns"
		req := PopRequest{Tenant: DefaultTenant, Discovery: true, Namespace: &namespace, Batch: 10, Timeout: 5 * time.Second}
		got := tb.park(b, req)
		tb.push(a, "ns.first", "p", 0, 1)
		answer := <-got
		require.Equal(t, numbers(0, 1), payloads(answer))
		require.Equal(t, "ns.first", answer.Parts[0].Queue)
		tb.ackAll(b, "", answer)
		got = tb.park(b, req)
		tb.push(b, "ns.second.x", "p", 0, 1)
		require.Equal(t, "ns.second.x", (<-got).Parts[0].Queue)
	})
	t.Run("a missing queue", func(t *testing.T) {
		for i, pusher := range []*Broker{a, b} {
			req := request(fmt.Sprint("later", i))
			req.Pinned, req.Partition = true, "x"
			got := tb.park(b, req)
			tb.push(pusher, req.Queue, "x", 0, 1)
			require.Equal(t, numbers(0, 1), payloads(<-got))
		}
	})
	t.Run("a queue deleted and made again", func(t *testing.T) {
		tb.push(a, "again", "p", 0, 1)
		tb.ackAll(b, "", tb.pop(b, request("again")))
		got := tb.park(b, request("again"))
		_, err := a.DeleteQueue(t.Context(), DefaultTenant, "again")
		require.NoError(t, err)
		tb.push(a, "again", "p", 7, 8)
		require.Equal(t, numbers(7, 8), payloads(<-got))
	})
	t.Run("moved cursors of every kind of group", func(t *testing.T) {
		conn := tb.connect()
		tb.push(a, "moved", "p", 0, 2)
		all, pinned := request("moved"), request("moved")
		pinned.Pinned, pinned.Partition, pinned.Group = true, "p", "pinned"
		pinned.SubscriptionMode = "all"
		tb.ackAll(b, "", tb.pop(b, all))
		tb.ackAll(b, "pinned", tb.pop(b, pinned))
		first, second := tb.park(b, all), tb.park(b, pinned)
		_, err := conn.Exec(t.Context(), `with g as (update waggle.consumer_group set generation = generation + 1
			where queue_id = (select id from waggle.queue where name = 'moved') returning id)
			update waggle.cursor c set committed = -1 from g where c.group_id = g.id`)
		require.NoError(t, err)
		require.Equal(t, numbers(0, 2), payloads(<-first))
		require.Equal(t, numbers(0, 2), payloads(<-second))
	})
}

// hintsTo passes wakes on at once, as a mesh would.
type hintsTo struct {
	mu    sync.Mutex
	peers []*Broker
}

func (h *hintsTo) Wake(tenant uuid.UUID, queue, partition string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.peers {
		go b.HandleWake(&tenant, queue, partition)
	}
}

func (h *hintsTo) Invalidate(tenant uuid.UUID, queue string, _ int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.peers {
		go b.HandleInvalidation(&tenant, queue)
	}
}

func (h *hintsTo) CursorsMoved(tenant uuid.UUID, queue, group string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.peers {
		go b.HandleCursorsMoved(&tenant, queue, group)
	}
}

func TestHintsWakeAtOnce(t *testing.T) {
	t.Parallel()
	h := &hintsTo{}
	tb := newBundle(t, 1, func(c *Config) { c.Hints = h })
	tb.add()
	a, b := tb.brokers[0], tb.brokers[1]
	h.mu.Lock()
	h.peers = []*Broker{b}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.peers = nil
		h.mu.Unlock()
	}()
	tb.push(a, "q", "p", 0, 1)
	tb.ackAll(b, "", tb.pop(b, request("q")))
	wakes := 0
	for i := range 10 {
		got := tb.park(b, request("q"))
		partition := "p"
		if i%2 == 1 {
			partition = fmt.Sprint("new", i)
		}
		tb.push(a, "q", partition, 1+i, 2+i)
		started := time.Now()
		answer := <-got
		if time.Since(started) < 250*time.Millisecond {
			wakes++
		}
		require.Equal(t, numbers(1+i, 2+i), payloads(answer))
		tb.ackAll(b, "", answer)
	}
	require.GreaterOrEqual(t, wakes, 5, "of ten pops that a hint should have woken")
	t.Run("without a tenant every tenant that has the name is woken", func(t *testing.T) {
		other := uuid.New()
		tb.push(b, "shared", "p", 0, 1)
		req := request("shared")
		tb.ackAll(b, "", tb.pop(b, req))
		req.Tenant = other
		require.Nil(t, tb.pop(b, req))
		require.Len(t, func() []*queue {
			b.watch.mu.Lock()
			defer b.watch.mu.Unlock()
			return b.watch.hinted(nil, "shared")
		}(), 2)
		b.HandleWake(nil, "shared", "p")
		b.HandleInvalidation(nil, "shared")
		require.Nil(t, b.catalog.cached(queueKey{other, "shared"}))
		require.Nil(t, b.catalog.cached(queueKey{DefaultTenant, "shared"}))
	})
}

// A read that began before an invalidation must not be remembered after it.
func TestAReadFromBeforeAnInvalidationIsNotKept(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	c := tb.brokers[0].catalog
	key := queueKey{DefaultTenant, "q"}
	row := pg.Queue{ID: 7, Tenant: key.tenant, Name: key.name, Options: []byte("{}"), Version: 1, WriteFormat: 1}
	before := c.generation(key)
	c.invalidate(key)
	require.NotNil(t, c.store(row, before), "it still serves who read it")
	require.Nil(t, c.cached(key))
	c.store(row, c.generation(key))
	require.NotNil(t, c.cached(key))
	before = c.generation(key)
	c.invalidate(key)
	c.store(row, before)
	require.Nil(t, c.cached(key))
	row.Version = 5
	c.store(row, c.generation(key))
	older := row
	older.Version = 4
	c.store(older, c.generation(key))
	require.Equal(t, int64(5), c.cached(key).version)
	c.outdated(&queue{queueKey: key, id: 7, version: 4})
	require.NotNil(t, c.cached(key), "what is remembered is newer")
	c.outdated(c.cached(key))
	require.Nil(t, c.cached(key))
}
