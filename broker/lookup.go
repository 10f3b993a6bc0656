package broker

import (
	"context"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"waggle/broker/segment"
	"waggle/broker/wireid"
	"waggle/pg"
)

const (
	// maxHydrated bounds the hashes read for one cold partition; older ones are asked for one by one.
	maxHydrated = 2 << 20
	// A window is read in pages of segments, for some partitions at once: what one statement may bring is bounded.
	firstPage      = 32
	firstPageParts = 64
	nextPage       = 1024
	nextPageParts  = 2
	// catchUpAfter is how long a window may go unused before what others appended meanwhile is read without a lock,
	// instead of under the lock of the append.
	catchUpAfter = 10 * time.Second
	catchUpPages = 8
)

type lookupKind uint8

const (
	lookHydrate lookupKind = iota // nothing is known of the partition
	lookCatchUp                   // what is known may be far behind
	lookIDs                       // single ids cannot be decided from memory
)

// lookup is what a part must know before it can be built.
type lookup struct {
	part  *part
	kind  lookupKind
	epoch int64
	// below is the offset up to which the queries reach.
	below   int64
	queries []idQuery
}

// idQuery asks for a record's hash between two offsets, or for the place that its transaction id names as a message id.
type idQuery struct {
	group     *pushGroup
	record    *pushRecord
	low, high int64
	derived   *wireid.Place
}

// needs returns what must be looked up before the part can be built, nil for nothing.
func (p *part) needs(l *lane) *lookup {
	if !p.dedups() || !p.hasIDs() {
		return nil
	}
	w := l.windowOf(p.partition)
	switch {
	case w == nil:
		return &lookup{part: p, kind: lookHydrate, epoch: l.epoch.Load()}
	case time.Since(w.used) > catchUpAfter:
		return &lookup{part: p, kind: lookCatchUp, epoch: w.epoch}
	}
	need := &lookup{part: p, kind: lookIDs, below: w.head}
	before := w.bytes()
	w.expire(p.oldest(l) - windowSlack.Microseconds())
	l.bytes.Add(int64(w.bytes() - before))
	for _, g := range p.groups {
		for _, r := range g.records {
			if r.hash == (segment.Hash{}) {
				continue
			}
			low, high := w.unsure(r.hash, g.probed)
			derived := r.derived != nil && r.derived.Partition == p.partition.id && !r.derivedAsked
			if low > high && !derived {
				continue
			}
			if _, exact := w.exact[r.hash]; exact {
				continue
			}
			if low <= high {
				need.queries = append(need.queries, idQuery{group: g, record: r, low: low, high: high})
			}
			if derived {
				need.queries = append(need.queries, idQuery{group: g, record: r, derived: r.derived})
			}
		}
	}
	if len(need.queries) == 0 {
		return nil
	}
	return need
}

func (p *part) hasIDs() bool {
	for _, g := range p.groups {
		for _, r := range g.records {
			if r.hash != (segment.Hash{}) {
				return true
			}
		}
	}
	return false
}

// lookUp serves parts that were taken aside, then lets them land.
func (l *lane) lookUp(lookups []*lookup) {
	ctx, cancel := context.WithTimeout(l.b.ctx, dbTimeout)
	defer cancel()
	var cold []*lookup
	for _, need := range lookups {
		switch need.kind {
		case lookIDs:
			l.landed(need, nil, l.probe(ctx, need))
		case lookCatchUp:
			near, err := l.catchUp(ctx, need.part)
			if err == nil && !near {
				need.epoch = l.epoch.Load()
				cold = append(cold, need)
				continue
			}
			l.landed(need, nil, err)
		default:
			cold = append(cold, need)
		}
	}
	for chunk := range slices.Chunk(cold, firstPageParts) {
		windows, err := l.hydrate(ctx, chunk)
		for _, need := range chunk {
			l.landed(need, windows[need.part.partition.id], err)
		}
	}
}

func (l *lane) landed(need *lookup, made *window, err error) {
	p := need.part
	if err == nil {
		l.land(p.partition, p.groups, made)
		return
	}
	l.b.log.Error("push failed: transaction ids not looked up", zap.String("code", "WG0422"), zap.Error(err))
	for _, g := range p.groups {
		g.fail()
	}
	l.land(p.partition, nil, nil)
}

// loading is a window on its way.
type loading struct {
	need     *lookup
	below    int64
	segments []pg.Hydrated // newest first
	records  int
}

