package leader

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// shelf is a job store in memory.
type shelf struct {
	mu       sync.Mutex // guards all below
	due      map[string]time.Time
	failures []string
	rows     int64
	err      error
}

func (s *shelf) Claim(_ context.Context, name string, every time.Duration) (bool, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false, 0, s.err
	}
	if s.due == nil {
		s.due = map[string]time.Time{}
	}
	due, known := s.due[name]
	if known && time.Now().Before(due) {
		return false, time.Until(due), nil
	}
	s.due[name] = time.Now().Add(every)
	return true, every, nil
}

func (s *shelf) Finish(_ context.Context, _ string, rows int64, failure string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows += rows
	s.failures = append(s.failures, failure)
	return nil
}

func newRunner(t *testing.T) *Runner {
	t.Helper()
	runner, err := NewRunner(nil, prometheus.NewRegistry())
	require.NoError(t, err)
	return runner
}

func TestRunner(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, *Runner, *shelf){
		"looks at once whether a hurried job is due": func(t *testing.T, runner *Runner, store *shelf) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			began, runs := time.Now(), 0
			go func() {
				runner.Hurry("asked") // while nothing is due
				time.Sleep(time.Second)
				store.mu.Lock()
				store.due["asked"] = time.Now()
				store.mu.Unlock()
				runner.Hurry("asked")
			}()
			require.NoError(t, runner.Run(ctx, store, []Job{{Name: "asked", Every: time.Hour, Batch: func(context.Context) (int64, bool, error) {
				if runs++; runs == 2 {
					require.Equal(t, time.Second, time.Since(began))
				}
				return 0, false, nil
			}}}))
			require.Equal(t, 2, runs)
		},
		"runs each job at its rate, all batches of a run at once": func(t *testing.T, runner *Runner, store *shelf) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
			defer cancel()
			var starts []time.Time
			batches := 0
			slow := 0
			require.NoError(t, runner.Run(ctx, store, []Job{
				{Name: "quick", Every: 5 * time.Second, Batch: func(context.Context) (int64, bool, error) {
					starts = append(starts, time.Now())
					batches++
					return 10, batches%3 != 0, nil
				}},
				{Name: "slow", Every: 40 * time.Second, Batch: func(context.Context) (int64, bool, error) {
					slow++
					return 0, false, nil
				}},
			}))
			require.Equal(t, 3*13, batches)
			require.Equal(t, 5*time.Second, starts[3].Sub(starts[0]))
			require.Equal(t, starts[0], starts[2])
			require.Equal(t, 2, slow)
			require.EqualValues(t, 390, store.rows)
			require.EqualValues(t, 13, testutil.ToFloat64(runner.metrics.runs.WithLabelValues("quick")))
			require.EqualValues(t, 390, testutil.ToFloat64(runner.metrics.rows.WithLabelValues("quick")))
		},
		"records failures and panics, and goes on": func(t *testing.T, runner *Runner, store *shelf) {
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			calls := 0
			require.NoError(t, runner.Run(ctx, store, []Job{{Name: "job", Every: time.Second, Batch: func(context.Context) (int64, bool, error) {
				calls++
				switch calls {
				case 1:
					return 5, true, errors.New("disk on fire")
				case 2:
					panic("boom")
				}
				return 0, false, nil
			}}}))
			require.Equal(t, []string{"disk on fire", "job panicked: boom", "", ""}, store.failures)
			require.EqualValues(t, 2, testutil.ToFloat64(runner.metrics.errors.WithLabelValues("job")))
		},
		"bounds a run in time, and leaves the rest to the next": func(t *testing.T, runner *Runner, store *shelf) {
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			require.NoError(t, runner.Run(ctx, store, []Job{{
				Name: "endless", Every: time.Minute, Timeout: 10 * time.Second,
				Batch: func(context.Context) (int64, bool, error) { time.Sleep(3 * time.Second); return 1, true, nil },
			}}))
			require.EqualValues(t, 8, store.rows)
			require.Equal(t, []string{"", ""}, store.failures)
		},
		"ends when a batch is fenced, after all jobs have returned": func(t *testing.T, runner *Runner, store *shelf) {
			fenced := lostAnswer{errors.New("fenced")}
			other := false
			err := runner.Run(t.Context(), store, []Job{
				{Name: "job", Every: time.Second, Batch: func(context.Context) (int64, bool, error) {
					time.Sleep(time.Second)
					return 0, false, fenced
				}},
				{Name: "other", Every: time.Second, Batch: func(ctx context.Context) (int64, bool, error) {
					<-ctx.Done()
					other = true
					return 0, false, ctx.Err()
				}},
			})
			require.ErrorIs(t, err, fenced)
			require.True(t, other)
			require.EqualValues(t, 1, testutil.ToFloat64(runner.metrics.fenced))
		},
		"ends when a claim is fenced": func(t *testing.T, runner *Runner, store *shelf) {
			store.err = lostAnswer{errors.New("fenced")}
			require.ErrorIs(t, runner.Run(t.Context(), store, []Job{{Name: "job", Every: time.Second}}), store.err)
		},
		"waits for a store that does not answer": func(t *testing.T, runner *Runner, store *shelf) {
			store.err = errors.New("connection refused")
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			time.AfterFunc(5*time.Second, func() {
				store.mu.Lock()
				defer store.mu.Unlock()
				store.err = nil
			})
			calls := 0
			require.NoError(t, runner.Run(ctx, store, []Job{{Name: "job", Every: time.Minute, Batch: func(context.Context) (int64, bool, error) {
				calls++
				return 0, false, nil
			}}}))
			require.Equal(t, 1, calls)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { run(t, newRunner(t), &shelf{}) })
		})
	}
}
