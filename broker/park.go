package broker

import (
	"container/list"
	"context"
	"errors"
	"time"

	"waggle/pg"
)

// popCall is one pop in the data plane: parked until a claim gives it something, its time is over, or its client is
// gone. Guarded by watch.mu but for done and settled.
type popCall struct {
	req        PopRequest
	pinnedName string
	start      pg.Start // of a pinned group that is not registered
	discovered int64    // the youngest queue that a discovery has seen
	seq        uint64
	arrived    time.Time
	places     []parkedAt
	parked     bool
	claiming   bool
	finished   bool      // done has been sent to, or will never be
	held       time.Time // when minPopWaitTime began
	filled     bool      // how long that was is counted
	holdOver   bool
	concluding bool     // its time is over; it only waits for a look and what that brings
	leaving    bool     // the broker drains: it goes when nothing is on its way to it
	piloted    *Piloted // the autopilot's choice for the claim that is made
	done       chan popOutcome
	settled    chan struct{} // a claim for the call has been answered without giving it anything
}

type parkedAt struct {
	set     *readySet
	list    *list.List
	element *list.Element
}

// popOutcome ends a call: something claimed, a failure, or neither.
type popOutcome struct {
	job    *claimJob
	claims []pg.Claiming
	err    error
}

var (
	// errGone ends calls whose queue or group was deleted, or that must look around anew: they begin again.
	errGone = errors.New("queue or group gone")
	// errLate ends calls that the database kept waiting beyond what their clients would.
	errLate = errors.New("no answer from the database in time")
)

const (
	// drainingWait is how long a new pop may park on a broker that is about to leave.
	drainingWait = time.Second
	// latePatience is how long after its deadline a parked pop may still wait for a slow database.
	latePatience = 4 * time.Second
	// othersPause is how long a call waits between two glances at flushes that it has no part in.
	othersPause = 2 * time.Millisecond
)

func newPopCall(req PopRequest, arrived time.Time) *popCall {
	return &popCall{req: req, arrived: arrived, done: make(chan popOutcome, 1), settled: make(chan struct{}, 1)}
}

// settle tells the call, if it listens, that its claim brought nothing.
func (c *popCall) settle() {
	select {
	case c.settled <- struct{}{}:
	default:
	}
}

// park lets the call wait in the sets, in the order of arrival; called with mu held.
func (w *watch) park(c *popCall, sets []*readySet) {
	c.parked = true
	w.waiting++
	if c.req.Discovery {
		w.discoveries[c] = struct{}{}
		w.newest = max(w.newest, c.discovered)
	}
	for _, s := range sets {
		l := s.parked
		if c.req.Pinned {
			if l = s.pinned[c.pinnedName]; l == nil {
				l = list.New()
				s.pinned[c.pinnedName] = l
			}
		}
		after := l.Back()
		for after != nil && after.Value.(*popCall).seq > c.seq {
			after = after.Prev()
		}
		var element *list.Element
		if after == nil {
			element = l.PushFront(c)
		} else {
			element = l.InsertAfter(c, after)
		}
		c.places = append(c.places, parkedAt{set: s, list: l, element: element})
	}
}

func (w *watch) unpark(c *popCall) {
	if !c.parked {
		return
	}
	c.parked = false
	w.waiting--
	delete(w.discoveries, c)
	for _, at := range c.places {
		at.list.Remove(at.element)
		if c.req.Pinned && at.list.Len() == 0 && at.set.pinned[c.pinnedName] == at.list {
			delete(at.set.pinned, c.pinnedName)
		}
	}
	c.places = nil
}

// finish ends a call; called with mu held.
func (w *watch) finish(c *popCall, outcome popOutcome) {
	if c.finished {
		return
	}
	if errors.Is(outcome.err, errClosed) && c.req.Wait {
		outcome.err = nil // its client asks again, elsewhere
	}
	c.finished = true
	w.unpark(c)
	c.done <- outcome
}

// serve lets the call wait in the sets until something is claimed for it or its time is over.
func (w *watch) serve(ctx context.Context, c *popCall, sets []*readySet, deadline time.Time) (popOutcome, error) {
	var jobs []*claimJob
	w.mu.Lock()
	w.seq++
	c.seq = w.seq
	for _, s := range sets {
		if s.gone {
			w.mu.Unlock()
			return popOutcome{}, errGone
		}
		s.used = time.Now()
	}
	if w.paused.Load() {
		w.mu.Unlock()
		return popOutcome{}, nil
	}
	if w.draining {
		deadline = w.shorten(deadline)
	}
	w.park(c, sets)
	for _, s := range sets {
		jobs = append(jobs, w.dispatch(s)...)
	}
	w.mu.Unlock()
	w.send(jobs)
	patience := c.arrived.Add(dbTimeout)
	if c.req.Wait {
		w.wake() // the first re-check comes soon
		if outcome, over, err := w.waitUntil(ctx, c, deadline); over {
			return outcome, err
		}
		patience = time.Now().Add(latePatience)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, patience, errLate)
	defer cancel()
	outcome, err := w.conclude(ctx, c, sets)
	if err != nil && errors.Is(context.Cause(ctx), errLate) {
		err = Unavailable(errLate)
	}
	return outcome, err
}

// waitUntil returns over when the call has ended before the deadline.
func (w *watch) waitUntil(ctx context.Context, c *popCall, deadline time.Time) (outcome popOutcome, over bool, err error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case outcome = <-c.done:
		return outcome, true, outcome.err
	case <-ctx.Done():
		return w.abandon(c), true, ctx.Err()
	case <-timer.C:
		return outcome, false, nil
	}
}

