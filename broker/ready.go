package broker

import (
	"container/list"
	"time"

	"waggle/pg"
)

// setKey names a ready set: the rows of a queue and of one of its groups.
type setKey struct{ queue, group int64 }

// readySet is what this broker knows of one group of one queue: which partitions may have something for it, and which
// pops wait for that. All of it is guarded by watch.mu.
type readySet struct {
	key   setKey
	queue *queue
	name  string
	group pg.Group

	entries  map[int64]*readyEntry
	ready    *list.List // entries that surely or probably have something
	suspects *list.List // entries whose lease may have ended meanwhile
	leased   map[*readyEntry]struct{}
	claiming map[*readyEntry]struct{}
	blocked  map[*readyEntry]struct{}
	delayed  map[*readyEntry]struct{}

	parked *list.List            // pops that take any partition, oldest first
	pinned map[string]*list.List // pops of one partition, by its name

	// built is closed once the set holds everything that was there when it was made; outdated says that the cursors
	// were moved while it was being built.
	built      chan struct{}
	outdated   bool
	doubtful   bool // leases that are read while it is being built may have ended
	refreshing bool // the queue is being read again
	gone       bool
	made, used time.Time
	pace       pace
}

type entryState uint8

const (
	idle     entryState = iota // nothing known beyond next
	ready                      // in set.ready
	suspect                    // in set.suspects
	claiming                   // a flush decides; in set.claiming
	leased                     // in set.leased
	delayed                    // has nothing to give yet; a timer will make it ready; in set.delayed
	blocked                    // may have something, but cannot be claimed for a moment; in set.blocked
)

// readyEntry is one partition as one group sees it.
type readyEntry struct {
	set       *readySet
	partition *partition
	state     entryState
	element   *list.Element
	timer     *time.Timer
	// next is the offset after what the group was last known to have been given, -1 for not known.
	next int64
	// newest is the highest offset known to exist; dirty says that there may be more, that the cursor may have moved
	// back, or that a lease may have ended.
	newest int64
	dirty  bool
	// cursor is the row id, 0 for not known.
	cursor int64
	locked int       // how often in a row a neighbour held the cursor
	holder *claimJob // whose lease it is, if it was made here
	until  time.Time
	tried  time.Time
}

func newReadySet(q *queue, name string, group pg.Group) *readySet {
	return &readySet{
		key: setKey{q.id, group.ID}, queue: q, name: name, group: group, entries: map[int64]*readyEntry{},
		ready: list.New(), suspects: list.New(), leased: map[*readyEntry]struct{}{},
		claiming: map[*readyEntry]struct{}{}, blocked: map[*readyEntry]struct{}{},
		delayed: map[*readyEntry]struct{}{}, parked: list.New(),
		pinned: map[string]*list.List{}, built: make(chan struct{}), made: time.Now(), used: time.Now(),
	}
}

func (s *readySet) isBuilt() bool {
	select {
	case <-s.built:
		return true
	default:
		return false
	}
}

func (s *readySet) closeBuilt() {
	if !s.isBuilt() {
		close(s.built)
	}
}

func (s *readySet) entry(p *partition) *readyEntry {
	e := s.entries[p.id]
	if e == nil {
		e = &readyEntry{set: s, partition: p, next: -1, newest: -1}
		s.entries[p.id] = e
	}
	return e
}

// more tells that the entry may have something past what was given out.
func (e *readyEntry) more() bool { return e.dirty || e.newest >= 0 && e.newest >= e.next }

// become moves the entry between the set's lists.
func (e *readyEntry) become(state entryState) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if e.element != nil {
		if e.state == ready {
			e.set.ready.Remove(e.element)
		} else {
			e.set.suspects.Remove(e.element)
		}
		e.element = nil
	}
	if members := e.members(); members != nil {
		delete(members, e)
	}
	e.letGo()
	e.state = state
	switch state {
	case ready:
		e.element = e.set.ready.PushBack(e)
	case suspect:
		e.element = e.set.suspects.PushBack(e)
	}
	if members := e.members(); members != nil {
		members[e] = struct{}{}
	}
}

func (e *readyEntry) members() map[*readyEntry]struct{} {
	switch e.state {
	case leased:
		return e.set.leased
	case claiming:
		return e.set.claiming
	case blocked:
		return e.set.blocked
	case delayed:
		return e.set.delayed
	default:
		return nil
	}
}

// settle puts an entry that no flush works on where it belongs.
func (e *readyEntry) settle() {
	if e.more() {
		e.become(ready)
	} else {
		e.become(idle)
	}
}

// mark notes that newest exists. A mark of unknown height (newest < 0) may also mean that a lease was released; it is
// remembered while a flush decides, whose answer may be older.
func (e *readyEntry) mark(newest int64) {
	if newest >= 0 {
		if newest <= e.newest {
			return
		}
		e.newest = newest
	} else {
		e.dirty = true
	}
	switch {
	case e.state == idle && e.more():
		e.become(ready)
	case e.state == leased && e.dirty:
		e.become(suspect)
	}
}

// doubt voids what is known of the entry: cursors were moved.
func (e *readyEntry) doubt() {
	e.next, e.dirty = -1, true
	switch e.state {
	case idle:
		e.become(ready)
	case leased:
		e.become(suspect)
	}
}

// reviveLeased lets leased entries be tried again whose lease is over, or that were not tried for a while: the lease
// may have been released without a hint.
func (s *readySet) reviveLeased(now time.Time) {
	for e := range s.leased {
		if now.After(e.until) || now.Sub(e.tried) >= leaseRecheck {
			e.become(suspect)
		}
	}
}

// waiters is how many pops the set has.
func (s *readySet) waiters() int {
	n := s.parked.Len()
	for _, l := range s.pinned {
		n += l.Len()
	}
	return n
}

// fills tells whether the first partitions that are ready surely have enough, together with what is being added.
func (s *readySet) fills(enough, partitions int, added int64) bool {
	n := added
	if s.group.Conflation { // each gives one, however much it has
		return min(added, 1)+int64(min(s.ready.Len(), partitions)) >= int64(min(enough, partitions))
	}
	for el := s.ready.Front(); el != nil && n < int64(enough) && partitions > 0; el = el.Next() {
		e := el.Value.(*readyEntry)
		if e.next >= 0 && e.newest >= e.next {
			n += e.newest - e.next + 1
		} else {
			n++
		}
		partitions--
	}
	return n >= int64(enough)
}
