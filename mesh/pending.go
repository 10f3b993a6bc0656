package mesh

import (
	"slices"

	"github.com/google/uuid"
)

// Bounds of what waits for one peer.
const (
	// pendingQueues is how many queues may wait; beyond it the oldest is dropped.
	pendingQueues = 1024
	// widenAbove is how many partitions of one queue may wait before it becomes one queue-wide item, by version.
	widenAboveV1 = 4
	widenAboveV2 = 16
	// groupsAbove is how many groups of one queue may have moved cursors before it is said of all groups.
	groupsAbove = 16
	// echoesAbove is how many beacon rounds may wait for their echo.
	echoesAbove = 8
)

// queueKey names a queue in the backlog. Towards a v1 peer the tenant is unknown.
type queueKey struct {
	tenant uuid.UUID
	known  bool
	queue  string
}

// waiting is what the backlog holds about one queue.
type waiting struct {
	woken      bool
	wide       bool
	partitions []string
	// invalidations holds at most one item a group, options and deletion in the first.
	invalidations []Invalidation
}

// pending is the coalescing backlog of one peer: what has not been put in a frame yet. Adding the same thing twice
// costs nothing, and there is an upper bound to all of it. It is pure; the sender guards it.
type pending struct {
	version uint8
	queues  map[queueKey]*waiting
	// order is the queues by age; wakes and invalidations of a queue keep the queue's place.
	order []queueKey
	// invalidated says that some queue may hold an invalidation; without one, all queues are woken.
	invalidated bool

	echoes []uint64
	beacon uint64
	hint   bool
	leave  bool

	summary *announcement // of our interest
	holds   *uint64       // the generation of the peer's that we have
}

func newPending(version uint8) *pending {
	return &pending{version: version, queues: make(map[queueKey]*waiting)}
}

func (p *pending) key(tenant uuid.UUID, known bool, queue string) queueKey {
	if p.version == 1 || !known {
		return queueKey{queue: queue}
	}
	return queueKey{tenant: tenant, known: true, queue: queue}
}

// at returns what waits for a queue, and whether the oldest queue had to be dropped to make room for it.
func (p *pending) at(key queueKey) (w *waiting, dropped bool) {
	if w, ok := p.queues[key]; ok {
		return w, false
	}
	if len(p.queues) >= pendingQueues {
		p.remove(p.order[0])
		dropped = true
	}
	w = &waiting{}
	p.queues[key] = w
	p.order = append(p.order, key)
	return w, dropped
}

// remove forgets a queue; it is at or near the front of the order.
func (p *pending) remove(key queueKey) {
	delete(p.queues, key)
	at := slices.Index(p.order, key)
	if at == 0 {
		p.order = p.order[1:]
		return
	}
	p.order = slices.Delete(p.order, at, at+1)
}

// addWake reports whether something older was dropped for it.
func (p *pending) addWake(wake *Wake) (dropped bool) {
	w, dropped := p.at(p.key(wake.Tenant, wake.TenantKnown, wake.Queue))
	w.woken = true
	switch {
	case w.wide:
	case wake.QueueWide:
		w.widen()
	case slices.Contains(w.partitions, wake.Partition):
	case len(w.partitions) >= p.widenAbove():
		w.widen()
	default:
		w.partitions = append(w.partitions, wake.Partition)
	}
	return dropped
}

func (p *pending) widenAbove() int {
	if p.version == 1 {
		return widenAboveV1
	}
	return widenAboveV2
}

func (w *waiting) widen() { w.wide, w.partitions = true, nil }

// addInvalidation reports whether something older was dropped for it.
func (p *pending) addInvalidation(item Invalidation) (dropped bool) {
	key := p.key(item.Tenant, item.TenantKnown, item.Queue)
	w, dropped := p.at(key)
	item.Tenant, item.TenantKnown = key.tenant, key.known
	if p.version == 1 {
		// v1 can only say that something about the queue changed.
		item = Invalidation{Queue: item.Queue, OptionsChanged: true, CursorsMoved: true}
	}
	if !item.CursorsMoved {
		item.Group = ""
	}
	w.merge(item)
	p.invalidated = true
	return dropped
}

