package pg_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

// logBundle is a queue with one partition, whose log the test writes by hand.
type logBundle struct {
	*reignBundle
	queue, partition int64
	next             int64
}

func newLog(t *testing.T, options string) *logBundle {
	t.Helper()
	b := &logBundle{reignBundle: newReign(t)}
	b.queue, b.partition = b.addQueue("orders", options)
	return b
}

func (b *logBundle) addQueue(name, options string) (queue, partition int64) {
	b.Helper()
	b.queryRow("insert into waggle.queue (tenant, name, options) values ($1, $2, $3) returning id", []any{&queue},
		uuid.New(), name, json.RawMessage(options))
	return queue, b.addPartition(queue, "Default")
}

func (b *logBundle) addPartition(queue int64, name string) (partition int64) {
	b.Helper()
	b.queryRow("insert into waggle.partition (queue_id, name) values ($1, $2) returning id", []any{&partition}, queue, name)
	return partition
}

// segment appends ten records of the given age to the partition of the bundle.
func (b *logBundle) segment(age time.Duration) (base int64) {
	b.Helper()
	base = b.next
	b.segmentIn(b.partition, base, age)
	b.next += 10
	return base
}

func (b *logBundle) segmentIn(partition, base int64, age time.Duration) {
	b.Helper()
	b.exec(`insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
		values ($1, $2, clock_timestamp() - make_interval(secs => $3), 10, 1, '\x00', '\x01')`, partition, base, age.Seconds())
}

// group makes a group with a cursor in the partition of the bundle.
func (b *logBundle) group(name string, committed int64) (cursor int64) {
	b.Helper()
	b.queryRow(`with g as (insert into waggle.consumer_group (queue_id, name, registered_at) values ($1, $2, now()) returning id)
		insert into waggle.cursor (partition_id, group_id, committed, attempt, attempt_offset, retry)
		select $3, id, $4::bigint, 3, $4::bigint + 1, 2 from g returning id`, []any{&cursor}, b.queue, name, b.partition, committed)
	return cursor
}

func (b *logBundle) committed(cursor int64) (committed int64) {
	b.Helper()
	b.queryRow("select committed from waggle.cursor where id = $1", []any{&committed}, cursor)
	return committed
}

// log renders the rows of the partition: base offset, and whether there is still a body.
func (b *logBundle) log() string {
	b.Helper()
	rows, err := b.db.Pool().Query(b.ctx,
		"select base_offset, body is not null from waggle.segment where partition_id = $1 order by base_offset", b.partition)
	require.NoError(b, err)
	out := ""
	var base int64
	var body bool
	_, err = pgx.ForEachRow(rows, []any{&base, &body}, func() error {
		state := "ids"
		if body {
			state = "body"
		}
		out += fmt.Sprintf("%d:%s ", base, state)
		return nil
	})
	require.NoError(b, err)
	return out
}

func (b *logBundle) logStart() (live int64) {
	b.Helper()
	b.queryRow("select coalesce((select live_offset from waggle.log_start where partition_id = $1), 0)", []any{&live}, b.partition)
	return live
}

func (b *logBundle) run() pg.RetentionReport {
	b.Helper()
	report, err := b.fenced.Retention().Run(b.ctx)
	require.NoError(b, err)
	return report
}

const (
	minute = time.Minute
	hour   = time.Hour
)

