package broker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"waggle/pg"
)

// buildTimeout bounds the reading of a whole queue's partitions.
const buildTimeout = time.Minute

// build fills a new set from the database, in pages, outside the lanes. Marks that come meanwhile count as well.
func (w *watch) build(s *readySet) {
	ctx, cancel := context.WithTimeout(w.b.ctx, buildTimeout)
	defer cancel()
	started := time.Now()
	if err := w.begin(ctx); err != nil {
		w.buildFailed(s, err)
		return
	}
	for after, done := "", false; !done; {
		page, err := w.b.db.ReadyPage(ctx, s.key.queue, s.key.group, after, pg.ReadyPageSize)
		if err != nil {
			w.buildFailed(s, err)
			return
		}
		if len(page) > 0 {
			after = page[len(page)-1].Name
		}
		var again bool
		if done, again = w.built(s, page); again {
			after = ""
		}
	}
	w.b.metrics.buildSeconds.Observe(time.Since(started).Seconds())
}

// built takes a page in. It reports whether the set is complete, or must be read again from the beginning because
// cursors were moved meanwhile.
func (w *watch) built(s *readySet, page []pg.Readiness) (done, again bool) {
	w.mu.Lock()
	for _, r := range page {
		if s.gone || !r.Behind && r.LeaseRemaining <= 0 {
			continue
		}
		e := s.entry(w.b.catalog.storePartition(pg.Partition{ID: r.Partition, Queue: s.key.queue, Name: r.Name}))
		switch {
		case e.state != idle:
		case r.LeaseRemaining > 0:
			e.until = time.Now().Add(r.LeaseRemaining)
			e.become(leased)
		default:
			e.mark(-1)
		}
	}
	done = s.gone || len(page) < pg.ReadyPageSize
	if again = done && s.outdated && !s.gone; again {
		done, s.outdated = false, false
	}
	if done {
		s.closeBuilt()
		if s.doubtful {
			s.doubtLeases()
		}
	}
	jobs := w.dispatch(s)
	w.mu.Unlock()
	w.send(jobs)
	return done, again
}

func (w *watch) buildFailed(s *readySet, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.b.ctx.Err() == nil {
		w.b.log.Warn("ready set not built", zap.String("code", "WG0418"), zap.String("queue", s.queue.name), zap.Error(err))
	} else {
		err = errClosed
	}
	w.remove(s, unavailable(err))
	s.closeBuilt()
}

// begin fixes, before the first set is read, from where on looks must find what is written.
func (w *watch) begin(ctx context.Context) error {
	w.mu.Lock()
	begun := !w.since.IsZero()
	w.mu.Unlock()
	if begun {
		return nil
	}
	at, err := w.b.db.SafePoint(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() && len(w.sets) > 0 {
		w.since = at
	}
	return nil
}

// rebuild makes the set doubt all it knows, because cursors were moved or because it missed too much. It reports
// whether the set must be read again by build. Called with mu held.
func (w *watch) rebuild(s *readySet) (read bool) {
	for _, e := range s.entries {
		e.doubt()
	}
	switch {
	case s.gone || !s.group.Registered:
		return false
	case !s.isBuilt():
		s.outdated = true
		return false
	}
	s.built = make(chan struct{})
	return true
}
