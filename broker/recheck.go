package broker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"waggle/pg"
)

// look is a look at the database that begins after whoever holds it asked.
type look struct{ done chan struct{} }

const (
	// recheckEvery is the rhythm while pops are parked; the first one after silence brings a look at once.
	recheckEvery = 800 * time.Millisecond
	// quietRecheck keeps ready sets that nobody waits at from falling far behind.
	quietRecheck = 5 * time.Second
	// soonEvery bounds how often hints may bring looks.
	soonEvery = 100 * time.Millisecond
	// failedPause and failedUrgently are the rhythm while looks fail; the latter when somebody cannot be answered
	// without one.
	failedPause    = time.Second
	failedUrgently = 100 * time.Millisecond
	// lookTimeout bounds one look: whoever waits for it is told rather than kept.
	lookTimeout = 4 * time.Second
	// minimalPause lets a look that is due at once still wait for company.
	minimalPause = time.Millisecond
	// forgetSets drops ready sets that nobody used; they are built again from nothing.
	forgetSets = time.Minute
	// recheckLimit is how many written partitions one look takes in; beyond it sets are built anew.
	recheckLimit = 20000
	// safePointEvery bounds how far back a look must reach, and how often the server is asked how far it may.
	safePointEvery = 3 * time.Second
)

// look returns a channel that closes after a look at the database which began after the call; called with mu held.
func (w *watch) look() <-chan struct{} {
	if w.pending == nil {
		w.pending = &look{done: make(chan struct{})}
	}
	w.wake()
	return w.pending.done
}

// lookSoon asks for a look without waiting for it; called with mu held. Without anybody parked none is needed: every
// pop brings its own.
func (w *watch) lookSoon() {
	if w.waiting > 0 || !w.missing.isEmpty() {
		w.soon = true
		w.wake()
	}
}

// run makes the looks: at once when a pop cannot be answered without one, in a steady rhythm while pops are parked.
// One statement serves everything that is due, however many pops and queues that is.
func (w *watch) run() {
	timer := time.NewTimer(quietRecheck)
	defer timer.Stop()
	var safeRead time.Time
	for {
		select {
		case <-w.b.ctx.Done():
			w.endLooks()
			return
		case <-w.signal:
		case <-timer.C:
		}
		wait := w.untilDue()
		if wait <= 0 {
			w.recheck(&safeRead)
			wait = w.untilDue()
		}
		timer.Reset(max(wait, minimalPause))
	}
}

// untilDue is how long the next look may wait.
func (w *watch) untilDue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	rhythm := quietRecheck
	switch {
	case w.failing && w.pending != nil:
		rhythm = failedUrgently
	case w.failing:
		rhythm = failedPause
	case w.pending != nil:
		return 0
	case w.soon:
		rhythm = soonEvery
	case w.waiting > 0 || !w.missing.isEmpty():
		rhythm = recheckEvery
	}
	return rhythm - time.Since(w.began)
}

// recheck is one look.
func (w *watch) recheck(safeRead *time.Time) {
	w.mu.Lock()
	began := time.Now()
	waiting := w.pending
	w.pending, w.soon, w.began = nil, false, began
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.b.ctx, lookTimeout)
	defer cancel()
	err := w.lookAt(ctx, safeRead)
	if err == nil {
		err = w.findMissing(ctx)
	}
	if err == nil {
		err = w.discoverAgain(ctx)
	}
	w.looksEnded(began, err)
	if waiting != nil {
		close(waiting.done)
	}
	w.b.metrics.rechecks.Inc()
}

func (w *watch) looksEnded(began time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := w.failing
	w.failing = err != nil
	switch {
	case err == nil:
		w.looked = began
		if failed {
			w.b.log.Info("looks at the database succeed again")
		}
	case w.b.ctx.Err() == nil:
		if !failed {
			w.b.log.Warn("look at the database failed; parked pops keep waiting", zap.String("code", "WG0415"), zap.Error(err))
		}
		// Whoever needs this look fails with it instead of waiting for ever.
		w.failLookers(err, began)
	}
}

