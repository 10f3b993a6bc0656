package pg_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

func (b *logBundle) refresh() {
	b.Helper()
	_, err := b.db.Statistics().Refresh(b.ctx)
	require.NoError(b, err)
}

// requireCounted compares the counters of all queues with a count of everything.
func (b *logBundle) requireCounted() {
	b.Helper()
	rows, err := b.db.Pool().Query(b.ctx, "select id from waggle.queue order by id")
	require.NoError(b, err)
	var queues []int64
	for rows.Next() {
		var id int64
		require.NoError(b, rows.Scan(&id))
		queues = append(queues, id)
	}
	require.NoError(b, rows.Err())
	live, err := b.db.CountMessages(b.ctx, queues, false)
	require.NoError(b, err)
	kept, err := b.db.QueueCounts(b.ctx, queues)
	require.NoError(b, err)
	got := map[int64]pg.QueueCounts{}
	for _, k := range kept {
		k.Consumed = 0
		got[k.Queue] = k
	}
	want := map[int64]pg.QueueCounts{}
	for _, l := range live {
		want[l.Queue] = pg.QueueCounts{
			Queue: l.Queue, Partitions: l.Partitions, Segments: l.Segments, Messages: l.Messages, Bytes: l.Bytes,
			Pending: l.Pending, Processing: l.Processing,
		}
	}
	require.Equal(b, want, got)
	var off int
	b.queryRow(`select count(*) from (
		select queue_id, count(*) n, sum(segments) s, sum(messages) m, sum(bytes) b, sum(pending) p from waggle.partition_stat group by 1
	) x full join waggle.queue_stat q using (queue_id)
	where (x.n, x.s, x.m, x.b, x.p) is distinct from (q.partitions, q.segments, q.messages, q.bytes, q.pending)`, []any{&off})
	require.Zero(b, off, "sums of partitions")
}

func TestStatisticsFollowARandomHistory(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":600}`)
	random := rand.New(rand.NewPCG(1, 2))
	type place struct{ queue, partition, next int64 }
	places := []*place{{queue: b.queue, partition: b.partition}}
	names := map[int64]string{b.queue: "orders"}
	groups := map[int64][]int64{}
	for round := range 60 {
		switch n := random.IntN(10); {
		case n == 0:
			name := fmt.Sprint("q", round)
			queue, partition := b.addQueue(name, `{"retentionEnabled":true,"retentionSeconds":600}`)
			names[queue] = name
			places = append(places, &place{queue: queue, partition: partition})
		case n == 1:
			of := places[random.IntN(len(places))]
			places = append(places, &place{queue: of.queue, partition: b.addPartition(of.queue, fmt.Sprint("p", round))})
		case n == 2:
			of := places[random.IntN(len(places))]
			var group int64
			b.queryRow(`insert into waggle.consumer_group (queue_id, name, registered_at) values ($1, $2, now()) returning id`,
				[]any{&group}, of.queue, fmt.Sprint("g", round))
			groups[of.queue] = append(groups[of.queue], group)
		case n == 3 && round > 20 && len(names) > 1:
			of := places[random.IntN(len(places))]
			var tenant uuid.UUID
			b.queryRow("select tenant from waggle.queue where id = $1", []any{(*[16]byte)(&tenant)}, of.queue)
			id, err := b.db.DeleteQueue(b.ctx, pg.QueueName{Tenant: tenant, Name: names[of.queue]})
			require.NoError(t, err)
			require.Equal(t, of.queue, id)
			delete(names, of.queue)
			var left []*place
			for _, p := range places {
				if p.queue != of.queue {
					left = append(left, p)
				}
			}
			places = left
		case n == 4:
			_, err := b.fenced.Retention().Run(b.ctx)
			require.NoError(t, err)
		case n < 7:
			of := places[random.IntN(len(places))]
			for _, group := range groups[of.queue] {
				committed := random.Int64N(of.next + 1)
				b.exec(`insert into waggle.cursor as c (partition_id, group_id, committed, lease_expires_at, batch_end)
					values ($1, $2, $3, case when $4 then now() + interval '1 hour' end, $3::bigint + 4)
					on conflict (partition_id, group_id) do update set committed = excluded.committed,
					lease_expires_at = excluded.lease_expires_at, batch_end = excluded.batch_end`,
					of.partition, group, committed-1, random.IntN(2) == 0)
			}
		default:
			of := places[random.IntN(len(places))]
			for range 1 + random.IntN(5) {
				age := time.Duration(0)
				if of.next < 50 {
					age = 2 * hour
				}
				b.segmentIn(of.partition, of.next, age)
				of.next += 10
			}
			if random.IntN(3) == 0 {
				require.NoError(t, b.db.Touch(b.ctx, []int64{of.partition}))
			}
		}
		if len(places) == 0 {
			queue, partition := b.addQueue(fmt.Sprint("again", round), "{}")
			names[queue] = fmt.Sprint("again", round)
			places = append(places, &place{queue: queue, partition: partition})
		}
		switch round % 4 {
		case 0:
			b.refresh()
			// Segments stamped in the past stand for old ones; a scan for what is new does not see them, so they were touched.
			for _, p := range places {
				require.NoError(t, b.db.Touch(b.ctx, []int64{p.partition}))
			}
			b.refresh()
			b.requireCounted()
		case 1:
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() {
					if _, err := b.fenced.Statistics().Pass(b.ctx); err != nil {
						t.Errorf("pass: %v", err)
					}
				})
			}
			both.Wait()
		}
	}
}

