package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"waggle/pg"
)

const (
	// leaseRecheck is how often an entry that somebody has leased is tried again while pops wait for it: at each look,
	// but not at those that hints bring in between.
	leaseRecheck = recheckEvery / 2
	// An entry whose cursor a neighbour holds is tried again at once, then with pauses; a pop that wants to end waits
	// for so many tries.
	quickLocked  = 2
	maxLocked    = 8
	lockedPause  = 5 * time.Millisecond
	failurePause = 200 * time.Millisecond
)

// claimAnswered hands the call what it got, or lets it wait on.
func (w *watch) claimAnswered(j *claimJob, answers []pg.Claiming) {
	w.mu.Lock()
	got, stale := false, false
	var seed []*readyEntry
	claimed, backlog := 0, int64(0)
	for i := range answers {
		a, e := &answers[i], j.entries[i]
		if a.Cursor > 0 {
			e.cursor = a.Cursor
		}
		if a.Newest >= 0 {
			e.newest = max(e.newest, a.Newest)
		}
		got = w.entryAnswered(j, e, a) || got
		switch a.Outcome {
		case pg.Claimed:
			claimed, backlog = claimed+1, backlog+a.Newest-a.First+1
		case pg.NoCursor:
			seed = append(seed, e)
		case pg.ClaimStale:
			stale = true
		}
	}
	if claimed > 0 {
		j.set.pace.saw(backlog, claimed)
	}
	c := j.call
	c.claiming = false
	given := got && !c.finished
	switch {
	case given:
		w.finish(c, popOutcome{job: j, claims: answers})
	case !got && c.leaving:
		w.finish(c, popOutcome{})
	case !got:
		c.settle()
	}
	jobs := w.dispatch(j.set)
	for _, at := range c.places { // a discovery may be served by another queue
		if at.set != j.set && !c.claiming {
			jobs = append(jobs, w.dispatch(at.set)...)
		}
	}
	stale = stale && !j.set.refreshing && !j.set.gone
	j.set.refreshing = j.set.refreshing || stale
	w.mu.Unlock()
	w.send(jobs)
	if got && !given {
		w.b.giveBackClaims(j, answers)
	}
	if len(seed) > 0 {
		w.b.spawn(func() { w.seed(j, seed) })
	}
	if stale {
		w.b.spawn(func() { w.refresh(j.set) })
	}
}

// entryAnswered moves one entry on; true when it was claimed.
func (w *watch) entryAnswered(j *claimJob, e *readyEntry, a *pg.Claiming) bool {
	if a.Outcome != pg.Locked {
		e.locked = 0
	}
	switch a.Outcome {
	case pg.Claimed:
		e.next = a.Last + 1
		if !j.leased {
			e.settle()
			return true
		}
		e.until = time.Now().Add(time.Duration(j.claims[0].LeaseSeconds) * time.Second)
		e.become(leased)
		e.hold(j)
		return true
	case pg.Empty:
		e.next = max(e.next, a.Newest+1)
		e.settle()
	case pg.Leased:
		e.until = time.Now().Add(a.Remaining)
		if e.dirty {
			e.become(suspect) // the lease may have ended since
		} else {
			e.become(leased)
		}
	case pg.NotVisible:
		w.retryIn(e, delayed, max(a.Remaining, time.Millisecond))
	case pg.Locked:
		if e.locked++; e.locked <= quickLocked {
			e.become(ready)
		} else {
			w.retryIn(e, blocked, lockedPause)
		}
	case pg.NoCursor, pg.ClaimStale:
		e.become(blocked) // until seed or refresh is done
	case pg.Beyond:
		e.become(ready)
	}
	return false
}

// retryIn makes the entry ready after a while; called with mu held.
func (w *watch) retryIn(e *readyEntry, state entryState, wait time.Duration) {
	e.become(state)
	s := e.set
	if s.gone {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		w.mu.Lock()
		if e.timer == timer {
			e.become(ready)
		}
		jobs := w.dispatch(s)
		w.mu.Unlock()
		w.send(jobs)
	})
	e.timer = timer
}

// claimFailed lets a claim that nobody decided be tried again; a call that does not wait is told.
func (w *watch) claimFailed(j *claimJob, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause, contended := failurePause, pg.Classify(err) == pg.Contended
	if contended {
		pause = lockedPause
	}
	for _, e := range j.entries {
		e.dirty = true
		w.retryIn(e, blocked, pause)
	}
	c := j.call
	c.claiming = false
	switch {
	case errors.Is(err, errClosed), (!c.req.Wait || c.concluding) && !contended:
		w.finish(c, popOutcome{err: fmt.Errorf("pop failed: %w", err)})
	case c.leaving:
		w.finish(c, popOutcome{})
	}
	c.settle()
}

// seed gives the group cursors in partitions that are newer than its registration, or that it pins.
func (w *watch) seed(j *claimJob, entries []*readyEntry) {
	ctx, cancel := context.WithTimeout(w.b.ctx, dbTimeout)
	defer cancel()
	ids := make([]int64, len(entries))
	for i, e := range entries {
		ids[i] = e.partition.id
	}
	err := w.b.db.SeedCursors(ctx, j.set.key.group, ids, j.call.start)
	if err != nil && !errors.Is(err, pg.ErrNoGroup) && w.b.ctx.Err() == nil {
		w.b.log.Warn("cursors not made, will try again", zap.String("code", "WG0419"), zap.Error(err))
	}
	w.mu.Lock()
	if errors.Is(err, pg.ErrNoGroup) {
		w.remove(j.set, errGone)
	}
	w.unblock(entries, err)
	jobs := w.dispatch(j.set)
	w.mu.Unlock()
	w.send(jobs)
}

// unblock lets entries be tried again that waited for the outcome err; called with mu held.
func (w *watch) unblock(entries []*readyEntry, err error) {
	for _, e := range entries {
		switch {
		case e.set.gone || e.state != blocked || e.timer != nil:
		case err != nil:
			w.retryIn(e, blocked, failurePause)
		default:
			e.become(ready)
		}
	}
}

// refresh reads the set's queue again after a claim found that it had changed.
func (w *watch) refresh(s *readySet) {
	ctx, cancel := context.WithTimeout(w.b.ctx, dbTimeout)
	defer cancel()
	q, err := w.b.catalog.reload(ctx, s.key.queue)
	w.mu.Lock()
	s.refreshing = false
	if err == nil && q == nil {
		w.remove(s, errGone)
	}
	if q != nil {
		s.queue = q
	}
	waiting := make([]*readyEntry, 0, len(s.blocked))
	for e := range s.blocked {
		waiting = append(waiting, e)
	}
	w.unblock(waiting, err)
	jobs := w.dispatch(s)
	w.mu.Unlock()
	w.send(jobs)
}