// lookAt finds what was written since the last look, groups whose cursors were moved, and what was deleted.
func (w *watch) lookAt(ctx context.Context, safeRead *time.Time) error {
	if len(w.setList()) == 0 {
		return nil
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	// The safe point is read before, and outside the snapshot of, the scan; and before the sets are listed: a set that
	// is made after it is read by build after it, and one that was made before is in the list.
	var next time.Time
	if time.Since(*safeRead) >= safePointEvery {
		at, err := w.b.db.SafePoint(ctx)
		if err != nil {
			return err
		}
		next, *safeRead = at, time.Now()
	}
	w.mu.Lock()
	since := w.since
	queues, groups := make([]int64, 0, len(w.byQueue)), make([]int64, 0, len(w.sets))
	for id := range w.byQueue {
		queues = append(queues, id)
	}
	for key := range w.sets {
		groups = append(groups, key.group)
	}
	w.mu.Unlock()
	if since.IsZero() {
		return nil // every set has gone meanwhile
	}
	written, generations, err := w.b.db.Recheck(ctx, queues, groups, since, recheckLimit)
	if err != nil {
		return err
	}
	ids := make([]int64, len(written))
	for i, p := range written {
		ids[i] = p.Partition
	}
	partitions, err := w.b.catalog.partitionsByID(ctx, ids)
	if err != nil {
		return err
	}
	asked := make(map[int64]bool, len(groups))
	for _, id := range groups {
		asked[id] = true
	}
	w.mu.Lock()
	if !next.IsZero() && w.since.Equal(since) {
		w.since = next
	}
	for _, p := range written {
		if at := partitions[p.Partition]; at != nil {
			for _, s := range w.byQueue[p.Queue] {
				s.entry(at).mark(p.Newest)
			}
		}
	}
	jobs, rebuild := w.seen(generations, asked, len(written) >= recheckLimit)
	w.mu.Unlock()
	w.send(jobs)
	for _, s := range rebuild {
		w.b.spawn(func() { w.build(s) })
	}
	return nil
}

// seen applies what a look found of the groups it asked for; called with mu held.
func (w *watch) seen(generations map[int64]int64, asked map[int64]bool, overrun bool) (jobs []*claimJob, rebuild []*readySet) {
	now := time.Now()
	for _, s := range values(w.sets) {
		generation, there := generations[s.key.group]
		waiters := s.waiters()
		switch {
		case !asked[s.key.group]:
			continue // made meanwhile
		case !there:
			w.remove(s, errGone)
			continue
		case generation != s.group.Generation || overrun:
			s.group.Generation = generation
			if w.rebuild(s) {
				rebuild = append(rebuild, s)
			}
		case waiters == 0 && now.Sub(s.used) > forgetSets:
			w.remove(s, errGone)
			continue
		}
		if waiters > 0 {
			s.used = now
			s.reviveLeased(now)
			jobs = append(jobs, w.dispatch(s)...)
		}
	}
	return jobs, rebuild
}

func (w *watch) setList() []*readySet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return values(w.sets)
}

// failLookers ends the calls that a failed look leaves without an answer; called with mu held.
func (w *watch) failLookers(err error, began time.Time) {
	fail := func(c *popCall) {
		if c.concluding && !c.claiming && c.arrived.Before(began) {
			w.finish(c, popOutcome{err: Unavailable(err)})
		}
	}
	for _, s := range w.sets {
		for _, l := range append(values(s.pinned), s.parked) {
			for el := l.Front(); el != nil; {
				next := el.Next()
				fail(el.Value.(*popCall))
				el = next
			}
		}
	}
	for c := range w.discoveries {
		fail(c)
	}
}

func (w *watch) endLooks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range values(w.sets) {
		w.remove(s, errClosed)
	}
	for c := range w.discoveries {
		w.finish(c, popOutcome{err: errClosed})
	}
	if w.pending != nil {
		close(w.pending.done)
		w.pending = nil
	}
}

// awaitQueue waits until the queue may exist; false when the time was over first.
func (w *watch) awaitQueue(ctx context.Context, key queueKey, deadline time.Time) bool {
	arrived := make(chan struct{})
	w.b.interested(key)
	w.mu.Lock()
	w.missing.set(key, append(w.missing.at(key), arrived))
	w.waiting++
	w.mu.Unlock()
	w.wake()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	defer w.forgetMissing(key, arrived)
	select {
	case <-arrived:
		return true
	case <-ctx.Done():
	case <-w.b.ctx.Done():
	case <-w.drained:
	case <-timer.C:
	}
	return false
}

func (w *watch) forgetMissing(key queueKey, arrived chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	waiting := w.missing.at(key)
	kept := waiting[:0]
	for _, other := range waiting {
		if other != arrived {
			kept = append(kept, other)
		}
	}
	if len(kept) == 0 {
		w.missing.remove(key)
	} else {
		w.missing.set(key, kept)
	}
}

// findMissing looks for all queues that pinned pops wait for.
func (w *watch) findMissing(ctx context.Context) error {
	w.mu.Lock()
	var names []pg.QueueName
	for key := range w.missing.keys() {
		names = append(names, pg.QueueName{Tenant: key.tenant, Name: key.name})
	}
	w.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	rows, err := w.b.db.FindQueues(ctx, names)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range rows {
		w.appeared(queueKey{row.Tenant, row.Name})
	}
	return nil
}

// appeared is called with mu held.
func (w *watch) appeared(key queueKey) {
	for _, arrived := range w.missing.at(key) {
		close(arrived)
	}
	w.missing.remove(key)
}

// discoverAgain lets pops that take any queue of a namespace or task begin anew when there is a new one.
func (w *watch) discoverAgain(ctx context.Context) error {
	type spec struct{ tenant, namespace, task string }
	text := func(s *string) string {
		if s == nil {
			return "\x00" // no name
		}
		return *s
	}
	w.mu.Lock()
	var asked []pg.Discovery
	calls := map[spec][]*popCall{}
	var order []spec
	for c := range w.discoveries {
		key := spec{string(c.req.Tenant[:]), text(c.req.Namespace), text(c.req.Task)}
		if calls[key] == nil {
			asked = append(asked, pg.Discovery{Tenant: c.req.Tenant, Namespace: c.req.Namespace, Task: c.req.Task})
			order = append(order, key)
		}
		calls[key] = append(calls[key], c)
	}
	w.mu.Unlock()
	if len(asked) == 0 {
		return nil
	}
	newest, err := w.b.db.DiscoverNewest(ctx, asked)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, key := range order {
		for _, c := range calls[key] {
			if newest[i] > c.discovered && !c.claiming {
				w.finish(c, popOutcome{err: errGone})
			}
		}
	}
	return nil
}