func TestStatisticsFindWhatIsNew(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{}`)
	for range 3 { // the first walk, and where news begin
		_, err := b.fenced.Statistics().Pass(b.ctx)
		require.NoError(t, err)
	}
	b.segment(0)
	b.segment(0)
	_, err := b.fenced.Statistics().Pass(b.ctx)
	require.NoError(t, err)
	counts, err := b.db.QueueCounts(b.ctx, []int64{b.queue})
	require.NoError(t, err)
	require.Equal(t, []pg.QueueCounts{{Queue: b.queue, Partitions: 1, Segments: 2, Messages: 20, Bytes: 2, Pending: 20}}, counts)
}

func TestStatisticsBeyondRetentionOfAnotherBuild(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{}`)
	for range 4 {
		b.segment(hour)
	}
	b.refresh()
	// Taken by a build that leaves no word of it.
	b.exec("update waggle.segment set body = null where partition_id = $1 and base_offset < 20", b.partition)
	b.exec("insert into waggle.log_start (partition_id, live_offset) values ($1, 20)", b.partition)
	for range 2 {
		_, err := b.fenced.Statistics().Pass(b.ctx)
		require.NoError(t, err)
	}
	b.requireCounted()
}

// TestStatisticsCostNothingWhenNothingChanges: on a million idle segments a pass reads at most a hundred pages.
func TestStatisticsCostNothingWhenNothingChanges(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{}`)
	b.exec(`insert into waggle.partition (queue_id, name) select $1, 'p' || n from generate_series(1, 4000) n`, b.queue)
	b.exec(`insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
		select p.id, n * 10, clock_timestamp() - interval '1 day', 10, 1, '\x00', '\x01'
		from waggle.partition p cross join generate_series(0, 249) n where p.name <> 'Default'`)
	b.exec(`insert into waggle.consumer_group (queue_id, name, registered_at) values ($1, 'g', now())`, b.queue)
	b.exec(`insert into waggle.cursor (partition_id, group_id, committed)
		select p.id, g.id, 2499 from waggle.partition p, waggle.consumer_group g`)
	b.exec("vacuum analyze waggle.segment, waggle.partition, waggle.cursor")
	for more := true; more; {
		report, err := b.fenced.Statistics().Pass(b.ctx)
		require.NoError(t, err)
		more = report.More
	}
	b.exec("vacuum analyze waggle.partition_stat, waggle.touched, waggle.statistics_pass, waggle.queue_stat")
	var messages int64
	b.queryRow("select messages from waggle.queue_stat where queue_id = $1", []any{&messages}, b.queue)
	require.EqualValues(t, 10_000_000, messages)

	passes := func(n int) int {
		before := b.touchedBuffers()
		db, err := pg.Open(b.ctx, pg.Config{URL: b.url, MaxConns: 1, ApplicationName: "test", Knows: pg.Knows{System: 1, Record: 1}})
		require.NoError(t, err)
		for range n {
			report, err := db.Fenced(b.reign).Statistics().Pass(b.ctx)
			require.NoError(t, err)
			require.False(t, report.More)
			require.Zero(t, report.Counted)
		}
		db.Close()
		return b.touchedBuffers() - before
	}
	// A connection's first passes also plan.
	buffers := (passes(11) - passes(1)) / 10
	require.LessOrEqual(t, buffers, 100)
	require.Positive(t, buffers)
	t.Logf("a pass over 1,000,000 idle segments touches %d buffers", buffers)
}

// touchedBuffers is what all connections that have ended have touched, once the server has settled its books.
func (b *logBundle) touchedBuffers() (n int) {
	b.Helper()
	last := -1
	require.Eventually(b, func() bool {
		conn, err := pgx.Connect(b.ctx, b.url)
		require.NoError(b, err)
		defer func() { _ = conn.Close(b.ctx) }()
		require.NoError(b, conn.QueryRow(b.ctx, `select sum(coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0) + coalesce(idx_blks_read, 0)
			+ coalesce(idx_blks_hit, 0) + coalesce(toast_blks_read, 0) + coalesce(toast_blks_hit, 0))
			from pg_statio_all_tables where schemaname = 'waggle'`).Scan(&n))
		settled := n == last
		last = n
		return settled
	}, 30*time.Second, 300*time.Millisecond)
	return n
}