// take keeps a page and returns the window if it is complete or as large as it may be.
func (at *loading) take(page []pg.Hydrated, limit int) *window {
	for _, s := range page {
		at.segments = append(at.segments, s)
		at.records += s.Count
	}
	complete := len(page) < limit
	if n := len(at.segments); n > 0 {
		at.below = at.segments[n-1].Base
		complete = complete || at.segments[n-1].Age > at.need.part.queue.options.dedupWindow()+windowSlack
	}
	if !complete && at.records < maxHydrated {
		return nil
	}
	return rebuilt(at.segments, complete, at.need.epoch)
}

// hydrate reads the windows of cold partitions: a first page of all in one round trip, then the long ones.
func (l *lane) hydrate(ctx context.Context, lookups []*lookup) (map[int64]*window, error) {
	open := make([]*loading, len(lookups))
	for i, need := range lookups {
		open[i] = &loading{need: need, below: math.MaxInt64}
	}
	windows := make(map[int64]*window, len(lookups))
	limit, parts := firstPage, firstPageParts
	for len(open) > 0 {
		chunk := open[:min(parts, len(open))]
		open = slices.Clone(open[len(chunk):])
		pages, err := l.readPages(ctx, chunk, limit)
		if err != nil {
			return nil, err
		}
		for i, at := range chunk {
			if w := at.take(pages[i], limit); w != nil {
				windows[at.need.part.partition.id] = w
			} else {
				open = append(open, at)
			}
		}
		limit, parts = nextPage, nextPageParts
	}
	return windows, nil
}

func (l *lane) readPages(ctx context.Context, chunk []*loading, limit int) ([][]pg.Hydrated, error) {
	ids, below := make([]int64, len(chunk)), make([]int64, len(chunk))
	byPartition := make(map[int64]int, len(chunk))
	for i, at := range chunk {
		ids[i], below[i] = at.need.part.partition.id, at.below
		byPartition[ids[i]] = i
	}
	rows, err := l.b.db.Hydrate(ctx, ids, below, limit)
	if err != nil {
		return nil, err
	}
	pages := make([][]pg.Hydrated, len(chunk))
	for _, row := range rows {
		i := byPartition[row.Partition]
		pages[i] = append(pages[i], row)
	}
	if len(rows) > 0 {
		l.tick(rows[0].CreatedAt.Add(rows[0].Age))
	}
	return pages, nil
}

// rebuilt makes a window of a partition's newest segments, given newest first.
func rebuilt(segments []pg.Hydrated, complete bool, epoch int64) *window {
	w := newWindow(0)
	if n := len(segments); n > 0 {
		w = newWindow(segments[n-1].Base)
	}
	if complete {
		w.covered = 0
	}
	covered := w.covered
	for _, s := range slices.Backward(segments) {
		w.add(s.Base, s.CreatedAt.UnixMicro(), s.IDs)
	}
	w.covered, w.epoch, w.used = covered, epoch, time.Now()
	return w
}

// catchUp reads what was appended since the window was last used; false when that is too much.
func (l *lane) catchUp(ctx context.Context, p *part) (near bool, err error) {
	w := p.partition.window
	before := w.bytes()
	defer func() { l.bytes.Add(int64(w.bytes() - before)) }()
	for range catchUpPages {
		page, err := l.b.db.IDsAfter(ctx, p.partition.id, w.head-1, nextPage)
		if err != nil {
			return false, err
		}
		for _, s := range page {
			w.add(s.Base, s.CreatedAt.UnixMicro(), s.IDs)
		}
		if len(page) < nextPage {
			w.used = time.Now()
			return true, nil
		}
	}
	return false, nil
}

// probe asks the database for single ids and leaves the answers with their groups and records.
func (l *lane) probe(ctx context.Context, need *lookup) error {
	l.b.metrics.idProbes.Add(float64(len(need.queries)))
	var queries []pg.IDQuery
	var asked []idQuery
	for _, q := range need.queries {
		if q.derived != nil {
			at, err := l.b.derivedPlace(ctx, *q.derived)
			if err != nil {
				return err
			}
			q.record.derivedAt, q.record.derivedAsked = at, true
			continue
		}
		queries = append(queries, pg.IDQuery{
			Partition: need.part.partition.id, Low: q.low, High: q.high, Hash: q.record.hash[:],
		})
		asked = append(asked, q)
	}
	if len(queries) > 0 {
		found, err := l.b.db.FindIDs(ctx, queries, need.part.queue.options.dedupWindow())
		if err != nil {
			return err
		}
		for _, f := range found {
			q := asked[f.Query]
			if q.group.probes == nil {
				q.group.probes = map[segment.Hash]*place{}
			}
			q.group.probes[q.record.hash] = &place{offset: f.Offset, micros: f.CreatedAt.UnixMicro()}
		}
	}
	for _, g := range need.part.groups {
		g.probed = need.below
	}
	return nil
}
