package broker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/pg"
)

func fromStart(queue, group string) PopRequest {
	req := request(queue)
	req.Group, req.SubscriptionMode = group, "all"
	return req
}

func (tb *testBundle) seek(b *Broker, req SeekRequest) int {
	tb.t.Helper()
	req.Tenant = DefaultTenant
	n, err := b.Seek(tb.t.Context(), req)
	require.NoError(tb.t, err)
	return n
}

var longAgo = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

func TestSeekGoesBackAndForth(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 3)
	var between time.Time
	require.NoError(t, a.db.Pool().QueryRow(t.Context(), "select clock_timestamp()").Scan(&between))
	tb.push(a, "q", "p", 3, 5)
	pop := fromStart("q", "g")
	tb.ackAll(a, "g", tb.pop(a, pop))
	require.Nil(t, tb.pop(b, pop))

	require.Equal(t, 1, tb.seek(b, SeekRequest{Queue: "q", Group: "g", At: longAgo}))
	require.Equal(t, numbers(0, 5), payloads(tb.pop(a, pop)), "the broker that did not seek")
	require.Equal(t, 1, tb.seek(b, SeekRequest{Queue: "q", Group: "g", At: between}), "a leased cursor too")
	answer := tb.pop(b, pop)
	require.Equal(t, numbers(3, 5), payloads(answer))
	require.Equal(t, 1, answer.Parts[0].Attempt)
	require.Equal(t, 1, tb.seek(a, SeekRequest{Queue: "q", Group: "g", ToEnd: true}))
	require.Nil(t, tb.pop(b, pop))
	tb.push(a, "q", "p", 5, 6)
	require.Equal(t, numbers(5, 6), payloads(tb.pop(b, pop)))
	require.Equal(t, 1, tb.seek(a, SeekRequest{Queue: "q", Group: "g", At: time.Now().Add(time.Hour)}))
	require.Nil(t, tb.pop(a, pop), "a time that is to come is the end")
}

func TestASeekEndsLeasesAndForgetsRetries(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 3)
	pop := fromStart("q", "g")
	for range 2 { // of 3 tries
		a.Ack(t.Context(), DefaultTenant, "g", acksOf(tb.pop(a, pop), AckFailed)[:1])
	}
	held := tb.pop(a, pop)
	require.Equal(t, 3, held.Parts[0].Attempt)
	tb.seek(b, SeekRequest{Queue: "q", Group: "g", At: longAgo})
	for _, broker := range tb.brokers { // the one that remembers the lease, and the other
		for _, r := range broker.Ack(t.Context(), DefaultTenant, "g", acksOf(held, AckCompleted)) {
			require.Equal(t, AckResult{Error: errLease}, r)
		}
		extended, err := broker.Extend(t.Context(), DefaultTenant, held.Lease.String(), 60)
		require.NoError(t, err)
		require.Zero(t, extended.Renewed)
	}
	again := tb.pop(b, pop)
	require.Equal(t, numbers(0, 3), payloads(again))
	require.Equal(t, 1, again.Parts[0].Attempt)
	for range 3 {
		results := b.Ack(t.Context(), DefaultTenant, "g", acksOf(again, AckFailed)[:1])
		require.False(t, results[0].DLQ, "the budget began anew")
		again = tb.pop(b, pop)
	}
	tb.ackAll(b, "g", again)
}

func TestASeekIsSeenByPopsParkedElsewhere(t *testing.T) {
	t.Parallel()
	for name, hinted := range map[string]bool{"with hints": true, "without hints": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hintsTo{}
			tb := newBundle(t, 1, func(c *Config) {
				if hinted {
					c.Hints = h
				}
			})
			tb.add()
			a, b := tb.brokers[0], tb.brokers[1]
			h.mu.Lock()
			h.peers = []*Broker{b}
			h.mu.Unlock()
			t.Cleanup(func() {
				h.mu.Lock()
				h.peers = nil
				h.mu.Unlock()
			})
			tb.push(a, "q", "p", 0, 2)
			pinned := fromStart("q", "pinned")
			pinned.Pinned, pinned.Partition = true, "p"
			all := fromStart("q", "g")
			quick, tries := 0, 3
			if hinted {
				tries = 8
			}
			for try := range tries {
				tb.ackAll(b, "g", tb.pop(b, all))
				tb.ackAll(b, "pinned", tb.pop(b, pinned))
				parked, single := tb.park(b, all), tb.park(b, pinned)
				started := time.Now()
				p := "p"
				tb.seek(a, SeekRequest{Queue: "q", Group: "g", At: longAgo})
				tb.seek(a, SeekRequest{Queue: "q", Group: "pinned", Partition: &p, At: longAgo})
				first, second := <-parked, <-single
				took := time.Since(started)
				require.Equal(t, numbers(0, 2), payloads(first))
				require.Equal(t, numbers(0, 2), payloads(second))
				require.Less(t, took, 4*time.Second, "try %d", try)
				tb.seek(a, SeekRequest{Queue: "q", Group: "g", At: longAgo})
				tb.seek(a, SeekRequest{Queue: "q", Group: "pinned", At: longAgo})
				if took < 300*time.Millisecond {
					quick++
				}
			}
			if hinted {
				require.GreaterOrEqual(t, quick, 5, "of eight that need not have waited for a look")
			}
		})
	}
}

