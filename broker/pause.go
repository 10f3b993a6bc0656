package broker

import (
	"context"
	"time"
)

// PausePops lets no pop have anything, or ends that. Parked pops stay with their clients: an answer at once would only
// make these ask again at once.
func (b *Broker) PausePops(on bool) {
	w := b.watch
	w.mu.Lock()
	if w.paused.Swap(on) == on {
		w.mu.Unlock()
		return
	}
	close(w.pauseMoved)
	w.pauseMoved = make(chan struct{})
	calls := map[*popCall]struct{}{}
	if on {
		calls = w.parkedCalls()
	}
	w.mu.Unlock()
	for c := range calls {
		if c.req.Wait {
			w.letGo(c)
		}
	}
}

// PopsPaused tells whether pops are kept empty.
func (b *Broker) PopsPaused() bool { return b.watch.paused.Load() }

// sitOut waits while pops are paused and the call has time. It returns false when the call is over.
func (w *watch) sitOut(ctx context.Context, wait bool, deadline time.Time) bool {
	for w.paused.Load() {
		w.mu.Lock()
		paused, moved, drained := w.paused.Load(), w.pauseMoved, w.drained
		if w.draining {
			deadline, drained = w.shorten(deadline), nil
		}
		left := time.Until(deadline)
		wait = wait && paused && left > 0
		if wait {
			w.waiting++
		}
		w.mu.Unlock()
		if !wait {
			return !paused
		}
		over := outlast(ctx, left, moved, drained)
		w.mu.Lock()
		w.waiting--
		w.mu.Unlock()
		if over {
			return false
		}
	}
	return true
}

// outlast waits for the pause to change; over when the call ends before.
func outlast(ctx context.Context, left time.Duration, moved, drained <-chan struct{}) (over bool) {
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-moved:
		return false
	case <-timer.C:
	case <-ctx.Done():
	case <-drained:
	}
	return true
}