// abandon ends a call that nobody waits for any more. What a claim in flight brings is given back when it comes.
func (w *watch) abandon(c *popCall) popOutcome {
	w.mu.Lock()
	already := c.finished
	c.finished = true
	w.unpark(c)
	w.mu.Unlock()
	if already {
		if outcome := <-c.done; outcome.job != nil {
			w.b.giveBackClaims(outcome.job, outcome.claims)
		}
	}
	return popOutcome{}
}

// conclude ends a call whose time is over, or that had none: only after a look at the database that began after the
// call came, and after the claims which that look led to.
func (w *watch) conclude(ctx context.Context, c *popCall, sets []*readySet) (popOutcome, error) {
	for _, s := range sets {
		w.mu.Lock()
		built := s.built
		w.mu.Unlock()
		select {
		case <-built:
		case outcome := <-c.done:
			return outcome, outcome.err
		case <-ctx.Done():
			return w.abandon(c), ctx.Err()
		}
	}
	for {
		next, over := w.lastTry(c, sets)
		if over {
			select {
			case outcome := <-c.done: // sent before the call was ended
				return outcome, outcome.err
			default:
				return popOutcome{}, nil
			}
		}
		select {
		case outcome := <-c.done:
			return outcome, outcome.err
		case <-ctx.Done():
			return w.abandon(c), ctx.Err()
		case <-next:
		}
	}
}

// lastTry gives the call everything that could still have something for it. It reports over once the call has ended
// empty, else a channel that says when to try again.
func (w *watch) lastTry(c *popCall, sets []*readySet) (next <-chan struct{}, over bool) {
	var jobs []*claimJob
	w.mu.Lock()
	defer func() {
		w.mu.Unlock()
		w.send(jobs)
	}()
	c.concluding = true
	switch {
	case c.finished:
		return nil, true
	case c.claiming:
		return c.settled, false
	case !w.looked.After(c.arrived):
		return w.look(), false
	}
	for _, s := range sets {
		if !s.gone && !s.isBuilt() {
			return s.built, false // the look found that cursors were moved: what is known is being read again
		}
	}
	c.holdOver = true
	for _, s := range sets {
		if c.claiming || s.gone {
			continue
		}
		s.reviveFor(c)
		jobs = append(jobs, w.dispatch(s)...)
	}
	switch {
	case c.claiming:
		return c.settled, false
	case w.undecided(c, sets):
		again := make(chan struct{})
		time.AfterFunc(othersPause, func() { close(again) })
		return again, false
	}
	c.finished = true
	w.unpark(c)
	return nil, true
}

// reviveFor lets entries be tried that were not since the call came: leases may have been released by acks, and delays
// shortened by configurations, on other brokers that no hint told of.
func (s *readySet) reviveFor(c *popCall) {
	tries := 0
	for _, waiting := range []map[*readyEntry]struct{}{s.leased, s.delayed} {
		for e := range waiting {
			if e.tried.Before(c.arrived) && c.takes(e) {
				e.become(suspect)
				if tries++; tries == maxCandidates {
					return
				}
			}
		}
	}
}

// takes tells whether the call could be given the entry.
func (c *popCall) takes(e *readyEntry) bool { return !c.req.Pinned || c.pinnedName == e.partition.name }

// undecided tells that something is on its way that the call may yet get: entries that cannot be claimed for a moment,
// or a claim for another call that was sent before this one came and may not see what this one must.
func (w *watch) undecided(c *popCall, sets []*readySet) bool {
	for _, s := range sets {
		if w.full() && s.ready.Len()+s.suspects.Len() > 0 {
			return true
		}
		for e := range s.blocked {
			if c.takes(e) && e.locked < maxLocked {
				return true
			}
		}
		for e := range s.claiming {
			if c.takes(e) && e.tried.Before(c.arrived) {
				return true
			}
		}
	}
	return false
}

// drain lets the parked pops go, spread over the given time so that their clients do not all come back at once.
func (w *watch) drain(spread time.Duration) {
	w.mu.Lock()
	if !w.draining {
		close(w.drained)
	}
	w.draining = true
	calls := w.parkedCalls()
	w.mu.Unlock()
	i := 0
	for c := range calls {
		if !c.req.Wait {
			continue // it is on its way out
		}
		time.AfterFunc(spread*time.Duration(i)/time.Duration(len(calls)), func() { w.letGo(c) })
		i++
	}
}

// parkedCalls are the calls that wait; called with mu held.
func (w *watch) parkedCalls() map[*popCall]struct{} {
	calls := map[*popCall]struct{}{}
	for _, s := range w.sets {
		for _, l := range append(values(s.pinned), s.parked) {
			for el := l.Front(); el != nil; el = el.Next() {
				calls[el.Value.(*popCall)] = struct{}{}
			}
		}
	}
	for c := range w.discoveries {
		calls[c] = struct{}{}
	}
	return calls
}

// shorten is the deadline of a pop that comes while the broker drains.
func (w *watch) shorten(deadline time.Time) time.Time {
	if soon := time.Now().Add(drainingWait); soon.Before(deadline) {
		return soon
	}
	return deadline
}

func (w *watch) letGo(c *popCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.leaving = true
	if !c.claiming {
		w.finish(c, popOutcome{})
	}
}