// merge unites an item with those that wait for the same queue, losing nothing that they say.
func (w *waiting) merge(item Invalidation) {
	for i := range w.invalidations {
		have := &w.invalidations[i]
		// Options and deletion concern no group: they may ride on any item. Moved cursors need theirs, or one that
		// already speaks of all groups.
		if item.CursorsMoved && have.CursorsMoved && have.Group != item.Group && have.Group != "" {
			continue
		}
		if item.CursorsMoved && !have.CursorsMoved {
			have.Group = item.Group
		}
		if item.OptionsChanged {
			have.Version = mergeVersion(have, item.Version)
		}
		have.OptionsChanged = have.OptionsChanged || item.OptionsChanged
		have.Deleted = have.Deleted || item.Deleted
		have.CursorsMoved = have.CursorsMoved || item.CursorsMoved
		return
	}
	w.invalidations = append(w.invalidations, item)
	if len(w.invalidations) > groupsAbove {
		w.allGroups()
	}
}

// mergeVersion keeps the newer version; an unknown one (0) asks for more and so prevails.
func mergeVersion(have *Invalidation, version int64) int64 {
	if !have.OptionsChanged {
		return version
	}
	if have.Version == 0 || version == 0 {
		return 0
	}
	return max(have.Version, version)
}

// allGroups replaces the items by one that speaks of every group.
func (w *waiting) allGroups() {
	items := w.invalidations
	items[0].Group = ""
	w.invalidations = items[:1:1]
	for _, item := range items[1:] {
		item.Group = ""
		w.merge(item)
	}
}

// addEcho reports whether the oldest round was dropped for it.
func (p *pending) addEcho(round uint64) (dropped bool) {
	if len(p.echoes) >= echoesAbove {
		p.echoes, dropped = p.echoes[1:], true
	}
	p.echoes = append(p.echoes, round)
	return dropped
}

// next moves what fits into one frame from the backlog into f and reports false when nothing waits. Origin,
// destination and number are the sender's to fill in. Urgent and small things go first.
func (p *pending) next(f *Frame) bool {
	*f = Frame{Version: p.version, Wakes: f.Wakes[:0], Invalidations: f.Invalidations[:0]}
	if p.version > 1 && p.nextSignal(f) {
		return true
	}
	p.echoes, p.beacon, p.hint, p.leave, p.summary, p.holds = nil, 0, false, false, nil, nil
	if p.fillInvalidations(f) {
		f.Kind = KindInvalidation
		return true
	}
	if p.fillWakes(f) {
		f.Kind = KindWake
		return true
	}
	return false
}

// nextSignal takes one of the frames that carry no items.
func (p *pending) nextSignal(f *Frame) bool {
	switch {
	case p.leave:
		f.Kind, p.leave = KindLeave, false
	case len(p.echoes) > 0:
		f.Kind, f.Round, f.Echo = KindBeacon, p.echoes[0], true
		p.echoes = p.echoes[1:]
	case p.beacon != 0:
		f.Kind, f.Round, p.beacon = KindBeacon, p.beacon, 0
	case p.summary != nil:
		f.Kind, f.Generation, f.Interest, p.summary = KindInterest, p.summary.generation, p.summary.bits, nil
	case p.holds != nil:
		f.Kind, f.Generation, p.holds = KindInterest, *p.holds, nil
	case p.hint:
		f.Kind, p.hint = KindLeaderHint, false
	default:
		return false
	}
	return true
}

// room is how many bytes of items a frame of this version may hold.
func (p *pending) room() int { return FrameLimit - v2Envelope - v2ItemsHead }

// single is how many bytes a frame may hold that has one item: its header takes one byte only.
func (p *pending) single() int { return FrameLimit - v2Envelope - 1 }

