package pg_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForget(t *testing.T) {
	t.Parallel()

	t.Run("deletes rows whose ids have outlived their window, but not the last one", func(t *testing.T) {
		t.Parallel()
		b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":1}`)
		b.segment(50 * minute)
		b.segment(40 * minute)
		b.segment(30 * minute)
		b.run()
		require.Equal(t, "0:ids 10:ids 20:ids ", b.log())
		retention := b.fenced.Retention()
		rows, more, err := retention.Forget(b.ctx)
		require.NoError(t, err)
		require.False(t, more)
		require.Zero(t, rows, "still within the window")

		b.exec("update waggle.segment set created_at = created_at - interval '25 minutes'")
		rows, _, err = retention.Forget(b.ctx)
		require.NoError(t, err)
		require.EqualValues(t, 2, rows)
		require.Equal(t, "20:ids ", b.log())
		b.exec("update waggle.segment set created_at = created_at - interval '25 minutes'")
		rows, _, err = retention.Forget(b.ctx)
		require.NoError(t, err)
		require.Zero(t, rows)
		require.Equal(t, "20:ids ", b.log(), "the last row stays")
	})

	t.Run("goes on after retention was switched off, and stops at an unknown retention option", func(t *testing.T) {
		t.Parallel()
		b := newLog(t, `{"retentionEnabled":true,"retentionSeconds":1}`)
		b.segment(50 * minute)
		b.segment(0)
		b.run()
		b.exec("update waggle.segment set created_at = created_at - interval '1 hour' where body is null")
		b.exec(`update waggle.queue set options = '{"retentionOfTomorrow":1}'`)
		rows, _, err := b.fenced.Retention().Forget(b.ctx)
		require.NoError(t, err)
		require.Zero(t, rows)
		b.exec(`update waggle.queue set options = '{}'`)
		rows, _, err = b.fenced.Retention().Forget(b.ctx)
		require.NoError(t, err)
		require.EqualValues(t, 1, rows)
	})
}
