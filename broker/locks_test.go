package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// connect opens a plain connection to the bundle's database, for a neighbour that holds locks or counts rows.
func (tb *testBundle) connect() *pgx.Conn {
	tb.t.Helper()
	conn, err := pgx.Connect(tb.t.Context(), tb.database.SuperURL)
	require.NoError(tb.t, err)
	tb.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (tb *testBundle) count(conn *pgx.Conn, query string, args ...any) (n int64) {
	tb.t.Helper()
	require.NoError(tb.t, conn.QueryRow(tb.t.Context(), query, args...).Scan(&n))
	return n
}

// hold locks the partition's row until the returned function is called.
func (tb *testBundle) hold(conn *pgx.Conn, partition string) (release func()) {
	tb.t.Helper()
	tx, err := conn.Begin(tb.t.Context())
	require.NoError(tb.t, err)
	tag, err := tx.Exec(tb.t.Context(), "select from waggle.partition where name = $1 for no key update", partition)
	require.NoError(tb.t, err)
	require.Equal(tb.t, int64(1), tag.RowsAffected())
	return func() { require.NoError(tb.t, tx.Rollback(context.Background())) }
}

// A writer that waits for the partition's lock sees what was committed while it waited.
func TestTheSameIDPushedWhileTheLockIsHeldIsStoredOnce(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	conn := tb.connect()
	for i := range 2 {
		tb.push(tb.brokers[i], "q", "p", i, i+1) // both brokers know the partition
	}
	for round := range 5 {
		n := 100 + round
		release := tb.hold(conn, "p")
		var wg sync.WaitGroup
		var all [2][]PushResult
		for i := range all {
			wg.Go(func() {
				all[i] = tb.brokers[i].Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "p", n), item("q", "p", 1000+10*round+i)})
			})
		}
		time.Sleep(40 * time.Millisecond) // both wait for the lock, or in their lanes
		release()
		wg.Wait()
		statuses := []PushStatus{all[0][0].Status, all[1][0].Status}
		require.ElementsMatch(t, []PushStatus{Queued, Duplicate}, statuses)
		require.Equal(t, all[0][0].MessageID, all[1][0].MessageID)
		require.Equal(t, []PushStatus{Queued, Queued}, []PushStatus{all[0][1].Status, all[1][1].Status}, "others are not refused")
	}
	require.Equal(t, int64(2+15), tb.count(conn, "select sum(count) from waggle.segment"))
}

// A partition that a neighbour holds stalls nobody else, and gets its own in order afterwards.
func TestAHeldPartitionIsSkipped(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, func(c *Config) { c.Lanes = 1 })
	b := tb.brokers[0]
	tb.push(b, "q", "held", 0, 1)
	tb.push(b, "q", "free", 0, 1)
	release := tb.hold(tb.connect(), "held")
	stuck := make(chan []PushResult, 20)
	for i := range 20 {
		go func() { stuck <- b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", "held", 1+i)}) }()
	}
	for i := range 200 {
		started := time.Now()
		tb.push(b, "q", "free", 1+i, 2+i)
		require.Less(t, time.Since(started), time.Second, "waits behind the held partition")
	}
	select {
	case <-stuck:
		t.Fatal("appended without the lock")
	default:
	}
	release()
	for range 20 {
		require.Equal(t, Queued, (<-stuck)[0].Status)
	}
	tb.push(b, "q", "held", 100, 103)
	answer := tb.pop(b, PopRequest{Tenant: DefaultTenant, Queue: "q", Pinned: true, Partition: "held", Batch: 100})
	require.Len(t, payloads(answer), 24)
	require.Equal(t, numbers(100, 103), payloads(answer)[21:])
}

// Many partitions held at once must not take the connections that lanes need.
func TestManyHeldPartitionsLeaveTheLanesTheirConnections(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	conn := tb.connect()
	for i := range 12 {
		tb.push(b, "q", fmt.Sprint("held", i), 0, 1)
	}
	tb.push(b, "q", "free", 0, 1)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select from waggle.partition where name like 'held%' for no key update")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			require.Equal(t, Queued, b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", fmt.Sprint("held", i), 1)})[0].Status)
		})
	}
	time.Sleep(100 * time.Millisecond)
	for i := range 50 {
		started := time.Now()
		tb.push(b, "q", "free", 1+i, 2+i)
		require.Less(t, time.Since(started), time.Second)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	wg.Wait()
}

