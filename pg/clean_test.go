package pg_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

const longIdle = 24 * time.Hour

func TestIdlePartitionsAreTakenAway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string // $1 is the partition
		stays  bool
	}{
		"emptied and old":                    {},
		"without any segment":                {change: "delete from waggle.segment where partition_id = $1"},
		"its last segment has a body":        {change: "update waggle.log_start set live_offset = 10 where partition_id = $1", stays: true},
		"retention was never there":          {change: "delete from waggle.log_start where partition_id = $1", stays: true},
		"written to lately":                  {change: "update waggle.segment set created_at = now() where partition_id = $1", stays: true},
		"made lately":                        {change: "update waggle.partition set created_at = now() where id = $1", stays: true},
		"a lease lives":                      {change: "update waggle.cursor set lease = gen_random_uuid(), lease_expires_at = now() + interval '1 minute' where partition_id = $1", stays: true},
		"a group pops single partitions":     {change: "update waggle.consumer_group set registered_at = null where queue_id = (select queue_id from waggle.partition where id = $1)", stays: true},
		"a lease has ended":                  {change: "update waggle.cursor set lease = gen_random_uuid(), lease_expires_at = now() where partition_id = $1"},
		"a stream remembers something of it": {change: "insert into waggle.stream_state (query_id, partition_id, key, value) values (gen_random_uuid(), $1, '', '')", stays: true},
		"a dead letter came from it": {change: `insert into waggle.dead_letter (queue_id, partition_id, group_name, record_offset, message_id, transaction_id, payload, error, retry_count)
			values (1, $1, 'g', 3, gen_random_uuid(), 't', '', '', 0)`, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLog(t, "{}")
			b.segment(48 * time.Hour)
			b.segment(30 * time.Hour)
			b.group("g", 19)
			other := b.addPartition(b.queue, "other")
			b.segmentIn(other, 0, time.Minute)
			b.exec("insert into waggle.log_start values ($1, 20)", b.partition)
			b.exec("update waggle.segment set body = null where partition_id = $1", b.partition)
			b.exec("update waggle.partition set created_at = created_at - interval '3 days'")
			for more, counted := true, 0; more || counted < 2; counted++ { // the second pass walks
				_, again, err := b.fenced.Statistics().Batch(b.ctx)
				require.NoError(t, err)
				more = again
			}
			if test.change != "" {
				b.exec(test.change, b.partition)
			}
			rows, more, err := b.fenced.Partitions().Clean(b.ctx, longIdle)
			require.NoError(t, err)
			require.False(t, more)
			if test.stays {
				require.Zero(t, rows)
				require.Equal(t, 2, b.count("from waggle.partition"))
				require.Zero(t, b.count("from waggle.purge"))
				return
			}
			require.EqualValues(t, 1, rows)
			require.Equal(t, 1, b.count("from waggle.partition where id = $1", other))
			require.Zero(t, b.count("from waggle.partition where id = $1", b.partition))
			require.Zero(t, b.count("from waggle.cursor"))
			require.Equal(t, 1, b.count("from waggle.partition_stat"))
			counts, err := b.db.QueueCounts(b.ctx, []int64{b.queue})
			require.NoError(t, err)
			require.EqualValues(t, 1, counts[0].Partitions)
			require.EqualValues(t, 10, counts[0].Messages)
			require.EqualValues(t, 10, counts[0].Pending)
			require.Zero(t, counts[0].Consumed)
			for more := true; more; {
				_, more, err = b.fenced.Purge(b.ctx)
				require.NoError(t, err)
			}
			require.Equal(t, 1, b.count("from waggle.segment"))
			require.Zero(t, b.count("from waggle.log_start"))
		})
	}
}

func TestIdlePartitionsAreTakenAwayInPages(t *testing.T) {
	t.Parallel()
	b := newLog(t, "{}")
	b.exec("insert into waggle.partition (queue_id, name, created_at) select $1, n::text, now() - interval '2 days' from generate_series(1, 2500) n", b.queue)
	clean := b.fenced.Partitions()
	var total int64
	calls := 0
	for more := true; more; calls++ {
		rows, again, err := clean.Clean(b.ctx, longIdle)
		require.NoError(t, err)
		total, more = total+rows, again
	}
	require.EqualValues(t, 2500, total)
	require.Equal(t, 3, calls)
	require.Equal(t, 1, b.count("from waggle.partition"))
}