func (p *pending) fillInvalidations(f *Frame) bool {
	if !p.invalidated {
		return false
	}
	room := p.room()
	for _, key := range p.order {
		w := p.queues[key]
		for len(w.invalidations) > 0 {
			item := w.invalidations[0]
			if p.version == 1 {
				f.Invalidations = append(f.Invalidations, item)
				w.invalidations = nil
				p.settle(key, w)
				return true
			}
			if item.Group != "" && invalidationSize(&item) > p.single() {
				item.Group = ""
			}
			size := invalidationSize(&item)
			if len(f.Invalidations) > 0 && size > room {
				p.sweep()
				return true
			}
			f.Invalidations = append(f.Invalidations, item)
			room -= size
			w.invalidations = w.invalidations[1:]
		}
	}
	p.sweep()
	p.invalidated = false
	return len(f.Invalidations) > 0
}

func (p *pending) fillWakes(f *Frame) bool {
	room, items := p.room(), 0
	for len(p.order) > 0 {
		key := p.order[0]
		w := p.queues[key]
		if p.version == 1 {
			p.fillWakeV1(f, key, w)
			return true
		}
		size := wakeSize(key, w.partitions)
		if size > p.single() {
			w.widen()
			size = wakeSize(key, nil)
		}
		if items > 0 && size > room {
			break
		}
		wake := Wake{Tenant: key.tenant, TenantKnown: key.known, Queue: key.queue, QueueWide: w.wide}
		if w.wide {
			f.Wakes = append(f.Wakes, wake)
		}
		for _, wake.Partition = range w.partitions {
			f.Wakes = append(f.Wakes, wake)
		}
		room -= size
		items++
		p.remove(key)
	}
	return items > 0
}

// fillWakeV1 takes one partition of the oldest queue, or the queue as a whole.
func (p *pending) fillWakeV1(f *Frame, key queueKey, w *waiting) {
	wake := Wake{Queue: key.queue, QueueWide: w.wide}
	switch {
	case w.wide:
	// version byte, array, kind
	case 3+stringSize(key.queue)+stringSize(w.partitions[0]) > FrameLimit || len(w.partitions) > widenAboveV1:
		wake.QueueWide = true
		w.widen()
	default:
		wake.Partition = w.partitions[0]
		w.partitions = w.partitions[1:]
	}
	f.Wakes = append(f.Wakes, wake)
	if len(w.partitions) == 0 {
		p.remove(key)
	}
}

// wakeSize is the size of a queue's item; no partitions means queue-wide.
func wakeSize(key queueKey, partitions []string) int {
	size := 1 + tenantSize(key.known) + stringSize(key.queue) + 1
	if len(partitions) > 15 {
		size += 2
	}
	for _, partition := range partitions {
		size += stringSize(partition)
	}
	return size
}

// settle forgets a queue about which nothing more waits.
func (p *pending) settle(key queueKey, w *waiting) {
	if !w.woken && len(w.invalidations) == 0 {
		p.remove(key)
	}
}

// sweep forgets all queues about which nothing more waits.
func (p *pending) sweep() {
	p.order = slices.DeleteFunc(p.order, func(key queueKey) bool {
		w := p.queues[key]
		done := !w.woken && len(w.invalidations) == 0
		if done {
			delete(p.queues, key)
		}
		return done
	})
}

// setVersion changes the version that the backlog is written in from now on.
func (p *pending) setVersion(version uint8) {
	if version == p.version {
		return
	}
	old := *p
	*p = *newPending(version)
	for _, key := range old.order {
		w := old.queues[key]
		wake := Wake{Tenant: key.tenant, TenantKnown: key.known, Queue: key.queue, QueueWide: w.wide}
		if w.wide {
			p.addWake(&wake)
		}
		for _, wake.Partition = range w.partitions {
			p.addWake(&wake)
		}
		for _, item := range w.invalidations {
			p.addInvalidation(item)
		}
	}
	if version > 1 {
		p.leave = old.leave
	}
}