// Everything at once over three brokers: pgtest fails the test if the server had to resolve a single deadlock.
func TestLockOrder(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 3)
	until := time.Now().Add(2 * time.Second)
	if testing.Short() {
		until = time.Now().Add(500 * time.Millisecond)
	}
	queue := func() string { return fmt.Sprint("q", rand.IntN(3)) }
	var wg sync.WaitGroup
	run := func(workers int, work func(b *Broker, i int)) {
		for worker := range workers {
			wg.Go(func() {
				for i := 0; time.Now().Before(until); i++ {
					work(tb.brokers[(worker+i)%3], i)
				}
			})
		}
	}
	run(6, func(b *Broker, i int) {
		var items []PushItem
		for range 20 {
			items = append(items, item(queue(), fmt.Sprint("p", rand.IntN(8)), rand.IntN(100_000)))
		}
		b.Push(t.Context(), DefaultTenant, "", items)
	})
	run(6, func(b *Broker, i int) {
		req := PopRequest{
			Tenant: DefaultTenant, Queue: queue(), Batch: 1 + rand.IntN(50), Partitions: rand.IntN(5), LeaseSeconds: 1 + rand.IntN(2),
			AutoAck: rand.IntN(8) == 0, Group: []string{"", "g", "h"}[rand.IntN(3)], SubscriptionMode: "all",
		}
		answer, err := b.Pop(t.Context(), req)
		if err != nil || answer == nil || req.AutoAck {
			return
		}
		other := tb.brokers[rand.IntN(3)]
		if rand.IntN(4) == 0 {
			_, _ = other.Extend(t.Context(), DefaultTenant, answer.Lease.String(), 2)
		}
		group := req.Group
		if group == "" {
			group = QueueMode
		}
		switch rand.IntN(6) {
		case 0:
			b.GiveBack(answer)
		case 1:
			other.Ack(t.Context(), DefaultTenant, group, acksOf(answer, AckStatus(1+rand.IntN(3))))
		default:
			other.Ack(t.Context(), DefaultTenant, group, acksOf(answer, AckCompleted))
		}
		answer.Release()
	})
	run(1, func(b *Broker, i int) {
		_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: queue(), Options: map[string]any{"retryLimit": i % 5}})
		require.NoError(t, err)
		time.Sleep(5 * time.Millisecond)
	})
	run(1, func(b *Broker, i int) {
		_, err := b.DeleteQueue(t.Context(), DefaultTenant, queue())
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond)
	})
	wg.Wait()
}

// After deletes against appends in flight every segment has a partition or is down for the purge, and nothing else of
// the queue is left.
func TestAQueueDeletedUnderAppendsLeavesNoOrphans(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 3)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for worker := range 6 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				b := tb.brokers[worker%3]
				r := b.Push(t.Context(), DefaultTenant, "", []PushItem{item("q", fmt.Sprint("p", i%4), 1000*worker+i)})
				require.Equal(t, Queued, r[0].Status, "the queue is made again in the same call")
				if i%5 == 0 {
					_, err := b.Pop(t.Context(), PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", SubscriptionMode: "all", Batch: 10, AutoAck: true})
					require.NoError(t, err)
				}
			}
		})
	}
	for i := range 30 {
		_, err := tb.brokers[i%3].DeleteQueue(t.Context(), DefaultTenant, "q")
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	conn := tb.connect()
	require.Positive(t, tb.count(conn, "select count(*) from waggle.purge"))
	require.Zero(t, tb.count(conn, `select count(*) from waggle.segment s where not exists (select from waggle.partition p
		where p.id = s.partition_id) and not exists (select from waggle.purge u where u.partition_id = s.partition_id)`))
	require.Zero(t, tb.count(conn, `select count(*) from waggle.partition p where not exists (select from waggle.queue q where q.id = p.queue_id)`))
	require.Zero(t, tb.count(conn, `select count(*) from waggle.cursor c where not exists (select from waggle.partition p where p.id = c.partition_id)`))
	require.Zero(t, tb.count(conn, `select count(*) from waggle.cursor c where not exists (select from waggle.consumer_group g where g.id = c.group_id)`))
	require.Zero(t, tb.count(conn, `select count(*) from waggle.consumer_group g where not exists (select from waggle.queue q where q.id = g.queue_id)`))
}

