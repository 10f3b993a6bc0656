package broker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"waggle/pg"
)

// watch holds the ready sets and the parked pops, hands the one to the other, and looks at the database for what no
// hint told. Entries are handed out disjointly: an entry that a flush works on is not in any list.
type watch struct {
	b *Broker

	mu      sync.Mutex // guards everything below, and what it says in ready.go and park.go
	sets    map[setKey]*readySet
	byQueue map[int64][]*readySet
	named   map[namedSet]*readySet
	// hintable finds the queues that have sets for hints: by id, and more than one where a queue was made anew.
	hintable namedIndex[[]int64]

	seq     uint64
	waiting int // calls that wait
	// missing are the pinned pops whose queue does not exist; discoveries the pops that take any queue of a namespace
	// or task, newest the youngest queue that one of those has seen.
	missing     namedIndex[[]chan struct{}]
	discoveries map[*popCall]struct{}
	newest      int64

	draining bool
	drained  chan struct{} // closed when draining begins
	// paused keeps every pop empty, and changes with mu held; pauseMoved is closed when it does.
	paused     atomic.Bool
	pauseMoved chan struct{}
	// answering is the size of the answers that clients have not taken yet.
	answering int64

	pending *look
	soon    bool      // somebody would like a look
	looked  time.Time // when the last look at the database began that succeeded
	began   time.Time // when the last look began
	failing bool      // the last look failed
	signal  chan struct{}
	// since bounds the next look at the log; zero until the first set.
	since time.Time
}

type namedSet struct {
	queue int64
	group string
}

func newWatch(b *Broker) *watch {
	return &watch{
		b: b, sets: map[setKey]*readySet{}, byQueue: map[int64][]*readySet{}, named: map[namedSet]*readySet{},
		hintable: newNamedIndex[[]int64](), missing: newNamedIndex[[]chan struct{}](),
		discoveries: map[*popCall]struct{}{}, drained: make(chan struct{}), pauseMoved: make(chan struct{}), signal: make(chan struct{}, 1),
	}
}

func (w *watch) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// find returns the set of the queue's group if there is one.
func (w *watch) find(q *queue, group string) *readySet {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.named[namedSet{q.id, group}]
	if s == nil {
		return nil
	}
	s.use(q)
	return s
}

func (w *watch) isRegistered(s *readySet) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.group.Registered
}

func (s *readySet) use(q *queue) {
	s.used = time.Now()
	if q.version > s.queue.version {
		s.queue = q
	}
}

// open returns the set of the queue's group, making it. A registered group's set is filled in the background.
func (w *watch) open(q *queue, name string, group pg.Group) *readySet {
	w.mu.Lock()
	s := w.sets[setKey{q.id, group.ID}]
	fresh := s == nil
	switch {
	case fresh:
		s = w.add(q, name, group)
	case group.Registered && !s.group.Registered:
		// Pops of single partitions made the set; now it must know all of them.
		s.group, s.built, fresh = group, make(chan struct{}), true
	}
	s.use(q)
	w.mu.Unlock()
	if fresh && group.Registered && !w.b.spawn(func() { w.build(s) }) {
		w.buildFailed(s, errClosed)
	}
	w.wake()
	return s
}

// add is called with mu held.
func (w *watch) add(q *queue, name string, group pg.Group) *readySet {
	if old := w.named[namedSet{q.id, name}]; old != nil {
		w.remove(old, errGone) // the group was deleted and made anew
	}
	w.b.interested(q.queueKey)
	s := newReadySet(q, name, group)
	w.sets[s.key] = s
	w.byQueue[q.id] = append(w.byQueue[q.id], s)
	w.named[namedSet{q.id, name}] = s
	if ids := w.hintable.at(q.queueKey); !slices.Contains(ids, q.id) {
		w.hintable.set(q.queueKey, append(ids, q.id))
	}
	if !group.Registered {
		close(s.built)
	}
	return s
}

// remove takes the set away and ends its calls; called with mu held.
func (w *watch) remove(s *readySet, err error) {
	if s.gone {
		return
	}
	s.gone = true
	delete(w.sets, s.key)
	delete(w.named, namedSet{s.key.queue, s.name})
	w.byQueue[s.key.queue] = slices.DeleteFunc(w.byQueue[s.key.queue], func(other *readySet) bool { return other == s })
	if len(w.byQueue[s.key.queue]) == 0 {
		delete(w.byQueue, s.key.queue)
		w.unlist(s)
	}
	for _, l := range append(values(s.pinned), s.parked) {
		for l.Len() > 0 {
			w.finish(l.Front().Value.(*popCall), popOutcome{err: err})
		}
	}
	for _, e := range s.entries {
		e.become(idle)
	}
	if len(w.sets) == 0 {
		w.since = time.Time{}
	}
}

