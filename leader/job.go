package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Job is one kind of background work. It must be safe to run twice at once.
type Job struct {
	Name string
	// Every is the distance between two due times. What was missed while nobody led is made up by one run.
	Every time.Duration
	// Timeout bounds one run, all its batches together. Default 30 s.
	Timeout time.Duration
	// Batch does a bounded piece of work in short fenced transactions, and says how many rows it changed and whether
	// more is waiting: then it is called again at once.
	Batch func(ctx context.Context) (rows int64, more bool, err error)
}

// JobStore keeps what outlives a leader: when each job is due, and how its last run went. An error of its methods, or of
// a batch, that has a method LeadershipLost() bool returning true ends the reign.
type JobStore interface {
	// Claim takes the run that is due, if one is and the job is enabled, and moves the due time on. wait is the time
	// until the next one is due.
	Claim(ctx context.Context, name string, every time.Duration) (due bool, wait time.Duration, err error)
	// Finish records the end of a run; failure is empty after a success.
	Finish(ctx context.Context, name string, rows int64, failure string) error
}

const (
	defaultJobTimeout = 30 * time.Second
	// longestNap bounds how long a job that was switched on, or brought forward, waits unnoticed.
	longestNap = time.Minute
	// shortestNap keeps a clock that moves backwards from making a job ask without a pause.
	shortestNap = 50 * time.Millisecond
	// retryNap is the pause after the store did not answer.
	retryNap = 2 * time.Second
)

// Runner runs jobs on their schedules. One Runner serves all reigns of a process.
type Runner struct {
	logger  *zap.Logger
	metrics *jobMetrics
	mu      sync.Mutex               // guards what follows
	bells   map[string]chan struct{} // of one slot each
}

// NewRunner registers the metrics of the jobs.
func NewRunner(logger *zap.Logger, registerer prometheus.Registerer) (*Runner, error) {
	if logger == nil {
		logger = zap.NewNop()
	}
	metrics, err := newJobMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("register job metrics: %w", err)
	}
	return &Runner{logger: logger, metrics: metrics, bells: map[string]chan struct{}{}}, nil
}

// Hurry lets a job look at once whether it is due, when this process leads.
func (r *Runner) Hurry(job string) {
	select {
	case r.bell(job) <- struct{}{}:
	default:
	}
}

// bell ends a job's nap.
func (r *Runner) bell(job string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	bell := r.bells[job]
	if bell == nil {
		bell = make(chan struct{}, 1)
		r.bells[job] = bell
	}
	return bell
}

// Run runs the jobs, each in a goroutine of its own, until the context is cancelled (nil) or the store or a batch says
// that leadership is lost (that error). All jobs have returned when it does.
func (r *Runner) Run(ctx context.Context, store JobStore, jobs []Job) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, job := range jobs {
		if job.Timeout <= 0 {
			job.Timeout = defaultJobTimeout
		}
		r.metrics.announce(job.Name)
		group.Go(func() error { return r.keep(ctx, store, job) })
	}
	return group.Wait()
}

// keep runs one job whenever it is due.
func (r *Runner) keep(ctx context.Context, store JobStore, job Job) error {
	bell := r.bell(job.Name)
	for ctx.Err() == nil {
		asked := time.Now()
		due, wait, err := store.Claim(ctx, job.Name, job.Every)
		switch {
		case err != nil:
			if err := r.judge(ctx, job, err); err != nil {
				return err
			}
			wait = retryNap
		case due:
			if err := r.run(ctx, store, job); err != nil {
				return err
			}
			wait -= time.Since(asked)
		default:
			wait = max(wait, shortestNap)
		}
		nap(ctx, min(wait, longestNap), bell)
	}
	return nil
}

// run does one run and records it. Its error ends the reign.
func (r *Runner) run(ctx context.Context, store JobStore, job Job) error {
	began := time.Now()
	rows, err := r.batches(ctx, job)
	r.metrics.observe(job.Name, rows, time.Since(began), err)
	failure := ""
	if err != nil {
		if err := r.judge(ctx, job, err); err != nil {
			return err
		}
		failure = err.Error()
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := store.Finish(ctx, job.Name, rows, failure); err != nil {
		return r.judge(ctx, job, fmt.Errorf("record run: %w", err))
	}
	return nil
}

// batches calls the job until nothing more is waiting or its time is over. What is left then waits for the next run.
func (r *Runner) batches(ctx context.Context, job Job) (total int64, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = fmt.Errorf("job panicked: %v", recovered)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	for {
		rows, more, err := job.Batch(ctx)
		total += rows
		if err != nil || !more || ctx.Err() != nil {
			return total, err
		}
	}
}

// judge gives back errors that end the reign, and logs and swallows all others.
func (r *Runner) judge(ctx context.Context, job Job, err error) error {
	switch {
	case ctx.Err() != nil:
		return nil
	case isLost(err):
		r.metrics.fenced.Inc()
		return fmt.Errorf("job %s: %w", job.Name, err)
	}
	r.logger.Warn("job failed", zap.String("code", "WG0205"), zap.String("job", job.Name), zap.Error(err))
	return nil
}

// nap waits, or until the bell rings or the context is done.
func nap(ctx context.Context, wait time.Duration, bell <-chan struct{}) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-bell:
	case <-ctx.Done():
	}
}

type jobMetrics struct {
	runs, errors, rows *prometheus.CounterVec
	seconds            *prometheus.HistogramVec
	lastSuccess        *prometheus.GaugeVec
	fenced             prometheus.Counter
}

func newJobMetrics(registerer prometheus.Registerer) (*jobMetrics, error) {
	label := []string{"job"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, label)
	}
	m := &jobMetrics{
		runs:   counter("waggle_leader_job_runs_total", "Runs of leader jobs on this broker, failed ones included."),
		errors: counter("waggle_leader_job_errors_total", "Runs of leader jobs on this broker that failed."),
		rows:   counter("waggle_leader_job_rows_total", "Rows that leader jobs of this broker changed."),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "waggle_leader_job_seconds",
			Help:    "Time of one run of a leader job.",
			Buckets: prometheus.ExponentialBuckets(.001, 4, 9),
		}, label),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "waggle_leader_job_last_success_timestamp_seconds",
			Help: "When a run of the leader job on this broker last succeeded, 0 if none has.",
		}, label),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waggle_leader_fenced_total",
			Help: "Job transactions refused because another reign had begun.",
		}),
	}
	return m, registerAll(registerer, m.runs, m.errors, m.rows, m.seconds, m.lastSuccess, m.fenced)
}

// announce makes all series of a job exist before its first run.
func (m *jobMetrics) announce(job string) {
	m.runs.WithLabelValues(job)
	m.errors.WithLabelValues(job)
	m.rows.WithLabelValues(job)
	m.seconds.WithLabelValues(job)
	m.lastSuccess.WithLabelValues(job)
}

func (m *jobMetrics) observe(job string, rows int64, took time.Duration, err error) {
	m.runs.WithLabelValues(job).Inc()
	m.rows.WithLabelValues(job).Add(float64(rows))
	m.seconds.WithLabelValues(job).Observe(took.Seconds())
	switch {
	case err == nil:
		m.lastSuccess.WithLabelValues(job).SetToCurrentTime()
	case !errors.Is(err, context.Canceled):
		m.errors.WithLabelValues(job).Inc()
	}
}
