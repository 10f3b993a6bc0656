package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Config says how to campaign, and what to do with a reign. Zero durations mean the defaults.
type Config struct {
	// Dial opens a session. An error with a method UnfitToLead() bool returning true says that this way of reaching the
	// database can never hold the lock; it is then tried only once a minute.
	Dial func(ctx context.Context) (Session, error)
	// Lead does the work of the leader. It must return soon after its context is cancelled, whose cause is then a
	// *LostError. If it returns before that, the elector resigns.
	Lead func(ctx context.Context, term Term) error
	// Resigned is called each time the lock was freed in good order, so that others can be told. It must not block. May
	// be nil.
	Resigned func()
	// NeverLead makes Run wait for its context and do nothing else.
	NeverLead bool

	// Lease is how long the server keeps the lock of a silent leader. Default 10 s.
	Lease time.Duration
	// Margin is what trust in an answer falls short of the lease. Default a tenth of the lease.
	Margin time.Duration
	// Campaign is the mean time between two tries. Default 1 s.
	Campaign time.Duration
	// SitOut is how long no try is made after a resignation. Default 5 s.
	SitOut time.Duration
	// JobWait bounds how long a resignation waits for the jobs. Default 500 ms.
	JobWait time.Duration

	Logger     *zap.Logger
	Registerer prometheus.Registerer
}

const (
	defaultLease    = 10 * time.Second
	defaultCampaign = time.Second
	defaultSitOut   = 5 * time.Second
	defaultJobWait  = 500 * time.Millisecond
	hintJitter      = 200 * time.Millisecond
	unfitPause      = time.Minute
	// dialTimeout covers opening a session and proving it.
	dialTimeout    = 10 * time.Second
	releaseTimeout = 500 * time.Millisecond
)

// Status is what a broker knows of its own leadership.
type Status struct {
	IsLeader bool
	// Epoch and Since are zero unless IsLeader.
	Epoch int64
	Since time.Time
}

// Elector campaigns for leadership as long as Run runs. Its other methods may be called at any time, from anywhere.
type Elector struct {
	config  Config
	rules   rules
	logger  *zap.Logger
	metrics *metrics

	hints   chan struct{}
	resigns chan chan struct{}
	done    chan struct{}
	running atomic.Bool

	// reign is nil while not leading.
	reign atomic.Pointer[reign]
	// ledAt is when somebody was last known to lead, as a time with a monotonic part.
	ledAt atomic.Pointer[time.Time]
}

// reign is the published form of leading.
type reign struct {
	term     Term
	trustEnd time.Time
}

// New checks the configuration and registers the metrics.
func New(config Config) (*Elector, error) {
	if !config.NeverLead && (config.Dial == nil || config.Lead == nil) {
		return nil, errors.New("elector needs Dial and Lead")
	}
	config.Lease = orDefault(config.Lease, defaultLease)
	config.Margin = orDefault(config.Margin, config.Lease/10)
	config.Campaign = orDefault(config.Campaign, defaultCampaign)
	config.SitOut = orDefault(config.SitOut, defaultSitOut)
	config.JobWait = orDefault(config.JobWait, defaultJobWait)
	if config.Margin >= config.Lease/2 {
		return nil, fmt.Errorf("margin %v leaves no trust in a lease of %v", config.Margin, config.Lease)
	}
	if config.Logger == nil {
		config.Logger = zap.NewNop()
	}
	e := &Elector{
		config: config,
		rules: rules{
			lease: config.Lease, margin: config.Margin, campaign: config.Campaign, hintJitter: hintJitter,
			sitOut: config.SitOut, unfit: unfitPause, jobWait: config.JobWait,
		},
		logger:  config.Logger,
		hints:   make(chan struct{}, 1),
		resigns: make(chan chan struct{}),
		done:    make(chan struct{}),
	}
	e.noteLed(time.Now())
	var err error
	if e.metrics, err = newMetrics(config.Registerer, e); err != nil {
		return nil, fmt.Errorf("register leader metrics: %w", err)
	}
	return e, nil
}

func orDefault(value, otherwise time.Duration) time.Duration {
	if value > 0 {
		return value
	}
	return otherwise
}

// Hint says that the leader has probably left: one try follows within 200 ms, unless this broker is sitting out.
func (e *Elector) Hint() {
	select {
	case e.hints <- struct{}{}:
	default:
	}
}

// Resign gives up leadership, or the attempt to gain it, and sits out a while. It returns when this broker holds no
// lock. On a broker that does not lead it only makes it sit out.
func (e *Elector) Resign(ctx context.Context) error {
	if e.config.NeverLead {
		return nil
	}
	answered := make(chan struct{})
	select {
	case e.resigns <- answered:
	case <-e.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("resign: %w", context.Cause(ctx))
	}
	select {
	case <-answered:
		return nil
	case <-e.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("resign: %w", context.Cause(ctx))
	}
}

// Status tells whether this broker leads. It never says so after the trust window has ended.
func (e *Elector) Status() Status {
	if r := e.reign.Load(); r != nil && time.Now().Before(r.trustEnd) {
		return Status{IsLeader: true, Epoch: r.term.Epoch, Since: r.term.Since}
	}
	return Status{}
}

// Run campaigns until the context is cancelled, then resigns for good (the path of SIGTERM), and returns nil when the
// lock is free and everything it started has ended. It may be called once.
func (e *Elector) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return errors.New("elector ran before")
	}
	defer close(e.done)
	if e.config.NeverLead {
		<-ctx.Done()
		return nil
	}
	l := newLoop(e)
	defer l.timer.Stop()
	l.run(ctx)
	return nil
}

func (e *Elector) noteLed(at time.Time) { e.ledAt.Store(&at) }

// withoutLeader is how long nobody has been known to lead.
func (e *Elector) withoutLeader() time.Duration {
	if e.config.NeverLead || e.Status().IsLeader {
		return 0
	}
	return time.Since(*e.ledAt.Load())
}

func roll() float64 { return rand.Float64() }
