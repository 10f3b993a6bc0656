package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"waggle/pg"
)

const (
	// What one flush takes of what waits: enough to fill a commit, little enough that nobody waits long behind it.
	flushBytes   = 8 << 20
	flushRecords = 32 << 10
	flushParts   = 8 << 10
	flushClaims  = 512
	flushAcks    = 2048
	// flushCandidates bounds the partitions that the claims of a flush may try.
	flushCandidates = 4096
	// A partition that a neighbour holds is skipped this often or this long, then waits alone.
	maxSkips    = 3
	maxSkipTime = 20 * time.Millisecond
	// contendedTries bounds how often a group or a claim is sent again after a conflict.
	contendedTries = 8
)

// lane sends everything that waits as one transaction, answers, and repeats. A partition's appends always go through
// the same lane; acks and claims go through any.
type lane struct {
	b      *Broker
	index  int
	budget int // bytes of windows

	mu      sync.Mutex // guards what waits
	tenants tenantQueues
	claims  []*claimJob
	acks    []*ackJob
	stopped bool
	news    []news                  // of appends that others made, oldest first
	warm    map[*partition]struct{} // those with a window
	signal  chan struct{}

	epoch atomic.Int64 // windows of an earlier epoch are worth nothing
	bytes atomic.Int64 // of windows
	clock atomic.Pointer[reading]
	// failing says that the last flush failed.
	failing atomic.Bool
}

// reading is what the server's clock showed at a moment of ours.
type reading struct {
	server int64 // microseconds
	at     time.Time
}

func newLane(b *Broker, index, budget int) *lane {
	return &lane{
		b: b, index: index, budget: budget, signal: make(chan struct{}, 1), warm: map[*partition]struct{}{},
	}
}

func (l *lane) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

func (l *lane) push(g *pushGroup) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		g.fail()
		return
	}
	l.tenants.add(g)
	l.mu.Unlock()
	l.wake()
}

// again puts groups back in front of everything of their tenant, in order.
func (l *lane) again(groups []*pushGroup) {
	if len(groups) == 0 {
		return
	}
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		for _, g := range groups {
			g.fail()
		}
		return
	}
	l.tenants.addFront(groups)
	l.mu.Unlock()
	l.wake()
}

// land ends a time aside: these groups come first, then those that waited meanwhile. A window that was made
// meanwhile comes with them.
func (l *lane) land(p *partition, groups []*pushGroup, made *window) {
	l.mu.Lock()
	if made != nil {
		l.setWindow(p, made)
		p.fresh = true
	}
	groups = append(groups, p.waiting...)
	p.waiting, p.aside = nil, false
	l.mu.Unlock()
	l.again(groups)
}

func (l *lane) claim(j *claimJob) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		l.b.watch.claimFailed(j, errClosed)
		return
	}
	l.claims = append(l.claims, j)
	l.mu.Unlock()
	l.wake()
}

func (l *lane) ack(j *ackJob) {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		j.answer(nil, errClosed)
		return
	}
	l.acks = append(l.acks, j)
	l.mu.Unlock()
	l.wake()
}

// forget makes every window worthless.
func (l *lane) forget() { l.epoch.Add(1) }

func (l *lane) stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.wake()
}

// run is the lane's goroutine: it ends when the lane is stopped and nothing waits.
func (l *lane) run() {
	for range l.signal {
		for {
			f, stopped := l.take()
			if f.empty() {
				if stopped {
					return
				}
				break
			}
			l.send(f)
		}
	}
}

// news are segments that a bundle found or made behind what the window of a partition knows.
type news struct {
	partition *partition
	epoch     int64 // of the window that the bundle was compared with
	segments  []remembered
}

// maxNews bounds those that wait for the lane; what is dropped is read from the database by the next append.
const maxNews = 256

// tell hands the lane what a bundle has learned of the partition, so that the next append need not read it again.
func (l *lane) tell(n news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.news) < maxNews {
		l.news = append(l.news, n)
	}
}

// hear takes the news over into windows. Those of partitions that are aside wait until they are back.
func (l *lane) hear() {
	l.mu.Lock()
	var heard, left []news
	for _, n := range l.news {
		if n.partition.aside {
			left = append(left, n)
		} else {
			heard = append(heard, n)
		}
	}
	l.news = left
	l.mu.Unlock()
	for _, n := range heard {
		w := l.windowOf(n.partition)
		if w == nil || w.epoch != n.epoch {
			continue
		}
		before := w.bytes()
		for _, s := range n.segments {
			// What is known already is no news, and behind a gap it is of no use.
			if s.base == w.head {
				w.add(s.base, s.micros, s.ids)
			}
		}
		w.used = time.Now()
		l.bytes.Add(int64(w.bytes() - before))
	}
}

