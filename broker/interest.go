package broker

import (
	"time"

	"github.com/google/uuid"
)

// youngSet is the age up to which a ready set may have been unknown to other brokers when they released leases.
const youngSet = 5 * time.Second

// EachInterest calls yield with every queue whose wakes do something here: there is a ready set, or a pop waits for the
// queue to appear. Reads without a cursor say their interest again with each look that they take.
func (b *Broker) EachInterest(yield func(tenant uuid.UUID, queue string)) {
	w := b.watch
	w.mu.Lock()
	keys := make([]queueKey, 0, len(w.byQueue))
	for _, sets := range w.byQueue {
		keys = append(keys, sets[0].queue.queueKey)
	}
	for key := range w.missing.keys() {
		keys = append(keys, key)
	}
	w.mu.Unlock()
	for _, key := range keys {
		yield(key.tenant, key.name)
	}
}

// interested says that wakes of the queue do something here from now on.
func (b *Broker) interested(key queueKey) {
	if b.config.Interested != nil {
		b.config.Interested(key.tenant, key.name)
	}
}

// InterestAnnounced makes up for what other brokers did not tell because they did not know yet that this one is
// interested: a look finds what was pushed, and the leases in young sets are tried, which may have ended. Whoever is
// about to wait at a young set needs the look as well.
func (b *Broker) InterestAnnounced() {
	w := b.watch
	var jobs []*claimJob
	w.mu.Lock()
	needed := w.waiting > 0 || !w.missing.isEmpty()
	for _, s := range w.sets {
		if time.Since(s.made) > youngSet {
			continue
		}
		needed = true
		s.doubtLeases()
		jobs = append(jobs, w.dispatch(s)...)
	}
	if needed {
		w.look()
	}
	w.mu.Unlock()
	w.send(jobs)
}

// doubtLeases lets the set try what it believes to be leased, or is about to believe: what a flush or a reading that
// has begun will say of leases may be older than their release.
func (s *readySet) doubtLeases() {
	s.doubtful = !s.isBuilt()
	for _, held := range []map[*readyEntry]struct{}{s.leased, s.claiming} {
		for e := range held {
			e.mark(-1)
		}
	}
}