// Pops that share a flush get different partitions, and each gets one.
func TestPopsOfOneFlushGetDisjointPartitions(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1, func(c *Config) { c.Lanes = 1 })
	b := tb.brokers[0]
	for i := range 40 {
		tb.push(b, "q", fmt.Sprint("p", i), i, i+1)
	}
	tb.pop(b, PopRequest{Tenant: DefaultTenant, Queue: "q", Group: "g", Batch: 1}) // the group is registered, at the end
	var wg sync.WaitGroup
	got := make(chan string, 100)
	for range 40 {
		wg.Go(func() {
			answer, err := b.Pop(t.Context(), request("q"))
			require.NoError(t, err)
			require.NotNil(t, answer)
			require.Len(t, answer.Parts, 1)
			got <- answer.Parts[0].Partition
		})
	}
	wg.Wait()
	close(got)
	seen := map[string]bool{}
	for p := range got {
		require.False(t, seen[p], "%s was given twice", p)
		seen[p] = true
	}
	require.Len(t, seen, 40)
}

// Updates of a cursor touch no index: they stay on their page, and vacuum has little to do.
func TestCursorUpdatesAreHOT(t *testing.T) {
	t.Parallel()
	// Snapshots of neighbours on a shared server would hold back pruning.
	tb := newBundleOn(t, 1, pgtest.NewServer(t, nil))
	b := tb.brokers[0]
	conn := tb.connect()
	var items []PushItem
	for i := range 1200 {
		items = append(items, item("q", fmt.Sprint("p", i%8), i))
	}
	b.Push(t.Context(), DefaultTenant, "", items)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 120 {
				req := request("q")
				req.Batch = 1
				if answer := tb.pop(b, req); answer != nil {
					tb.ackAll(b, "", answer)
				}
			}
		})
	}
	wg.Wait()
	tb.leave(conn, b)
	updates := tb.count(conn, "select n_tup_upd from pg_stat_user_tables where relname = 'cursor'")
	require.Greater(t, updates, int64(800))
	hot := tb.count(conn, "select n_tup_hot_upd from pg_stat_user_tables where relname = 'cursor'")
	require.GreaterOrEqual(t, float64(hot), 0.95*float64(updates), "%d of %d", hot, updates)
}

// An append costs the same however many versions of what it reads an old snapshot keeps alive: the head is the newest
// segment's row, which nobody updates.
func TestAnAppendUnderAHeldSnapshotCostsNoMore(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 0)
	conn, watcher := tb.connect(), tb.connect()
	blocks := func(pushes, from int) int64 {
		read := func() int64 {
			return tb.count(watcher, `select sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint
				from pg_statio_user_tables where relname in ('segment', 'partition', 'queue')`)
		}
		before, b := read(), tb.add()
		for i := range pushes {
			tb.push(b, "q", "p", from+i, from+i+1)
		}
		tb.leave(watcher, b)
		return read() - before
	}
	blocks(1, 0)
	free := blocks(150, 1)
	tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "select count(*) from waggle.segment")
	require.NoError(t, err)
	blocks(600, 1000)
	held := blocks(150, 5000)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Less(t, held, 2*free, "%d blocks for 150 pushes without, %d with a held snapshot", free, held)
}

// leave ends the broker and its sessions, which then report what they did.
func (tb *testBundle) leave(conn *pgx.Conn, b *Broker) {
	tb.t.Helper()
	b.Close()
	b.db.Close()
	require.Eventually(tb.t, func() bool {
		return tb.count(conn, `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'waggle test'`) == 0
	}, 30*time.Second, 5*time.Millisecond)
}

// Acks and claims of many partitions share flushes on every broker: whatever two of them hold, neither waits for the
// other.
func TestAcksAndClaimsCrossWithoutDeadlock(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 3, quiet, func(c *Config) { c.Lanes = 3 })
	var items []PushItem
	for i := range 6000 {
		items = append(items, item("q", fmt.Sprint("p", i%30), i))
	}
	for _, r := range tb.brokers[0].Push(t.Context(), DefaultTenant, "", items) {
		require.Equal(t, Queued, r.Status)
	}
	var wg sync.WaitGroup
	for worker := range 24 {
		wg.Go(func() {
			for i := range 25 {
				req := request("q")
				req.Batch, req.Partitions = 8, 8
				answer, err := tb.brokers[(worker+i)%3].Pop(t.Context(), req)
				require.NoError(t, err)
				if answer == nil {
					continue
				}
				acks := acksOf(answer, AckCompleted)
				rand.Shuffle(len(acks), func(a, b int) { acks[a], acks[b] = acks[b], acks[a] })
				tb.brokers[(worker+i+1)%3].Ack(t.Context(), DefaultTenant, QueueMode, acks)
			}
		})
	}
	wg.Wait()
}
