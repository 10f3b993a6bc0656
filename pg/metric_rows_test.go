package pg_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/pg"
)

// Sums of hours say what their minutes said, however often they are made, and old rows go.
func TestMetricsAreRolledUpAndForgotten(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	tenant := uuid.New()
	var queue int64
	b.queryRow(`insert into waggle.queue (tenant, name) values ($1, 'q') returning id`, []any{&queue}, tenant)
	for range 2 { // twice in one minute is added up
		require.NoError(t, b.db.WriteMetrics(b.ctx, "b1", []pg.QueueActivity{{Queue: queue, PushMessages: 3, LagCount: 1, LagSumMillis: 7, LagMaxMillis: 7, Parked: 2}}, pg.BrokerActivity{Samples: 1, Memory: 10}))
	}
	require.Equal(t, 1, b.count("from waggle.queue_metric where push_messages = 6 and lag_max_ms = 7 and parked = 2"))
	require.NoError(t, b.db.WriteMetrics(b.ctx, "b2", []pg.QueueActivity{
		{Queue: queue, PushRequests: 1, PushMessages: 2, PopRequests: 3, PopMessages: 4, AckRequests: 5, AckSuccess: 6, AckFailed: 7, DeadLetters: 8, Conflated: 9},
		{Queue: queue + 1, DeadLetters: 1},
	}, pg.BrokerActivity{Samples: 1, DBErrors: 2, Transactions: 3}))
	require.NoError(t, b.db.WriteMetrics(b.ctx, "b2", nil, pg.BrokerActivity{Transactions: 1}))
	ever := pg.ClusterTotals{
		PushRequests: 1, PushMessages: 8, PopRequests: 3, PopMessages: 4, AckRequests: 5, AckSuccess: 6, AckFailed: 7,
		Transactions: 4, DeadLetters: 9, DBErrors: 2,
	}
	totals, err := b.db.ClusterTotals(b.ctx)
	require.NoError(t, err)
	require.Equal(t, ever, totals)
	b.exec("delete from waggle.queue_metric where minutes = 1 and broker = 'b2'")
	// 48 hours of minutes, ending two hours ago.
	b.exec(`insert into waggle.queue_metric (minutes, bucket, queue_id, broker, push_messages, lag_max_ms)
		select 1, date_trunc('hour', clock_timestamp()) - make_interval(mins => 120 + g), $1, 'b' || g % 3, 1, g from generate_series(1, 48 * 60) g`, queue)
	b.exec(`insert into waggle.broker_metric (minutes, bucket, broker, samples)
		select 1, date_trunc('hour', clock_timestamp()) - make_interval(mins => 120 + g), 'b', 1 from generate_series(1, 48 * 60) g`)
	now := time.Now()
	read := func(minutes int) (sum, highest int64) {
		points, err := b.db.QueueSeries(b.ctx, pg.SeriesFilter{
			Minutes: minutes, Step: 60, From: now.Add(-100 * time.Hour), To: now.Add(time.Hour), Tenant: &tenant, ByQueue: true,
		})
		require.NoError(t, err)
		for _, p := range points {
			require.Equal(t, "q", p.Name)
			sum, highest = sum+p.PushMessages, max(highest, p.LagMaxMillis)
		}
		return sum, highest
	}
	sum, highest := read(1)
	require.EqualValues(t, 48*60+6, sum)
	for range 3 {
		for more := true; more; {
			var err error
			_, more, err = b.fenced.RollUpMetrics(b.ctx)
			require.NoError(t, err)
		}
		again, peak := read(60)
		require.Equal(t, sum, again, "with the minutes that are not summed up yet")
		require.Equal(t, highest, peak)
	}
	require.Equal(t, 48*3, b.count("from waggle.queue_metric where minutes = 60"))
	// A read of days touches the sums and the last minutes, whatever else is stored.
	var plan string
	rows, err := b.db.Pool().Query(b.ctx, `explain (analyze, buffers off, costs off, timing off, summary off)
		select * from waggle.queue_metric where minutes = 60 and bucket >= now() - interval '30 days'`)
	require.NoError(t, err)
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan += line
	}
	require.NoError(t, rows.Err())
	require.Contains(t, plan, "rows=144")

	for more := true; more; {
		_, more, err = b.fenced.CleanMetrics(b.ctx, 24*time.Hour)
		require.NoError(t, err)
	}
	require.Zero(t, b.count("from waggle.queue_metric where minutes > 0 and bucket < clock_timestamp() - interval '24 hours 1 minute'"))
	require.Zero(t, b.count("from waggle.broker_metric where minutes > 0 and bucket < clock_timestamp() - interval '24 hours 1 minute'"))
	require.NotZero(t, b.count("from waggle.queue_metric where minutes = 1"))
	totals, err = b.db.ClusterTotals(b.ctx)
	require.NoError(t, err)
	require.Equal(t, ever, totals, "what was ever done is not forgotten")
}