func TestASeekIsSeenByPopsParkedHere(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 2)
	tb.ackAll(b, "", tb.pop(b, request("q")))
	got := tb.park(b, request("q"))
	tb.seek(b, SeekRequest{Queue: "q", At: longAgo})
	require.Equal(t, numbers(0, 2), payloads(<-got))
}

func TestASeekMakesTheCursorsThatAreMissing(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "old", 0, 2)

	require.Equal(t, 1, tb.seek(b, SeekRequest{Queue: "q", Group: "never popped", At: longAgo}))
	pop := request("q")
	pop.Group = "never popped" // and would begin at the end
	require.Equal(t, numbers(0, 2), payloads(tb.pop(b, pop)), "the seek counts, not the mode of the first pop")

	pop.Group = "pinned only"
	pop.Pinned, pop.Partition, pop.SubscriptionMode = true, "old", "all"
	tb.ackAll(b, "pinned only", tb.pop(b, pop))
	tb.push(b, "q", "new", 2, 4)
	require.Equal(t, 2, tb.seek(b, SeekRequest{Queue: "q", Group: "pinned only", ToEnd: true}))
	pop.Partition = "new"
	require.Nil(t, tb.pop(b, pop))
	name := "new"
	require.Equal(t, 1, tb.seek(b, SeekRequest{Queue: "q", Group: "pinned only", Partition: &name, At: longAgo}))
	require.Equal(t, numbers(2, 4), payloads(tb.pop(b, pop)))
	pop.Partition = "old"
	require.Nil(t, tb.pop(b, pop))
}

func TestThereMustBeSomethingToSeek(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 1)
	_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "empty"})
	require.NoError(t, err)
	missing, p := "missing", "p"
	for name, req := range map[string]SeekRequest{
		"no queue":            {Tenant: DefaultTenant, Queue: "nothing", ToEnd: true},
		"no partitions":       {Tenant: DefaultTenant, Queue: "empty", ToEnd: true},
		"no such partition":   {Tenant: DefaultTenant, Queue: "q", Partition: &missing, ToEnd: true},
		"another tenant":      {Tenant: uuid.New(), Queue: "q", ToEnd: true},
		"another's partition": {Tenant: uuid.New(), Queue: "q", Partition: &p, ToEnd: true},
		"an impossible name":  {Tenant: DefaultTenant, Queue: "q\x00", ToEnd: true},
		"an impossible group": {Tenant: DefaultTenant, Queue: "q", Group: "\xff", ToEnd: true},
	} {
		_, err := b.Seek(t.Context(), req)
		require.ErrorIs(t, err, ErrNoPartitions, name)
	}
	var groups int
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), "select count(*) from waggle.consumer_group").Scan(&groups))
	require.Zero(t, groups, "what failed left nothing")
}

// A seek lands where a scan of all segments would, whatever the gaps between offsets and times.
func TestSeekFindsTheFirstSegmentOfATime(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 1)
	pool := b.db.Pool()
	var partition int64
	require.NoError(t, pool.QueryRow(t.Context(), "select id from waggle.partition").Scan(&partition))
	rapid.Check(t, func(r *rapid.T) {
		_, err := pool.Exec(t.Context(), "delete from waggle.segment")
		require.NoError(t, err)
		type stored struct{ base, count, second int64 }
		var log []stored
		base, second := rapid.Int64Range(0, 1000).Draw(r, "first"), int64(10)
		for i := range rapid.IntRange(0, 20).Draw(r, "segments") {
			count := rapid.Int64Range(1, 50).Draw(r, "count")
			second += rapid.Int64Range(0, 3).Draw(r, "later")
			log = append(log, stored{base, count, second})
			_, err := pool.Exec(t.Context(), `insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids)
				values ($1, $2, to_timestamp($3), $4, 1, '')`, partition, base, second, count)
			require.NoError(t, err)
			base += count + rapid.Int64Range(0, int64(100*(i%2))).Draw(r, "gap")
		}
		at := rapid.Int64Range(8, second+2).Draw(r, "at")
		want := int64(-1)
		if n := len(log); n > 0 {
			want = log[n-1].base + log[n-1].count - 1
		}
		for _, s := range log {
			if s.second >= at {
				want = s.base - 1
				break
			}
		}
		tb.seek(b, SeekRequest{Queue: "q", Group: "g", At: time.Unix(at, 0)})
		var committed int64
		require.NoError(t, pool.QueryRow(t.Context(), "select committed from waggle.cursor").Scan(&committed))
		require.Equal(t, want, committed)
	})
}

