package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// loop carries out what the core decides. One goroutine owns all of it; questions to the session and the jobs run in
// goroutines of their own and report through results and ended. The loop itself never blocks on either, so its timer
// ends the trust window on time whatever the database does.
type loop struct {
	*Elector
	state state
	timer *time.Timer

	// session belongs to the question in flight, or to the loop when there is none.
	session   Session
	results   chan result
	interrupt context.CancelFunc

	ended      chan error
	demote     context.CancelCauseFunc
	lastErr    error
	resigners  []chan struct{}
	strangerAt time.Time
	toldUnfit  bool
}

// result is an answer for the core, and what only the loop needs of it.
type result struct {
	event
	session  Session
	led      bool
	stranger string
	err      error
}

func newLoop(e *Elector) *loop {
	return &loop{
		Elector: e,
		state:   state{phase: following, nextTry: time.Now().Add(time.Duration(roll() * float64(hintJitter)))},
		timer:   time.NewTimer(0),
		results: make(chan result, 1),
		ended:   make(chan error, 1),
	}
}

func (l *loop) run(ctx context.Context) {
	stop := ctx.Done()
	for l.state.phase != stopped {
		select {
		case <-stop:
			stop = nil
			l.handle(event{kind: stopAsked})
		case <-l.hints:
			l.handle(event{kind: hinted})
		case answered := <-l.resigns:
			l.resigners = append(l.resigners, answered)
			l.handle(event{kind: resignAsked})
		case r := <-l.results:
			l.take(r)
		case err := <-l.ended:
			l.takeEnd(err)
		case <-l.timer.C:
			l.handle(event{kind: ticked})
		}
	}
}

// handle feeds the core and does what it says.
func (l *loop) handle(e event) {
	e.roll = roll()
	before := l.state
	next, actions := l.rules.step(l.state, e, time.Now())
	l.state = next
	if before.phase == leading && next.phase != leading {
		l.endReign(before.term)
	}
	for _, a := range actions {
		l.perform(a)
	}
	if l.state.phase == leading {
		l.publish()
	}
	if l.state.free() {
		for _, answered := range l.resigners {
			close(answered)
		}
		l.resigners = nil
	}
	if at := l.state.wakeAt(); at.IsZero() {
		l.timer.Stop()
	} else {
		l.timer.Reset(time.Until(at))
	}
}

func (l *loop) perform(a action) {
	switch a {
	case actTry:
		l.question(dialTimeout, l.try)
	case actBump:
		l.question(l.config.Lease-l.config.Margin, l.bump)
	case actBeat:
		l.question(min(l.config.Lease/3, time.Until(l.state.trustEnd)), l.beat)
	case actInterrupt:
		l.interrupt()
	case actRelease:
		l.question(releaseTimeout, l.release)
	case actDrop:
		l.question(releaseTimeout, l.drop)
	case actLead:
		l.beginReign()
	case actDemote:
		l.demote(&LostError{Epoch: l.reignEpoch(), Reason: l.state.reason, Err: l.lastErr})
	}
}

func (l *loop) reignEpoch() int64 { return l.state.term.Epoch }

// question runs ask in a goroutine with the session; its answer comes through results.
func (l *loop) question(timeout time.Duration, ask func(context.Context, Session) result) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	l.interrupt = cancel
	session := l.session
	go func() {
		defer cancel()
		askedAt := time.Now()
		r := ask(ctx, session)
		r.askedAt = askedAt
		l.results <- r
	}()
}

func (l *loop) try(ctx context.Context, session Session) result {
	if session == nil {
		var err error
		if session, err = l.config.Dial(ctx); err != nil {
			return result{event: event{kind: failed, unfit: isUnfit(err)}, err: err}
		}
	}
	won, led, err := session.TryLock(ctx)
	if err != nil {
		return result{event: event{kind: failed}, session: session, err: fmt.Errorf("try leader lock: %w", err)}
	}
	r := result{event: event{kind: tried, won: won}, session: session, led: led || won}
	if !r.led {
		if r.stranger, err = session.Holder(ctx); err != nil {
			return result{event: event{kind: failed}, session: session, err: fmt.Errorf("look up lock holder: %w", err)}
		}
	}
	return r
}

func (l *loop) bump(ctx context.Context, session Session) result {
	epoch, timeline, since, err := session.Bump(ctx)
	if err != nil {
		return result{event: event{kind: failed}, session: session, err: fmt.Errorf("raise epoch: %w", err)}
	}
	term := Term{Epoch: epoch, Timeline: timeline, Since: since}
	return result{event: event{kind: bumped, term: term}, session: session}
}

