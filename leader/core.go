package leader

import "time"

// The core is a pure function (state, event, now) -> (state, actions). It does no IO, reads no clock and rolls no dice:
// the loop in elector.go hands it all of that, so every path can be tested from a table.

type phase uint8

const (
	following phase = iota
	asking
	winning
	leading
	yielding
	stopped
)

type eventKind uint8

const (
	// ticked: the time that wakeAt asked for has come.
	ticked eventKind = iota
	// hinted: the mesh says that the leader has left.
	hinted
	// resignAsked: step down, and sit out a while.
	resignAsked
	// stopAsked: step down for good.
	stopAsked
	// tried, bumped, beaten: answers to the question in flight.
	tried
	bumped
	beaten
	// failed: the question in flight got an error.
	failed
	// jobsEnded: Config.Lead has returned.
	jobsEnded
	// closed: release or drop is done.
	closed
)

type event struct {
	kind eventKind
	// askedAt is a moment before the question was sent.
	askedAt time.Time
	won     bool
	term    Term
	// reason of a failed heartbeat.
	reason Reason
	unfit  bool
	// roll is a random number in [0, 1).
	roll float64
}

type action uint8

const (
	actTry action = iota
	actBump
	actBeat
	// actLead: publish the term and start the jobs.
	actLead
	// actDemote: cancel the leader context, saying state.reason.
	actDemote
	// actInterrupt: cancel the question in flight.
	actInterrupt
	// actRelease: vacate, unlock, close, hint.
	actRelease
	// actDrop: close.
	actDrop
)

type state struct {
	phase phase
	term  Term
	// inFlight: a question, release or drop has been sent and has not come back. There is never a second one.
	inFlight bool
	// jobs: Config.Lead has been started and has not returned.
	jobs bool

	nextTry    time.Time
	quietUntil time.Time
	trustEnd   time.Time
	beatDue    time.Time
	// waitEnd bounds how long a resignation waits for jobs and answers.
	waitEnd time.Time

	// reason of yielding.
	reason Reason
	// graceful: the session is believed to be sound, so the lock is freed before it is closed.
	graceful bool
	// closed: the session has been closed since yielding began.
	closed bool
	// interrupted: the question in flight has been cancelled already.
	interrupted bool

	// What came while a question was in flight.
	resign bool
	stop   bool
	hint   bool
}

type rules struct {
	lease, margin time.Duration
	campaign      time.Duration
	hintJitter    time.Duration
	sitOut        time.Duration
	unfit         time.Duration
	jobWait       time.Duration
}

// trust is the end of the trust window that an answer to a question asked at askedAt opens.
func (r rules) trust(askedAt time.Time) time.Time { return askedAt.Add(r.lease - r.margin) }

// pause is the time between two tries: the campaign interval give or take a fifth.
func (r rules) pause(roll float64) time.Duration {
	return time.Duration(float64(r.campaign) * (0.8 + 0.4*roll))
}

// step is the transition table.
func (r rules) step(s state, e event, now time.Time) (state, []action) {
	switch e.kind {
	case tried, bumped, beaten, failed, closed:
		s.inFlight = false
	case jobsEnded:
		s.jobs = false
	case resignAsked:
		s.quietUntil = latest(s.quietUntil, now.Add(r.sitOut))
	case stopAsked:
		s.stop = true
	}
	switch s.phase {
	case following:
		return r.follow(s, e, now)
	case asking:
		return r.ask(s, e, now)
	case winning:
		return r.win(s, e, now)
	case leading:
		return r.lead(s, e, now)
	case yielding:
		return r.yield(s, e, now)
	}
	return s, nil
}

func (r rules) follow(s state, e event, now time.Time) (state, []action) {
	switch e.kind {
	case ticked:
		if now.Before(s.nextTry) {
			return s, nil
		}
		s.phase, s.inFlight = asking, true
		return s, []action{actTry}
	case hinted:
		s.nextTry = latest(s.quietUntil, earliest(s.nextTry, now.Add(time.Duration(e.roll*float64(r.hintJitter)))))
	case resignAsked:
		s.nextTry = latest(s.nextTry, s.quietUntil)
	case stopAsked:
		return r.leave(s, Stopped, false, now)
	}
	return s, nil
}

func (r rules) ask(s state, e event, now time.Time) (state, []action) {
	switch e.kind {
	case tried:
		switch {
		case e.won && (s.stop || s.resign):
			return r.leave(s, s.asked(), true, now)
		case e.won:
			s.phase, s.inFlight = winning, true
			return s, []action{actBump}
		case s.stop:
			return r.leave(s, Stopped, false, now)
		}
		next := now.Add(r.pause(e.roll))
		if s.hint {
			next = now.Add(time.Duration(e.roll * float64(r.hintJitter)))
		}
		s.phase, s.resign, s.hint = following, false, false
		s.nextTry = latest(next, s.quietUntil)
	case failed:
		return r.giveUp(s, e, now)
	case hinted:
		s.hint = true
	case resignAsked:
		s.resign = true
	case stopAsked:
		return r.interrupt(s)
	}
	return s, nil
}