func TestRetentionRules(t *testing.T) {
	t.Parallel()
	type setUp struct {
		name    string
		options string
		ages    []time.Duration
		// cursors of registered groups, by what they have committed.
		cursors []int64
		// absent adds a registered group that has no cursor here, pinned one that is not registered.
		absent, pinned bool
		log            string
		start          int64
	}
	for _, test := range []setUp{
		{
			name:    "retentionSeconds takes what is older, consumed or not, and keeps ids within the window",
			options: `{"retentionEnabled":true,"retentionSeconds":600}`,
			ages:    []time.Duration{2 * hour, 20 * minute, 5 * minute},
			cursors: []int64{-1},
			log:     "10:ids 20:body ", start: 20,
		}, {
			name:    "retentionSeconds needs no consumer",
			options: `{"retentionEnabled":true,"retentionSeconds":600}`,
			ages:    []time.Duration{20 * minute, 5 * minute},
			log:     "0:ids 10:body ", start: 10,
		}, {
			name:    "retentionEnabled gates retentionSeconds and completedRetentionSeconds",
			options: `{"retentionEnabled":false,"retentionSeconds":1,"completedRetentionSeconds":1}`,
			ages:    []time.Duration{2 * hour, hour},
			cursors: []int64{19},
			log:     "0:body 10:body ",
		}, {
			name:    "the last row of a partition stays however old it is",
			options: `{"retentionEnabled":true,"retentionSeconds":60}`,
			ages:    []time.Duration{5 * hour, 4 * hour},
			log:     "10:ids ", start: 20,
		}, {
			name:    "completedRetentionSeconds takes what all groups have consumed",
			options: `{"retentionEnabled":true,"completedRetentionSeconds":60}`,
			ages:    []time.Duration{40 * minute, 30 * minute, 20 * minute, 10 * time.Second},
			cursors: []int64{39, 19},
			log:     "0:ids 10:ids 20:body 30:body ", start: 20,
		}, {
			name:    "completedRetentionSeconds works on whole segments",
			options: `{"retentionEnabled":true,"completedRetentionSeconds":60}`,
			ages:    []time.Duration{40 * minute, 30 * minute},
			cursors: []int64{18},
			log:     "0:ids 10:body ", start: 10,
		}, {
			name:    "completedRetentionSeconds waits its time",
			options: `{"retentionEnabled":true,"completedRetentionSeconds":1800}`,
			ages:    []time.Duration{40 * minute, 20 * minute},
			cursors: []int64{19},
			log:     "0:ids 10:body ", start: 10,
		}, {
			name:    "a registered group without a cursor has consumed nothing",
			options: `{"retentionEnabled":true,"completedRetentionSeconds":60}`,
			ages:    []time.Duration{40 * minute, 30 * minute},
			cursors: []int64{19}, absent: true,
			log: "0:body 10:body ",
		}, {
			name:    "a group that was never registered and has no cursor does not count",
			options: `{"retentionEnabled":true,"completedRetentionSeconds":60}`,
			ages:    []time.Duration{40 * minute, 30 * minute},
			cursors: []int64{9}, pinned: true,
			log: "0:ids 10:body ", start: 10,
		}, {
			name:    "a partition without a cursor keeps its data under completedRetentionSeconds",
			options: `{"retentionEnabled":true,"completedRetentionSeconds":60}`,
			ages:    []time.Duration{40 * minute, 30 * minute},
			log:     "0:body 10:body ",
		}, {
			name:    "maxWaitTimeSeconds takes what is not consumed, without retentionEnabled",
			options: `{"maxWaitTimeSeconds":900}`,
			ages:    []time.Duration{40 * minute, 30 * minute, 10 * minute},
			cursors: []int64{9},
			log:     "0:ids 10:ids 20:body ", start: 20,
		}, {
			name:    "maxWaitTimeSeconds leaves what is consumed",
			options: `{"maxWaitTimeSeconds":900}`,
			ages:    []time.Duration{40 * minute, 30 * minute, 10 * minute},
			cursors: []int64{19},
			log:     "0:body 10:body 20:body ",
		}, {
			name:    "maxWaitTimeSeconds counts what one of two groups has not consumed",
			options: `{"maxWaitTimeSeconds":900}`,
			ages:    []time.Duration{40 * minute, 30 * minute, 10 * minute},
			cursors: []int64{29, 14},
			log:     "0:ids 10:ids 20:body ", start: 20,
		}, {
			name:    "maxWaitTimeSeconds takes what nobody consumes",
			options: `{"maxWaitTimeSeconds":900}`,
			ages:    []time.Duration{40 * minute, 10 * minute},
			log:     "0:ids 10:body ", start: 10,
		}, {
			name:    "the greatest of the rules decides",
			options: `{"retentionEnabled":true,"retentionSeconds":2100,"completedRetentionSeconds":60,"maxWaitTimeSeconds":3000}`,
			ages:    []time.Duration{40 * minute, 30 * minute, 20 * minute},
			cursors: []int64{19},
			log:     "0:ids 10:ids 20:body ", start: 20,
		}, {
			name:    "a longer de-duplication window keeps ids longer",
			options: `{"retentionEnabled":true,"retentionSeconds":60,"dedupWindowSeconds":14400}`,
			ages:    []time.Duration{5 * hour, 3 * hour, 0},
			log:     "10:ids 20:body ", start: 20,
		}, {
			name:    "a shorter window keeps ids for 900 s",
			options: `{"retentionEnabled":true,"retentionSeconds":60,"dedupWindowSeconds":0}`,
			ages:    []time.Duration{20 * minute, 14 * minute, 0},
			log:     "10:ids 20:body ", start: 20,
		}, {
			name:    "an unknown retention option keeps everything",
			options: `{"retentionEnabled":true,"retentionSeconds":60,"retentionOfTomorrow":1}`,
			ages:    []time.Duration{2 * hour, hour},
			log:     "0:body 10:body ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newLog(t, test.options)
			for _, age := range test.ages {
				b.segment(age)
			}
			for i, committed := range test.cursors {
				b.group(fmt.Sprintf("g%d", i), committed)
			}
			if test.absent {
				b.exec("insert into waggle.consumer_group (queue_id, name, registered_at) values ($1, 'absent', now())", b.queue)
			}
			if test.pinned {
				b.exec("insert into waggle.consumer_group (queue_id, name) values ($1, 'pinned')", b.queue)
			}
			report := b.run()
			require.Equal(t, test.log, b.log())
			require.Equal(t, test.start, b.logStart())
			require.Zero(t, b.run().Rows(), "a second run finds nothing")
			require.False(t, report.More)
		})
	}
}