func (l *loop) beat(ctx context.Context, session Session) result {
	askedAt := time.Now()
	err := session.Heartbeat(ctx)
	l.metrics.heartbeat.Observe(time.Since(askedAt).Seconds())
	if err != nil {
		reason := HeartbeatFailed
		if isLost(err) {
			reason = Lost
		}
		return result{event: event{kind: failed, reason: reason}, session: session, err: fmt.Errorf("heartbeat: %w", err)}
	}
	return result{event: event{kind: beaten}, session: session}
}

func (l *loop) release(ctx context.Context, session Session) result {
	err := session.Unlock(ctx)
	session.Close()
	if err != nil {
		err = fmt.Errorf("free leader lock: %w", err)
	} else if l.config.Resigned != nil {
		l.config.Resigned()
	}
	return result{event: event{kind: closed}, err: err}
}

func (l *loop) drop(_ context.Context, session Session) result {
	if session != nil {
		session.Close()
	}
	return result{event: event{kind: closed}}
}

// take notes what an answer says beyond the core's interest, and hands it on.
func (l *loop) take(r result) {
	l.session = r.session
	l.lastErr = r.err
	phase := l.state.phase
	switch {
	case phase == asking && r.kind == failed && r.unfit:
		l.metrics.campaigns.WithLabelValues(outcomeUnfit).Inc()
		if !l.toldUnfit {
			l.logger.Warn("this broker does not campaign for leadership", zap.String("code", "WG0201"), zap.Error(r.err))
		}
		l.toldUnfit = true
	case (phase == asking || phase == winning) && r.kind == failed:
		l.metrics.campaigns.WithLabelValues(outcomeError).Inc()
		l.logger.Debug("campaign failed", zap.Error(r.err))
	case r.kind == tried:
		l.toldUnfit = false
		l.takeTry(r)
	case r.kind == closed && r.err != nil:
		l.logger.Warn("leader session closed without an orderly end", zap.String("code", "WG0202"), zap.Error(r.err))
	}
	l.handle(r.event)
}

func (l *loop) takeTry(r result) {
	switch {
	case r.won:
		l.metrics.campaigns.WithLabelValues(outcomeWon).Inc()
	case r.led:
		l.metrics.campaigns.WithLabelValues(outcomeHeld).Inc()
	default:
		l.metrics.campaigns.WithLabelValues(outcomeStranger).Inc()
	}
	if r.led {
		l.noteLed(r.askedAt)
		l.strangerAt = time.Time{}
		return
	}
	// A new leader holds the lock for a moment before its epoch shows: only a lasting stranger is worth a line, once.
	if l.strangerAt.IsZero() {
		l.strangerAt = time.Now().Add(2 * l.config.Lease)
	}
	if time.Now().After(l.strangerAt) {
		l.logger.Warn("leader lock is held by a session that does not lead", zap.String("code", "WG0203"), zap.String("holder", r.stranger))
		l.strangerAt = time.Now().Add(time.Hour)
	}
}

func (l *loop) beginReign() {
	ctx, demote := context.WithCancelCause(context.Background())
	l.demote = demote
	term := l.state.term
	l.publish()
	l.metrics.transitions.WithLabelValues(string(Won)).Inc()
	l.logger.Info("leading", zap.Int64("epoch", term.Epoch), zap.String("timeline", term.Timeline))
	go func() { l.ended <- l.config.Lead(ctx, term) }()
}

func (l *loop) takeEnd(err error) {
	if l.state.phase == leading {
		if err == nil {
			err = errors.New("leader work ended by itself")
		}
		l.lastErr = err
	}
	l.handle(event{kind: jobsEnded})
}

func (l *loop) publish() {
	l.reign.Store(&reign{term: l.state.term, trustEnd: l.state.trustEnd})
	l.noteLed(time.Now())
}

func (l *loop) endReign(term Term) {
	l.reign.Store(nil)
	l.noteLed(time.Now())
	reason := l.state.reason
	l.metrics.transitions.WithLabelValues(string(reason)).Inc()
	switch reason {
	case Resigned, Stopped:
		l.lastErr = nil
		l.logger.Info("leadership given up", zap.Int64("epoch", term.Epoch), zap.String("reason", string(reason)))
	default:
		l.logger.Warn("leadership lost", zap.String("code", "WG0204"), zap.Int64("epoch", term.Epoch), zap.String("reason", string(reason)),
			zap.Error(l.lastErr))
	}
}