func (r rules) win(s state, e event, now time.Time) (state, []action) {
	switch e.kind {
	case bumped:
		s.trustEnd = r.trust(e.askedAt)
		switch {
		case s.stop || s.resign:
			return r.leave(s, s.asked(), true, now)
		case !now.Before(s.trustEnd):
			s.nextTry = now.Add(r.pause(e.roll))
			return r.leave(s, Expired, true, now)
		}
		s.phase, s.term, s.jobs = leading, e.term, true
		s.beatDue = e.askedAt.Add(r.lease / 3)
		return s, []action{actLead}
	case failed:
		return r.giveUp(s, e, now)
	case resignAsked:
		s.resign = true
		return r.interrupt(s)
	case stopAsked:
		return r.interrupt(s)
	}
	return s, nil
}

func (r rules) lead(s state, e event, now time.Time) (state, []action) {
	switch e.kind {
	case ticked:
		switch {
		case !now.Before(s.trustEnd):
			return r.leave(s, Expired, false, now, actDemote)
		case !s.inFlight && !now.Before(s.beatDue):
			s.inFlight = true
			return s, []action{actBeat}
		}
	case beaten:
		// An answer to an old question opens no new trust: the timer decides, and it may be overdue.
		if trust := r.trust(e.askedAt); now.Before(trust) && now.Before(s.trustEnd) {
			s.trustEnd = trust
			s.beatDue = e.askedAt.Add(r.lease / 3)
			return s, nil
		}
		return r.leave(s, Expired, false, now, actDemote)
	case failed:
		return r.leave(s, e.reason, false, now, actDemote)
	case jobsEnded:
		s.quietUntil = latest(s.quietUntil, now.Add(r.sitOut))
		return r.leave(s, JobsEnded, true, now, actDemote)
	case resignAsked:
		return r.leave(s, Resigned, true, now, actDemote)
	case stopAsked:
		return r.leave(s, Stopped, true, now, actDemote)
	}
	return s, nil
}

func (r rules) yield(s state, e event, now time.Time) (state, []action) {
	if e.kind == closed {
		s.closed = true
	}
	return r.proceed(s, now)
}

// giveUp follows a try or a bump that got no answer.
func (r rules) giveUp(s state, e event, now time.Time) (state, []action) {
	s.nextTry = now.Add(r.pause(e.roll))
	if e.unfit {
		s.nextTry = now.Add(r.unfit)
	}
	return r.leave(s, e.reason, false, now)
}

// interrupt cancels the question in flight, once.
func (r rules) interrupt(s state) (state, []action) {
	if s.interrupted || !s.inFlight {
		return s, nil
	}
	s.interrupted = true
	return s, []action{actInterrupt}
}

// leave begins to yield.
func (r rules) leave(s state, why Reason, graceful bool, now time.Time, first ...action) (state, []action) {
	if s.phase == leading {
		s.nextTry = now.Add(r.campaign)
	}
	s.phase, s.reason, s.graceful, s.closed = yielding, why, graceful, false
	s.waitEnd = now.Add(r.jobWait)
	s, more := r.proceed(s, now)
	return s, append(first, more...)
}

// proceed takes yielding as far as it can go now. A graceful one waits for the jobs and for the answer in flight, up to
// waitEnd, and then releases. Any other closes at once. The next campaign waits for the jobs in either case.
func (r rules) proceed(s state, now time.Time) (state, []action) {
	waiting := s.graceful && now.Before(s.waitEnd)
	switch {
	case !s.closed && s.inFlight:
		if waiting || s.interrupted {
			return s, nil
		}
		s.interrupted = true
		return s, []action{actInterrupt}
	case !s.closed && s.jobs && waiting:
		return s, nil
	case !s.closed:
		// What is in flight from here on is the close itself, and that is not to be interrupted.
		s.inFlight, s.interrupted = true, true
		if s.graceful {
			return s, []action{actRelease}
		}
		return s, []action{actDrop}
	case s.jobs:
		return s, nil
	case s.stop:
		s.phase = stopped
		return s, nil
	}
	return state{phase: following, nextTry: latest(s.nextTry, s.quietUntil), quietUntil: s.quietUntil}, nil
}

// asked is the reason of a resignation that came before there was a reign.
func (s state) asked() Reason {
	if s.stop {
		return Stopped
	}
	return Resigned
}

// free says that this elector holds no lock, and is not about to.
func (s state) free() bool {
	return s.phase == following || s.phase == stopped || s.phase == yielding && s.closed
}

// wakeAt is when the core wants its next tick; the zero time means that only an event can move it.
func (s state) wakeAt() time.Time {
	switch s.phase {
	case following:
		return s.nextTry
	case leading:
		if s.inFlight {
			return s.trustEnd
		}
		return earliest(s.trustEnd, s.beatDue)
	case yielding:
		if s.graceful && !s.closed && !s.interrupted {
			return s.waitEnd
		}
	}
	return time.Time{}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