func TestDeletingAGroupLetsItConsumeAnew(t *testing.T) {
	t.Parallel()
	for _, hinted := range []bool{false, true} {
		for _, registration := range []bool{false, true} {
			t.Run(fmt.Sprintf("hints %v, with metadata %v", hinted, registration), func(t *testing.T) {
				t.Parallel()
				h := &hintsTo{}
				tb := newBundle(t, 1, func(c *Config) {
					if hinted {
						c.Hints = h
					}
				})
				tb.add()
				a, b := tb.brokers[0], tb.brokers[1]
				h.mu.Lock()
				h.peers = []*Broker{b}
				h.mu.Unlock()
				t.Cleanup(func() {
					h.mu.Lock()
					h.peers = nil
					h.mu.Unlock()
				})
				for _, queue := range []string{"q", "r", "other"} {
					tb.push(a, queue, "p", 0, 2)
				}
				for _, queue := range []string{"q", "r"} {
					tb.ackAll(b, "g", tb.pop(b, fromStart(queue, "g")))
				}
				tb.ackAll(b, "keeps", tb.pop(b, fromStart("q", "keeps")))
				parked := tb.park(b, fromStart("q", "g"))
				deleted, err := a.DeleteGroup(t.Context(), DefaultTenant, "g", nil, registration)
				require.NoError(t, err)
				require.Equal(t, GroupDeletion{Cursors: 2, Registration: registration}, deleted)
				require.Equal(t, numbers(0, 2), payloads(<-parked))
				require.Equal(t, numbers(0, 2), payloads(tb.pop(a, fromStart("r", "g"))))
				require.Nil(t, tb.pop(a, fromStart("q", "keeps")))

				q := "q"
				deleted, err = b.DeleteGroup(t.Context(), DefaultTenant, "g", &q, registration)
				require.NoError(t, err)
				require.Equal(t, 1, deleted.Cursors, "leased or not")
				require.Equal(t, numbers(0, 2), payloads(tb.pop(a, fromStart("q", "g"))))
				require.Nil(t, tb.pop(a, fromStart("r", "g")), "leased still")
			})
		}
	}
}

// With its registration a group loses where it began; without, it begins there again.
func TestTheRegistrationSaysWhereADeletedGroupBegins(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 2)
	pop := request("q")
	pop.Group = "g" // new
	require.Nil(t, tb.pop(a, pop))
	tb.push(a, "q", "p", 2, 4)
	tb.ackAll(a, "g", tb.pop(a, pop))
	for _, broker := range tb.brokers {
		_, err := b.DeleteGroup(t.Context(), DefaultTenant, "g", nil, false)
		require.NoError(t, err)
		answer := tb.pop(broker, pop)
		require.Equal(t, numbers(2, 4), payloads(answer), "what was written since it registered")
		tb.ackAll(broker, "g", answer)
	}
	_, err := a.DeleteGroup(t.Context(), DefaultTenant, "g", nil, true)
	require.NoError(t, err)
	require.Nil(t, tb.pop(b, pop), "a first contact, and new")
}

func TestUnknownGroupsAreDeletedWithoutEffect(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 1)
	tb.ackAll(b, "g", tb.pop(b, fromStart("q", "g")))
	q, missing, impossible := "q", "missing", "\x00"
	for _, c := range []struct {
		tenant uuid.UUID
		group  string
		queue  *string
	}{
		{DefaultTenant, "unknown", nil},
		{DefaultTenant, "unknown", &q},
		{DefaultTenant, "g", &missing},
		{uuid.New(), "g", nil},
		{uuid.New(), "g", &q},
		{DefaultTenant, "\x00", nil},
		{DefaultTenant, "g", &impossible},
	} {
		deleted, err := b.DeleteGroup(t.Context(), c.tenant, c.group, c.queue, true)
		require.NoError(t, err)
		require.Zero(t, deleted)
	}
	require.Nil(t, tb.pop(b, fromStart("q", "g")))
}

