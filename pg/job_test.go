package pg_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestClaim(t *testing.T) {
	t.Parallel()

	t.Run("a new job is due at once, and then after its interval", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		due, wait, err := b.fenced.Claim(b.ctx, "sweep", time.Hour)
		require.NoError(t, err)
		require.True(t, due)
		require.InDelta(t, time.Hour, wait, float64(time.Minute))
		due, wait, err = b.fenced.Claim(b.ctx, "sweep", time.Hour)
		require.NoError(t, err)
		require.False(t, due)
		require.InDelta(t, time.Hour, wait, float64(time.Minute))
	})

	t.Run("many missed runs are made up by one, and the rate stays fixed", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		b.exec("insert into waggle.job (name, next_due) values ('sweep', clock_timestamp() - interval '205 minutes')")
		due, wait, err := b.fenced.Claim(b.ctx, "sweep", time.Hour)
		require.NoError(t, err)
		require.True(t, due)
		require.InDelta(t, 35*time.Minute, wait, float64(time.Minute))
		due, _, err = b.fenced.Claim(b.ctx, "sweep", time.Hour)
		require.NoError(t, err)
		require.False(t, due)
	})

	t.Run("a job that is switched off is not due", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		b.exec("insert into waggle.job (name, enabled, next_due) values ('sweep', false, clock_timestamp() - interval '1 day')")
		due, wait, err := b.fenced.Claim(b.ctx, "sweep", time.Hour)
		require.NoError(t, err)
		require.False(t, due)
		require.Equal(t, time.Hour, wait)
	})

	t.Run("one of many claims at once wins", func(t *testing.T) {
		t.Parallel()
		b := newReign(t)
		var group sync.WaitGroup
		var won atomic.Int32
		for range 6 {
			group.Go(func() {
				due, _, err := b.fenced.Claim(b.ctx, "sweep", time.Hour)
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				if due {
					won.Add(1)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, won.Load())
	})
}

func TestFinish(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	_, _, err := b.fenced.Claim(b.ctx, "sweep", time.Hour)
	require.NoError(t, err)
	require.NoError(t, b.fenced.Finish(b.ctx, "sweep", 7, "disk on fire"))
	require.Equal(t, 1, b.count("from waggle.job where last_error = 'disk on fire' and last_success is null and rows_done = 7"))
	require.NoError(t, b.fenced.Finish(b.ctx, "sweep", 3, ""))
	require.Equal(t, 1, b.count("from waggle.job where last_error is null and last_success > last_start and rows_done = 10"))
}

func TestCleanRegistry(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	for _, age := range []string{"5 seconds", "9 minutes", "11 minutes", "1 day"} {
		b.exec(`insert into waggle.broker (start_id, name, version, http, mesh, system_needs, system_knows, record_knows, frame_min, frame_max, seen_at)
			values ($1, $2, '0', '', '', 1, 1, 1, 1, 2, clock_timestamp() - $2::text::interval)`, uuid.New(), age)
	}
	rows, more, err := b.fenced.CleanRegistry(b.ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, rows)
	require.False(t, more)
	require.Equal(t, 2, b.count("from waggle.broker where name in ('5 seconds', '9 minutes')"))
}

func TestCleanLeases(t *testing.T) {
	t.Parallel()
	b := newReign(t)
	for _, age := range []string{"-1 minute", "1 minute", "6 minutes"} {
		b.exec("insert into waggle.lease values ($1, '{1,2}', clock_timestamp() - $2::text::interval)", uuid.New(), age)
	}
	rows, more, err := b.fenced.CleanLeases(b.ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, rows)
	require.False(t, more)
	require.Equal(t, 2, b.count("from waggle.lease"))
}
