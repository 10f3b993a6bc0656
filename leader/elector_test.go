package leader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// server is the database of these tests: one lock, one epoch, and faults.
type server struct {
	mu      sync.Mutex // guards all below
	holder  *fakeSession
	epoch   int64
	stamped time.Time
	// silent makes every question wait for its context.
	silent bool
	refuse error
	dials  []time.Time
	tries  []time.Time
	reigns []int64
}

type fakeSession struct {
	*server
	closed bool
	epoch  int64
}

func (s *server) dial(ctx context.Context) (Session, error) {
	s.mu.Lock()
	s.dials = append(s.dials, time.Now())
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	return &fakeSession{server: s}, s.answer(ctx)
}

func (s *server) answer(ctx context.Context) error {
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *server) do(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// facts is a copy of what the server has seen.
type facts struct {
	dials, tries []time.Time
	reigns       []int64
	held         bool
}

func (s *server) facts() (f facts) {
	s.do(func() {
		f = facts{slices.Clone(s.dials), slices.Clone(s.tries), slices.Clone(s.reigns), s.holder != nil}
	})
	return f
}

func (f *fakeSession) TryLock(ctx context.Context) (won, led bool, err error) {
	f.mu.Lock()
	f.tries = append(f.tries, time.Now())
	f.mu.Unlock()
	if err := f.answer(ctx); err != nil {
		return false, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder == nil {
		f.holder = f
	}
	return f.holder == f, time.Since(f.stamped) < defaultLease, nil
}

func (f *fakeSession) Bump(ctx context.Context) (int64, string, time.Time, error) {
	if err := f.answer(ctx); err != nil {
		return 0, "", time.Time{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server.epoch++
	f.epoch, f.stamped = f.server.epoch, time.Now()
	f.reigns = append(f.reigns, f.epoch)
	return f.epoch, "00000001", time.Now(), nil
}

type lostAnswer struct{ error }

func (lostAnswer) LeadershipLost() bool { return true }

func (f *fakeSession) Heartbeat(ctx context.Context) error {
	if err := f.answer(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder != f || f.epoch != f.server.epoch {
		return lostAnswer{errors.New("somebody else holds the lock")}
	}
	f.stamped = time.Now()
	return nil
}

func (f *fakeSession) Holder(context.Context) (string, error) { return "a stranger", nil }

func (f *fakeSession) Unlock(ctx context.Context) error {
	if err := f.answer(ctx); err != nil {
		return err
	}
	f.do(func() {
		if f.holder == f {
			f.holder, f.stamped = nil, time.Time{}
		}
	})
	return nil
}

func (f *fakeSession) Close() {
	f.do(func() {
		f.closed = true
		if f.holder == f {
			f.holder = nil
		}
	})
}

// candidate is a running elector.
type candidate struct {
	*Elector
	stop   context.CancelFunc
	causes chan error
	logs   *observer.ObservedLogs
	gone   chan struct{}
}

func (s *server) start(t *testing.T, change func(*Config)) *candidate {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	c := &candidate{causes: make(chan error, 16), logs: logs, gone: make(chan struct{})}
	config := Config{
		Dial: s.dial, Logger: zap.New(core), Registerer: prometheus.NewRegistry(),
		Lead: func(ctx context.Context, _ Term) error {
			<-ctx.Done()
			c.causes <- context.Cause(ctx)
			return nil
		},
	}
	if change != nil {
		change(&config)
	}
	var err error
	c.Elector, err = New(config)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	go func() {
		defer close(c.gone)
		if err := c.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	return c
}

func (c *candidate) end() {
	c.stop()
	<-c.gone
}

// cause waits for the end of the reign and returns why it ended.
func (c *candidate) cause(t *testing.T) *LostError {
	t.Helper()
	var lost *LostError
	require.ErrorAs(t, <-c.causes, &lost)
	return lost
}

func leads(c *candidate) bool { return c.Status().IsLeader }

func TestElector(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, *server){
		"one of two leads, and the other takes over when it resigns": func(t *testing.T, s *server) {
			first := s.start(t, nil)
			time.Sleep(300 * time.Millisecond)
			require.True(t, leads(first))
			second := s.start(t, nil)
			time.Sleep(20 * time.Second)
			require.True(t, leads(first))
			require.False(t, leads(second))
			require.EqualValues(t, 1, first.Status().Epoch)

			began := time.Now()
			require.NoError(t, first.Resign(t.Context()))
			require.False(t, leads(first))
			require.Equal(t, Resigned, first.cause(t).Reason)
			second.Hint()
			time.Sleep(250 * time.Millisecond)
			require.True(t, leads(second), "a hint brings the hand-over within 200 ms")
			require.EqualValues(t, 2, second.Status().Epoch)

			require.NoError(t, second.Resign(t.Context()))
			s.do(func() { s.tries = nil })
			first.Hint()
			time.Sleep(5*time.Second - time.Since(began) - time.Millisecond)
			require.False(t, leads(first), "sits out five seconds")
			require.Empty(t, s.facts().tries)
			time.Sleep(time.Second)
			require.True(t, leads(first) != leads(second))
			first.end()
			second.end()
			require.False(t, s.facts().held)
		},
		"campaigns every second give or take a fifth": func(t *testing.T, s *server) {
			s.holder = &fakeSession{server: s}
			c := s.start(t, nil)
			time.Sleep(time.Minute)
			s.do(func() {
				require.Greater(t, len(s.tries), 48)
				for i := 1; i < len(s.tries); i++ {
					pause := s.tries[i].Sub(s.tries[i-1])
					require.GreaterOrEqual(t, pause, 800*time.Millisecond)
					require.LessOrEqual(t, pause, 1200*time.Millisecond)
				}
				require.Len(t, s.dials, 1, "the session is kept")
			})
			require.Equal(t, 1, c.logs.FilterMessageSnippet("does not lead").Len(), "a lasting stranger is reported once")
			require.InDelta(t, 60, c.withoutLeader().Seconds(), 2)
			c.end()
		},
		"a silent database ends the reign when trust ends, not later": func(t *testing.T, s *server) {
			c := s.start(t, nil)
			time.Sleep(5 * time.Second)
			require.True(t, leads(c))
			s.do(func() { s.silent = true })
			began := time.Now()
			reason := c.cause(t).Reason
			require.Contains(t, []Reason{Expired, HeartbeatFailed}, reason)
			require.LessOrEqual(t, time.Since(began), 9*time.Second)
			require.False(t, leads(c))
			s.do(func() { s.silent = false })
			time.Sleep(15 * time.Second)
			require.True(t, leads(c))
			require.EqualValues(t, 2, c.Status().Epoch)
			c.end()
		},
		"the answer that another leads ends the reign at the next heartbeat": func(t *testing.T, s *server) {
			c := s.start(t, nil)
			time.Sleep(time.Second)
			s.do(func() { s.epoch++ })
			began := time.Now()
			lost := c.cause(t)
			require.Equal(t, Lost, lost.Reason)
			require.ErrorContains(t, lost, "somebody else holds the lock")
			require.LessOrEqual(t, time.Since(began), 4*time.Second)
			c.end()
		},
		"work that ends by itself hands leadership over": func(t *testing.T, s *server) {
			broken := errors.New("job would not start")
			c := s.start(t, func(config *Config) {
				config.Lead = func(ctx context.Context, _ Term) error { return broken }
			})
			time.Sleep(time.Second)
			require.False(t, leads(c))
			require.Equal(t, []int64{1}, s.facts().reigns, "and sits out")
			require.False(t, s.facts().held)
			require.Equal(t, 1, c.logs.FilterMessage("leadership lost").Len())
			c.end()
		},
		"a resignation does not wait for jobs for ever, but no campaign begins before they end": func(t *testing.T, s *server) {
			letGo := make(chan struct{})
			c := s.start(t, func(config *Config) {
				config.Lead = func(context.Context, Term) error { <-letGo; return nil }
			})
			time.Sleep(time.Second)
			began := time.Now()
			require.NoError(t, c.Resign(t.Context()))
			require.Equal(t, 500*time.Millisecond, time.Since(began))
			require.False(t, s.facts().held)
			time.Sleep(time.Minute)
			require.Equal(t, []int64{1}, s.facts().reigns)
			close(letGo)
			time.Sleep(2 * time.Second)
			require.Equal(t, []int64{1, 2}, s.facts().reigns)
			c.end()
		},
		"an unfit session is reported once and tried once a minute": func(t *testing.T, s *server) {
			s.refuse = unfit{errors.New("a pooler stands in between")}
			c := s.start(t, nil)
			time.Sleep(5*time.Minute + 30*time.Second)
			require.Len(t, s.facts().dials, 6)
			require.Equal(t, 1, c.logs.FilterMessageSnippet("does not campaign").Len())
			require.EqualValues(t, 6, testutil.ToFloat64(c.metrics.campaigns.WithLabelValues(outcomeUnfit)))
			c.end()
		},
		"failures do not end the campaign": func(t *testing.T, s *server) {
			s.refuse = errors.New("connection refused")
			c := s.start(t, nil)
			time.Sleep(time.Hour)
			require.Greater(t, len(s.facts().dials), 2900)
			require.Greater(t, c.withoutLeader(), 59*time.Minute)
			s.do(func() { s.refuse = nil })
			time.Sleep(2 * time.Second)
			require.True(t, leads(c))
			require.Zero(t, c.withoutLeader())
			c.end()
		},
		"the end of run frees the lock and says so": func(t *testing.T, s *server) {
			hints := 0
			c := s.start(t, func(config *Config) { config.Resigned = func() { hints++ } })
			time.Sleep(time.Second)
			began := time.Now()
			c.end()
			require.Zero(t, time.Since(began))
			require.Equal(t, 1, hints)
			require.False(t, s.facts().held)
			require.Equal(t, Stopped, c.cause(t).Reason)
			require.NoError(t, c.Resign(t.Context()))
			require.Error(t, c.Run(t.Context()), "runs once")
			require.EqualValues(t, 1, testutil.ToFloat64(c.metrics.transitions.WithLabelValues(string(Won))))
			require.EqualValues(t, 1, testutil.ToFloat64(c.metrics.transitions.WithLabelValues(string(Stopped))))
		},
		"one that never leads asks nothing": func(t *testing.T, s *server) {
			c := s.start(t, func(config *Config) { config.NeverLead = true })
			c.Hint()
			require.NoError(t, c.Resign(t.Context()))
			time.Sleep(time.Hour)
			require.Empty(t, s.facts().dials)
			c.end()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { run(t, &server{}) })
		})
	}
}

type unfit struct{ error }

func (unfit) UnfitToLead() bool { return true }

func TestElectorsNeverLeadTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var candidates []*candidate
		for range 20 {
			candidates = append(candidates, s.start(t, nil))
		}
		leaders := map[int64]bool{}
		for range 2000 {
			time.Sleep(97 * time.Millisecond)
			count := 0
			for _, c := range candidates {
				if status := c.Status(); status.IsLeader {
					count++
					leaders[status.Epoch] = true
					if roll() < .01 {
						go func() { _ = c.Resign(t.Context()) }()
					}
				}
			}
			require.LessOrEqual(t, count, 1)
		}
		require.Greater(t, len(leaders), 10)
		for _, c := range candidates {
			c.end()
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := New(Config{})
	require.ErrorContains(t, err, "needs Dial and Lead")
	_, err = New(Config{NeverLead: true, Lease: time.Second, Margin: time.Second})
	require.ErrorContains(t, err, "leaves no trust")
	registry := prometheus.NewRegistry()
	_, err = New(Config{NeverLead: true, Registerer: registry})
	require.NoError(t, err)
	_, err = New(Config{NeverLead: true, Registerer: registry})
	require.ErrorContains(t, err, "register leader metrics")
}
