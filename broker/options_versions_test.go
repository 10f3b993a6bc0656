package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// An option that older builds would not follow is taken only when none of them lives.
func TestAnOptionIsTakenWhenEveryLiveBrokerKnowsIt(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b, conn := tb.brokers[0], tb.connect()
	configure := func(options map[string]any) error {
		_, err := b.Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: options})
		return err
	}
	register := func(name string, knows int, ago time.Duration) {
		_, err := conn.Exec(t.Context(), `insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max, seen_at)
			values ($1, $2, '0.1.0', '', '', 1, $3, 1, 1, 2, clock_timestamp() - make_interval(secs => $4))`, uuid.New(), name, knows, ago.Seconds())
		require.NoError(t, err)
	}
	register("new", 10, 0)
	register("dead", 9, time.Minute)
	require.NoError(t, configure(map[string]any{"deadLetterRetentionSeconds": 60}))
	register("old-1", 9, 0)
	register("old-2", 1, 0)
	var refused *OptionNotKnownError
	require.ErrorAs(t, configure(map[string]any{"deadLetterRetentionSeconds": 61, "leaseTime": 7}), &refused)
	require.Equal(t, []string{"deadLetterRetentionSeconds"}, refused.Options)
	require.Equal(t, []string{"old-1 (0.1.0)", "old-2 (0.1.0)"}, refused.Brokers)
	require.Contains(t, refused.Error(), "upgrade or stop old-1 (0.1.0), old-2 (0.1.0)")
	require.Equal(t, int64(1), tb.count(conn, `select count(*) from waggle.queue where options ->> 'deadLetterRetentionSeconds' = '60' and options ->> 'leaseTime' <> '7'`))
	require.NoError(t, configure(map[string]any{"leaseTime": 8}), "other options are taken all the same")
	for _, back := range []any{nil, 0} {
		require.NoError(t, configure(map[string]any{"deadLetterRetentionSeconds": back}), "and so is the way back")
	}
}

// Dead letters go by the option of their queue, and by the brokers' setting where it has none.
func TestDeadLettersOfAQueueAreKeptAsItsOptionSays(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b, conn := tb.brokers[0], tb.connect()
	for queue, seconds := range map[string]int{"short": 60, "long": 600, "unset": 0} {
		tb.configure(b, queue, map[string]any{"deadLetterRetentionSeconds": seconds, "retryLimit": 0})
		for n, age := range []int{30, 120, 1200} {
			tb.push(b, queue, fmt.Sprint(n), n, n+1)
			require.True(t, b.Ack(t.Context(), DefaultTenant, QueueMode, acksOf(tb.pop(b, request(queue)), AckFailed))[0].DLQ)
			_, err := conn.Exec(t.Context(), "update waggle.dead_letter set failed_at = clock_timestamp() - make_interval(secs => $1) where id = (select max(id) from waggle.dead_letter)", age)
			require.NoError(t, err)
		}
	}
	left := func() (list string) {
		require.NoError(t, conn.QueryRow(t.Context(), `select string_agg(n, ' ' order by n) from (
			select q.name || '=' || count(*) as n from waggle.dead_letter d join waggle.queue q on q.id = d.queue_id group by q.name) l`).Scan(&list))
		return list
	}
	fenced := tb.reign(b)
	for _, row := range []struct {
		setting time.Duration
		rows    int64
		left    string
	}{{0, 3, "long=2 short=1 unset=3"}, {100 * time.Second, 2, "long=2 short=1 unset=1"}} {
		rows, _, err := fenced.CleanDeadLetters(t.Context(), row.setting)
		require.NoError(t, err)
		require.Equal(t, row.rows, rows)
		require.Equal(t, row.left, left())
	}
}
