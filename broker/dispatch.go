package broker

import (
	"container/list"
	"math"
	"time"

	"waggle/broker/wireid"
	"waggle/pg"
)

// claimJob asks a flush to claim the entries for the call.
type claimJob struct {
	call  *popCall
	set   *readySet
	queue *queue // of the set, when the claim was made
	// newestOnly says that the group conflates; piloted is what the autopilot chose, if it did.
	newestOnly bool
	piloted    *Piloted
	held       int // entries that its lease holds, as far as this broker knows; guarded by watch.mu
	entries    []*readyEntry
	claims     []pg.Claim
	// leased says that the claims take leases: not with autoAck, but where records may turn out to be closed to us.
	leased bool
}

// maxCandidates bounds the partitions that one claim tries.
const maxCandidates = 64

// dispatch gives the set's ready entries to its parked pops, oldest first. It returns the jobs, to be sent once mu is
// released.
func (w *watch) dispatch(s *readySet) []*claimJob {
	if s.gone || w.full() || s.ready.Len()+s.suspects.Len() == 0 {
		return nil
	}
	var jobs []*claimJob
	if len(s.pinned) > 0 {
		jobs = w.dispatchPinned(s)
	}
	for el := s.parked.Front(); el != nil && s.ready.Len()+s.suspects.Len() > 0; el = el.Next() {
		if c := el.Value.(*popCall); !c.claiming && !w.onHold(s, c, 0) {
			if job := w.candidates(s, c); job != nil {
				jobs = append(jobs, job)
			}
		}
	}
	return jobs
}

// dispatchPinned serves pops of single partitions first: nobody else can serve them.
func (w *watch) dispatchPinned(s *readySet) []*claimJob {
	var jobs []*claimJob
	for name, l := range s.pinned {
		p := w.b.catalog.cachedPartition(partitionKey{s.key.queue, name})
		if p == nil {
			continue // a look or a hint that meets it brings it back
		}
		e := s.entries[p.id]
		if e == nil || e.state != ready && e.state != suspect {
			continue
		}
		for at := l.Front(); at != nil; at = at.Next() {
			if c := at.Value.(*popCall); !c.claiming {
				jobs = append(jobs, w.job(s, c, []*readyEntry{e}))
				break
			}
		}
	}
	return jobs
}

// onHold lets an under-full pop of a queue wait for more, up to the queue's minPopWaitTime. added are records that
// are just being written.
func (w *watch) onHold(s *readySet, c *popCall, added int) bool {
	wait := time.Duration(s.queue.options.MinPopWaitTime) * time.Millisecond
	if wait <= 0 || !c.req.Wait || c.req.Batch <= 1 || c.req.Discovery || c.req.Pinned || c.holdOver {
		return false
	}
	if s.ready.Len() == 0 && added == 0 || s.fills(c.req.Batch, c.wants(s), int64(added)) {
		return false
	}
	if c.held.IsZero() {
		c.held = time.Now()
		w.b.metrics.batching.fillWaits.Add(1)
		time.AfterFunc(wait, func() {
			w.mu.Lock()
			c.holdOver = true
			jobs := w.dispatch(s)
			w.mu.Unlock()
			w.send(jobs)
		})
	}
	return true
}

// wants is how many partitions of the set one claim tries for the call.
func (c *popCall) wants(s *readySet) int {
	if n := c.partitions(s); n > 0 && n < maxCandidates {
		return n
	}
	return maxCandidates
}

// candidates takes entries for the call: surely ready ones first, else many suspects at once.
func (w *watch) candidates(s *readySet, c *popCall) *claimJob {
	w.steer(s, c)
	source, want := s.ready, c.wants(s)
	if source.Len() == 0 {
		source, want = s.suspects, maxCandidates
	}
	entries := make([]*readyEntry, 0, min(want, source.Len()))
	for el := source.Front(); el != nil && len(entries) < want; el = el.Next() {
		entries = append(entries, el.Value.(*readyEntry))
	}
	if len(entries) == 0 {
		return nil
	}
	return w.job(s, c, entries)
}

// job makes a claim of the entries for the call; called with mu held.
func (w *watch) job(s *readySet, c *popCall, entries []*readyEntry) *claimJob {
	c.claiming = true
	s.used = time.Now()
	if !c.held.IsZero() && !c.filled {
		c.filled = true
		w.b.metrics.batching.fillNanos.Add(int64(s.used.Sub(c.held)))
	}
	j := &claimJob{
		call: c, set: s, queue: s.queue, newestOnly: s.group.Conflation, piloted: c.piloted, entries: entries,
		claims: make([]pg.Claim, 0, len(entries)),
	}
	o := s.queue.options
	j.leased = !c.req.AutoAck || o.EncryptionEnabled || o.EverEncrypted
	seconds := c.req.LeaseSeconds
	if seconds <= 0 {
		seconds = o.LeaseTime
	}
	partitions := c.partitions(s)
	cursor := int64(0)
	if len(entries) == 1 {
		cursor = entries[0].cursor
	}
	lease, err := wireid.Lease(time.Now(), cursor)
	if err != nil {
		cursor = 0
		lease, _ = wireid.Lease(time.Now(), 0)
	}
	for _, e := range entries {
		e.become(claiming)
		e.dirty = false
		e.tried = time.Now()
		next := e.next
		if j.newestOnly {
			next = -1
		}
		from, to := w.b.tail.run(e.partition.id, next, c.batch())
		j.claims = append(j.claims, pg.Claim{
			Partition: e.partition.id, Group: s.group.ID, Queue: s.queue.id, Version: s.queue.version, Lease: lease,
			LeaseSeconds: min(max(seconds, 1), math.MaxInt32), Batch: c.batch(),
			Partitions: min(partitions, math.MaxInt32), Delay: o.DelayedProcessing,
			Quiet: o.WindowBuffer, AutoAck: !j.leased, LeaseRow: cursor == 0,
			NewestOnly: j.newestOnly, CachedFrom: from, CachedTo: to,
		})
	}
	return j
}

// send gives jobs to lanes; never called with mu held.
func (w *watch) send(jobs []*claimJob) {
	for _, j := range jobs {
		j.entries[0].partition.lane.claim(j)
	}
}

// handOff returns claims that ride in the same commit as an append of so many records to the partition: at most one
// pop of each group.
func (w *watch) handOff(q *queue, p *partition, records int) []*claimJob {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == 0 || w.full() {
		return nil
	}
	var jobs []*claimJob
	for _, s := range w.byQueue[q.id] {
		e := s.entry(p)
		if e.state != idle && e.state != ready && e.state != suspect {
			continue
		}
		c := w.oldest(s, p, records)
		if c == nil {
			continue
		}
		w.steer(s, c)
		j := w.job(s, c, []*readyEntry{e})
		// What this very flush writes will be in memory when its answer comes.
		j.claims[0].CachedTo = math.MaxInt64
		switch claim := &j.claims[0]; {
		case claim.NewestOnly && claim.Delay == 0:
			claim.CachedFrom = 0
		case claim.CachedFrom == math.MaxInt64 && e.next >= 0:
			claim.CachedFrom = e.next
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func (w *watch) oldest(s *readySet, p *partition, added int) *popCall {
	for _, l := range []*list.List{s.pinned[p.name], s.parked} {
		if l == nil {
			continue
		}
		for el := l.Front(); el != nil; el = el.Next() {
			if c := el.Value.(*popCall); !c.claiming && !w.onHold(s, c, added) {
				return c
			}
		}
	}
	return nil
}