func TestAChangedSubscriptionCountsForNewPartitionsOnEveryBroker(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "old", 0, 1)
	pop := fromStart("q", "g")
	tb.ackAll(a, "g", tb.pop(a, pop))
	require.Nil(t, tb.pop(b, pop), "both know the group")
	n, err := b.Resubscribe(t.Context(), DefaultTenant, "g", time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	tb.push(b, "q", "late", 1, 2)
	require.Nil(t, tb.pop(a, pop), "began after the hour")
	tb.push(b, "q", "old", 2, 3)
	require.Equal(t, numbers(2, 3), payloads(tb.pop(a, pop)), "cursors stay")
	n, err = a.Resubscribe(t.Context(), DefaultTenant, "g", longAgo)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	tb.push(b, "q", "later", 3, 4)
	require.Equal(t, numbers(3, 4), payloads(tb.pop(a, pop)))
	for _, tenant := range []uuid.UUID{uuid.New(), DefaultTenant} {
		group := "g"
		if tenant == DefaultTenant {
			group = "unknown"
		}
		n, err := a.Resubscribe(t.Context(), tenant, group, longAgo)
		require.NoError(t, err)
		require.Zero(t, n)
	}
}

// A seek over many partitions takes few statements, and pushes go on meanwhile.
func TestASeekOfManyPartitionsIsDoneInPages(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 1)
	const partitions = 50_000
	_, err := b.db.Pool().Exec(t.Context(), `with made as (
			insert into waggle.partition (queue_id, name) select q.id, 'n' || i from waggle.queue q, generate_series(1, $1::int - 1) i returning id)
		insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids)
		select id, 0, now(), 3, 1, '' from made`, partitions)
	require.NoError(t, err)
	_, err = b.db.Pool().Exec(t.Context(), "analyze waggle.partition, waggle.segment")
	require.NoError(t, err)

	stop := make(chan struct{})
	var pushing sync.WaitGroup
	var slowest time.Duration
	pushing.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			began := time.Now()
			for _, r := range b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", i)}) {
				if r.Status != Queued {
					t.Error("push failed")
				}
			}
			slowest = max(slowest, time.Since(began))
		}
	})
	var took [3]time.Duration
	for i, req := range []SeekRequest{{ToEnd: true}, {At: longAgo}, {ToEnd: true}} { // inserted, then updated
		req.Queue, req.Group = "q", "g"
		began := time.Now()
		require.Equal(t, partitions, tb.seek(b, req))
		took[i] = time.Since(began)
	}
	close(stop)
	pushing.Wait()
	t.Logf("seeks of %d partitions took %v; slowest push meanwhile %v", partitions, took, slowest)
	var generation int64
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), "select generation from waggle.consumer_group where name = 'g'").Scan(&generation))
	require.LessOrEqual(t, generation, int64(3*(partitions/pg.SeekPageSize+1)), "one transaction a page")
	require.Less(t, max(took[0], took[1], took[2]), 20*time.Second)
}

// Pages end nowhere but at the end: also where one is full to the last, and with a name that sorts first.
func TestPagesOfASeekTakeEveryPartitionOnce(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "a", 0, 1)
	_, err := b.db.Pool().Exec(t.Context(), `insert into waggle.partition (queue_id, name) select id, n from waggle.queue, unnest('{"",b,c,d,e}'::text[]) n`)
	require.NoError(t, err)
	for size := 1; size <= 7; size++ {
		moved, err := b.db.SeekGroup(t.Context(), pg.Seek{Queue: pg.QueueName{Tenant: DefaultTenant, Name: "q"}, Group: fmt.Sprint(size), ToEnd: true}, size)
		require.NoError(t, err)
		require.Equal(t, 6, moved.Cursors)
	}
	var cursors int
	require.NoError(t, b.db.Pool().QueryRow(t.Context(), "select count(*) from waggle.cursor").Scan(&cursors))
	require.Equal(t, 6*7, cursors)
}

// A broker that saw a group with nothing to do knows none of its partitions: only reading the set again finds them.
func TestASeekIsSeenByAPopThatDoesNotWait(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	a, b := tb.brokers[0], tb.brokers[1]
	tb.push(a, "q", "p", 0, 2)
	// Old enough for looks at what was written not to find it.
	_, err := a.db.Pool().Exec(t.Context(), "update waggle.segment set created_at = created_at - interval '1 hour'")
	require.NoError(t, err)
	pop := fromStart("q", "g")
	tb.ackAll(a, "g", tb.pop(a, pop))
	require.Nil(t, tb.pop(b, pop))
	for range 20 {
		tb.seek(a, SeekRequest{Queue: "q", Group: "g", At: longAgo})
		answer := tb.pop(b, pop)
		require.Equal(t, numbers(0, 2), payloads(answer))
		tb.ackAll(a, "g", answer)
		b.watch.forget()
		require.Nil(t, tb.pop(b, pop))
	}
}