// take picks what the next flush carries. Aside partitions keep their groups.
func (l *lane) take() (f *flight, stopped bool) {
	f = newFlight(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	for bytes, records := 0, 0; bytes < flushBytes && records < flushRecords && len(f.groups) < flushParts; {
		g := l.tenants.next()
		if g == nil {
			break
		}
		if p := g.partition; p.aside {
			p.waiting = append(p.waiting, g)
			continue
		}
		bytes, records = bytes+g.bytes, records+len(g.records)
		f.groups = append(f.groups, g)
	}
	l.acks = f.takeAcks(l.acks)
	n, candidates := 0, 0
	for n < min(len(l.claims), flushClaims) && (n == 0 || candidates+len(l.claims[n].claims) <= flushCandidates) {
		candidates += len(l.claims[n].claims)
		n++
	}
	f.claims = append(f.claims, l.claims[:n]...)
	left := copy(l.claims, l.claims[n:])
	clear(l.claims[left:])
	l.claims = l.claims[:left]
	return f, l.stopped
}

// setAside takes the partition out of the lane; its groups wait until land. Only the lane's goroutine calls it.
func (l *lane) setAside(p *partition) {
	l.mu.Lock()
	p.aside = true
	l.mu.Unlock()
}

// send prepares, flushes and answers one flight.
func (l *lane) send(f *flight) {
	f.prepare()
	if f.nothing() {
		return
	}
	l.deliver(f)
	l.trim()
}

// deliver runs the flight's transaction and hands out its answers. It also serves flights that hold one partition
// taken aside, on a goroutine of their own.
func (l *lane) deliver(f *flight) {
	started := time.Now()
	l.b.metrics.flushing(f)
	result, err := l.b.db.Flush(context.WithoutCancel(l.b.ctx), &f.flush)
	l.b.metrics.flushed(f, time.Since(started), err)
	if err == nil {
		l.failing.Store(false)
		f.answer(result)
		return
	}
	if errors.Is(err, pg.ErrFloor) && l.b.config.FloorRaised != nil {
		l.b.config.FloorRaised()
	}
	f.failed(err)
}

// retry sends the contents of a flight again after a conflict, a little later.
func (l *lane) retry(f *flight, cause error) {
	time.Sleep(time.Duration(1+rand.IntN(5)) * time.Millisecond)
	var groups []*pushGroup
	for _, part := range f.parts {
		for _, g := range part.groups {
			if g.tries++; g.tries > contendedTries {
				l.b.log.Error("push failed after conflicts", zap.String("code", "WG0416"), zap.Error(cause))
				g.fail()
				continue
			}
			groups = append(groups, g)
		}
	}
	l.putBack(f, groups)
	for _, j := range f.acks {
		if j.tries++; j.tries > contendedTries {
			j.answer(nil, cause)
			continue
		}
		l.ack(j)
	}
	for _, j := range f.claims {
		l.b.watch.claimFailed(j, cause)
	}
}

// putBack returns groups to the lane, through land for a partition that was aside.
func (l *lane) putBack(f *flight, groups []*pushGroup) {
	if f.solo {
		l.land(f.parts[0].partition, groups, nil)
		return
	}
	l.again(groups)
}

// trimSample is how many windows are compared for the one that goes.
const trimSample = 8

// trim drops windows until they fit the budget: of a few that come to hand, the one that was not used for longest.
// Those that were just made stay for the groups that wait for them.
func (l *lane) trim() {
	if l.bytes.Load() <= int64(l.budget) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.bytes.Load() > int64(l.budget)*9/10 {
		var oldest *partition
		seen := 0
		for p := range l.warm {
			if p.aside || p.fresh {
				continue
			}
			if oldest == nil || p.window.used.Before(oldest.window.used) {
				oldest = p
			}
			if seen++; seen == trimSample {
				break
			}
		}
		if oldest == nil {
			return
		}
		l.setWindow(oldest, nil)
	}
}

// setWindow gives the partition a window, or takes it away, and keeps the account. It is called with mu held.
func (l *lane) setWindow(p *partition, w *window) {
	if p.window != nil {
		l.bytes.Add(-int64(p.window.bytes()))
		delete(l.warm, p)
	}
	if p.window = w; w != nil {
		l.bytes.Add(int64(w.bytes()))
		l.warm[p] = struct{}{}
	}
}

// windowOf is what the lane remembers of the partition, nil for nothing. Only who owns the partition calls it.
func (l *lane) windowOf(p *partition) *window {
	if p.window == nil || p.window.epoch != l.epoch.Load() {
		return nil
	}
	return p.window
}

// tick notes what the server's clock shows.
func (l *lane) tick(server time.Time) {
	l.clock.Store(&reading{server: server.UnixMicro(), at: time.Now()})
}

// maxStampTick bounds what a stamp may change: that of a partition whose last one lies in the future is no clock.
const maxStampTick = 5 * time.Second

// tickStamp notes the created time of an append.
func (l *lane) tickStamp(stamp time.Time) {
	if off := stamp.UnixMicro() - l.micros(); l.clock.Load() == nil || max(off, -off) < maxStampTick.Microseconds() {
		l.tick(stamp)
	}
}

// micros is the server's clock, as well as we know it: ours may be wrong by hours, or be set meanwhile.
func (l *lane) micros() int64 {
	r := l.clock.Load()
	if r == nil {
		return time.Now().UnixMicro()
	}
	return r.server + time.Since(r.at).Microseconds()
}