// Each job of the leader may run twice at once, on the same work: nothing is done twice, nobody waits for long, and nothing
// is left.
func TestJobsMayRunTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":60}`)
	b.exec(`insert into waggle.partition (queue_id, name, created_at) select $1, n::text, now() - interval '2 days' from generate_series(1, 300) n`, b.queue)
	b.exec(`insert into waggle.dead_letter (queue_id, partition_id, group_name, record_offset, message_id, transaction_id, payload, error, retry_count, failed_at)
		select n % 7, n, 'g', 3, gen_random_uuid(), 't', '', '', 0, now() - make_interval(days => n % 2) from generate_series(1, 2000) n`)
	b.exec(`insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max, seen_at)
		select gen_random_uuid(), 'b', '', '', '', 1, 1, 1, 1, 2, now() - interval '1 hour' from generate_series(1, 1200)`)
	b.exec("insert into waggle.lease (id, cursor_ids, expires_at) select gen_random_uuid(), '{}', now() - interval '1 hour' from generate_series(1, 1200)")
	b.exec(`insert into waggle.trace (id, partition_id, queue_name, partition_name, transaction_hash, transaction_id, group_name, event_type, tenant, data, created_at)
		select gen_random_uuid(), 1, 'q', 'p', '', 't', '', '', $1, '', now() - interval '2 days' from generate_series(1, 1200)`, uuid.New())
	b.exec("insert into waggle.stream_state (query_id, partition_id, key, value) select gen_random_uuid(), 900000 + n, '', '' from generate_series(1, 300) n")
	b.exec("insert into waggle.purge (partition_id) select 900000 + n from generate_series(1, 300) n")
	for _, job := range []struct {
		name  string
		batch func() func(context.Context) (int64, bool, error)
		total int64
		left  string
	}{
		{"dead_letters", func() func(context.Context) (int64, bool, error) {
			return func(ctx context.Context) (int64, bool, error) { return b.fenced.CleanDeadLetters(ctx, 12*time.Hour) }
		}, 1000, "from waggle.dead_letter where failed_at < now() - interval '12 hours'"},
		{"registry", func() func(context.Context) (int64, bool, error) { return b.fenced.CleanRegistry }, 1200, "from waggle.broker"},
		{"leases", func() func(context.Context) (int64, bool, error) { return b.fenced.CleanLeases }, 1200, "from waggle.lease"},
		{"traces", func() func(context.Context) (int64, bool, error) {
			return func(ctx context.Context) (int64, bool, error) { return b.fenced.CleanTraces(ctx, time.Hour) }
		}, 1200, "from waggle.trace"},
		{"purge", func() func(context.Context) (int64, bool, error) { return b.fenced.Purge }, 300, "from waggle.stream_state"},
		{"partitions", func() func(context.Context) (int64, bool, error) {
			clean := b.fenced.Partitions()
			return func(ctx context.Context) (int64, bool, error) { return clean.Clean(ctx, longIdle) }
		}, -1, "from waggle.partition p where p.name <> 'Default' and not exists (select from waggle.dead_letter d where d.partition_id = p.id)"},
		{"statistics", func() func(context.Context) (int64, bool, error) { return b.fenced.Statistics().Batch }, -1, "from waggle.partition p where p.name = 'none'"},
		{"roll_up", func() func(context.Context) (int64, bool, error) { return b.fenced.RollUpMetrics }, -1, "from waggle.partition p where p.name = 'none'"},
		{"metrics", func() func(context.Context) (int64, bool, error) {
			return func(ctx context.Context) (int64, bool, error) { return b.fenced.CleanMetrics(ctx, time.Hour) }
		}, -1, "from waggle.queue_metric"},
		{"forget_ids", func() func(context.Context) (int64, bool, error) { return b.fenced.Retention().Forget }, -1, "from waggle.partition p where p.name = 'none'"},
	} {
		var total int64
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 2 {
			batch := job.batch()
			group.Go(func() {
				for idle := 0; idle < 2; {
					rows, more, err := batch(b.ctx)
					mu.Lock()
					if err != nil {
						t.Errorf("%s: %v", job.name, err)
					}
					total += rows
					mu.Unlock()
					if idle++; err == nil && more {
						idle = 0
					}
				}
			})
		}
		group.Wait()
		if job.total >= 0 {
			require.Equal(t, job.total, total, job.name)
		}
		require.Zero(t, b.count(job.left), fmt.Sprint("left by ", job.name))
	}
}

// What a seek or the deletion of a group changes is counted with the next pass, not when the walk comes by.
func TestSeeksAndDeletedGroupsAreCountedAtOnce(t *testing.T) {
	t.Parallel()
	b := newLog(t, "{}")
	b.segment(time.Minute)
	b.group("g", 9)
	statistics := b.fenced.Statistics()
	for range 3 {
		_, err := statistics.Pass(b.ctx)
		require.NoError(t, err)
	}
	var name string
	var tenant uuid.UUID
	b.queryRow("select tenant, name from waggle.queue", []any{&tenant, &name})
	pending := func() int64 {
		t.Helper()
		// Other partitions than the first page: only word that was left leads to ours.
		b.exec("update waggle.statistics_pass set walked = 1000000")
		_, err := statistics.Pass(b.ctx)
		require.NoError(t, err)
		counts, err := b.db.QueueCounts(b.ctx, []int64{b.queue})
		require.NoError(t, err)
		return counts[0].Pending
	}
	require.Zero(t, pending())
	_, err := b.db.SeekGroup(b.ctx, pg.Seek{Queue: pg.QueueName{Tenant: tenant, Name: name}, Group: "g", At: time.Unix(0, 0)}, pg.SeekPageSize)
	require.NoError(t, err)
	require.EqualValues(t, 10, pending())
	_, err = b.db.SeekGroup(b.ctx, pg.Seek{Queue: pg.QueueName{Tenant: tenant, Name: name}, Group: "g", ToEnd: true}, pg.SeekPageSize)
	require.NoError(t, err)
	require.Zero(t, pending())
	_, err = b.db.DeleteGroup(b.ctx, pg.QueueName{Tenant: tenant, Name: name}, "g", true)
	require.NoError(t, err)
	require.EqualValues(t, 10, pending(), "nobody has consumed anything")
}