// unlist takes the queue of the set, its last one, away from what hints find.
func (w *watch) unlist(s *readySet) {
	key := s.queue.queueKey
	ids := slices.DeleteFunc(w.hintable.at(key), func(id int64) bool { return id == s.key.queue })
	if len(ids) > 0 {
		w.hintable.set(key, ids)
		return
	}
	w.hintable.remove(key)
}

func values[K comparable, V any](m map[K]V) []V {
	out := make([]V, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// forget drops every set: they speak of rows of another history. Their calls begin anew.
func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range values(w.sets) {
		w.remove(s, errGone)
	}
}

// queueGone ends what waits on a deleted queue.
func (w *watch) queueGone(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Clone(w.byQueue[id]) {
		w.remove(s, errGone)
	}
}

// written notes an append of this broker.
func (w *watch) written(q *queue, p *partition, newest int64) {
	w.b.tidings.tell(q.name)
	w.mu.Lock()
	var jobs []*claimJob
	for _, s := range w.byQueue[q.id] {
		s.entry(p).mark(newest)
		jobs = append(jobs, w.dispatch(s)...)
	}
	if !w.missing.isEmpty() {
		w.appeared(q.queueKey)
	}
	if len(w.discoveries) > 0 && q.id > w.newest {
		w.newest = q.id
		w.lookSoon()
	}
	w.mu.Unlock()
	w.send(jobs)
}

// touched notes a hint: the partition may have something, for every group of its queue.
func (w *watch) touched(p *partition) {
	w.mu.Lock()
	var jobs []*claimJob
	for _, s := range w.byQueue[p.queue] {
		s.entry(p).mark(-1)
		jobs = append(jobs, w.dispatch(s)...)
	}
	w.mu.Unlock()
	w.send(jobs)
}

// released notes that the group's lease on the partition has ended. It reports whether there is more for the group
// and nobody here to take it; where no pop of the group was seen, that is not known, and others are to find out.
func (w *watch) released(q *queue, p *partition, group, committed int64, signalled bool) (left bool) {
	w.mu.Lock()
	left = true
	var jobs []*claimJob
	if s := w.sets[setKey{q.id, group}]; s != nil {
		e := s.entry(p)
		e.next = committed + 1
		switch e.state {
		case claiming:
			e.dirty = true // the flush may have seen the lease
		case leased, idle, ready:
			e.dirty = e.dirty || signalled
			e.settle()
		default: // it will be tried in any case
			e.dirty = e.dirty || signalled
		}
		jobs = w.dispatch(s)
		left = e.state == ready
	}
	w.mu.Unlock()
	w.send(jobs)
	return left
}

// suspectOne makes the entry one to be tried, whatever is remembered of it.
func (w *watch) suspectOne(s *readySet, p *partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := s.entry(p); !s.gone && (e.state == idle || e.state == leased) {
		e.become(suspect)
	}
}

// parkedCount is the number of calls that wait.
func (w *watch) parkedCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}

func (w *watch) counts() (sets, entries, parked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.sets {
		entries += len(s.entries)
	}
	return len(w.sets), entries, w.waiting
}

// took and answered keep the account of answers that clients have not taken yet.
func (w *watch) took(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answering += bytes
}

func (w *watch) answered(bytes int64) {
	w.mu.Lock()
	wasFull := w.full()
	w.answering -= bytes
	var jobs []*claimJob
	if wasFull && !w.full() {
		for _, s := range w.sets {
			jobs = append(jobs, w.dispatch(s)...)
		}
	}
	w.mu.Unlock()
	w.send(jobs)
}

// full is called with mu held.
func (w *watch) full() bool { return w.answering >= int64(w.b.config.AnswerBytes) }

// hinted lists, with mu held, the queues of a hint that anything here waits on.
func (w *watch) hinted(tenant *uuid.UUID, name string) []*queue {
	var out []*queue
	for _, ids := range w.hintable.hinted(tenant, name) {
		for _, id := range ids {
			out = append(out, w.byQueue[id][0].queue)
		}
	}
	return out
}