func TestRetentionReportsSkippedQueues(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{"maxWaitTimeSeconds":60,"retentionSinkHold":"lake","unknownElsewhere":true}`)
	b.segment(hour)
	report := b.run()
	require.Len(t, report.Skipped, 1)
	require.Equal(t, "orders", report.Skipped[0].Queue)
	require.Contains(t, report.Skipped[0].Reason, "retentionSinkHold")
	require.Equal(t, "0:body ", b.log())
}

func TestRetentionMovesCursorsThatFellBehind(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":600}`)
	b.segment(2 * hour)
	b.segment(hour)
	b.segment(0)
	idle, expired, leased, ahead := b.group("idle", -1), b.group("expired", 4), b.group("leased", 4), b.group("ahead", 25)
	lease := `update waggle.cursor set lease = gen_random_uuid(), batch_end = 9, lease_expires_at = clock_timestamp() + make_interval(secs => $2) where id = $1`
	b.exec(lease, expired, -60.0)
	b.exec(lease, leased, 60.0)

	require.EqualValues(t, 2, b.run().Moved)
	require.EqualValues(t, 19, b.committed(idle))
	require.EqualValues(t, 19, b.committed(expired))
	require.EqualValues(t, 4, b.committed(leased), "a live lease is left to its consumer")
	require.EqualValues(t, 25, b.committed(ahead))
	require.Equal(t, 2, b.count("from waggle.cursor where id = any ($1) and attempt = 0 and retry = 0 and lease is null and batch_end is null",
		[]int64{idle, expired}))
}

func TestRetentionWorksThroughABacklogInBoundedSteps(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":600}`)
	b.exec(`insert into waggle.segment (partition_id, base_offset, created_at, count, format, ids, body)
		select $1, n * 10, clock_timestamp() - interval '3 hours', 10, 1, '\x00', '\x01' from generate_series(0, 1499) n`, b.partition)
	b.next = 15000
	b.segment(0)
	retention := b.fenced.Retention()
	var deleted int64
	for more := true; more; {
		report, err := retention.Run(b.ctx)
		require.NoError(t, err)
		deleted, more = deleted+report.Deleted, report.More
	}
	require.EqualValues(t, 1500, deleted)
	require.Equal(t, "15000:body ", b.log())
	require.EqualValues(t, 15000, b.logStart())
}

func TestRetentionTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":600}`)
	var cursors []int64
	for n := range 20 {
		b.partition, b.next = b.addPartition(b.queue, fmt.Sprint(n)), 0
		for range 40 {
			b.segment(2 * hour)
		}
		b.segment(time.Second)
		cursors = append(cursors, b.group(fmt.Sprint("g", n), -1))
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var deleted int64
	for range 4 {
		group.Go(func() {
			retention := b.fenced.Retention()
			for range 3 {
				report, err := retention.Run(b.ctx)
				mu.Lock()
				deleted += report.Deleted
				mu.Unlock()
				if err != nil {
					t.Errorf("run: %v", err)
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 20*40, deleted, "no segment is counted twice")
	require.Equal(t, 20, b.count("from waggle.log_start where live_offset = 400"))
	require.Equal(t, 20, b.count("from waggle.cursor where committed = 399 and id = any ($1)", cursors))
}

func TestRetentionSkipsAPartitionThatIsHeld(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":600}`)
	b.segment(2 * hour)
	b.segment(0)
	tx, err := b.db.Pool().Begin(b.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(b.ctx, "select from waggle.partition where id = $1 for no key update", b.partition)
	require.NoError(t, err)
	require.Zero(t, b.run().Rows())
	require.NoError(t, tx.Rollback(b.ctx))
	require.EqualValues(t, 1, b.run().Rows())
}

func TestRetentionLeavesQueuesConfiguredMeanwhile(t *testing.T) {
	t.Parallel()
	b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":600}`)
	b.segment(2 * hour)
	b.segment(0)
	// The partition is held while the walk reads the rules, and the queue is configured before it is let go.
	tx, err := b.db.Pool().Begin(b.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(b.ctx, "update waggle.queue set options = '{}', version = version + 1")
	require.NoError(t, err)
	_, err = tx.Exec(b.ctx, "select from waggle.partition where id = $1 for no key update", b.partition)
	require.NoError(t, err)
	done := make(chan pg.RetentionReport, 1)
	go func() {
		report, _ := b.fenced.Retention().Run(b.ctx)
		done <- report
	}()
	require.Eventually(t, func() bool {
		return b.count("from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()") == 1
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, tx.Commit(b.ctx))
	require.Zero(t, (<-done).Rows())
	require.Equal(t, "0:body 10:body ", b.log())
}
