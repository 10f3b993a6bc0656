package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A group that is taken back and fails again has one dead letter, with the last reason, before finalize and after it.
func TestARecordIsBuriedOnce(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 2)
	conn := tb.connect()
	_, err := tb.brokers[0].Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Options: map[string]any{"retryLimit": 0}})
	require.NoError(t, err)
	tb.push(tb.brokers[0], "q", "p", 0, 1)
	var first int64
	for i, reason := range []string{"card refused", "out of stock", "nobody home"} {
		b := tb.brokers[i%2]
		if i > 0 {
			require.Equal(t, 1, tb.seek(b, SeekRequest{Queue: "q", Group: "g", At: longAgo}))
		}
		if i == 2 {
			tb.database.Finalize(t)
		}
		acks := acksOf(tb.pop(b, fromStart("q", "g")), AckFailed)
		acks[0].Error = reason
		require.True(t, b.Ack(t.Context(), DefaultTenant, "g", acks)[0].DLQ)
		var id int64
		var text string
		var pushed, failed time.Time
		require.NoError(t, conn.QueryRow(t.Context(), "select id, convert_from(error, 'utf8'), pushed_at, failed_at from waggle.dead_letter").Scan(&id, &text, &pushed, &failed))
		require.Equal(t, reason, text)
		require.True(t, pushed.Before(failed))
		require.Equal(t, int64(1), tb.count(conn, "select count(*) from waggle.dead_letter"))
		if i == 0 {
			first = id
		}
		require.Equal(t, first, id)
	}
}
