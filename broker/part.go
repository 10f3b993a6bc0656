package broker

import (
	"context"
	"math"
	"time"

	"go.uber.org/zap"

	"waggle/broker/segment"
	"waggle/broker/wireid"
	"waggle/pg"
)

// part is everything that a flight appends to one partition.
type part struct {
	queue     *queue
	partition *partition
	groups    []*pushGroup
	builders  []*segment.Builder
	bodies    [][]byte // of the builders, where the queue is encrypted
	// records are those that are appended; tied ones share the fate of one of them; stored already are the duplicates.
	records    []*pushRecord
	tied       []*pushRecord
	duplicates []duplicate
	// gone says that the partition's row is not there any more.
	gone bool

	// known and epoch serve a bundle, which stands outside the lane: the head up to which the ids were compared, and of
	// which window.
	known, epoch int64
}

// duplicate is a record that stands in the log already, and its id there.
type duplicate struct {
	record *pushRecord
	id     [16]byte
}

func (p *part) add(g *pushGroup) {
	if p.queue == nil || g.queue.version > p.queue.version {
		p.queue = g.queue
	}
	p.groups = append(p.groups, g)
}

func (p *part) dedups() bool { return p.queue.options.DedupWindowSeconds > 0 }

// oldest is the created time from which on a record counts as a duplicate.
func (p *part) oldest(l *lane) int64 {
	return l.micros() - p.queue.options.dedupWindow().Microseconds()
}

// build fills the part's segments with the records that are not known to be duplicates; false when none is left. Nobody
// is answered yet: what is remembered of the queue may be older than its last configuration or deletion.
func (p *part) build(l *lane) bool {
	p.builders, p.records, p.tied, p.duplicates = nil, nil, nil, nil
	w, oldest := l.windowOf(p.partition), p.oldest(l)
	if !p.dedups() {
		w = nil
	}
	var leaders map[segment.Hash]*pushRecord
	if p.dedups() && len(p.groups) > 1 {
		leaders = map[segment.Hash]*pushRecord{}
	}
	bytes := 0
	for _, g := range p.groups {
		bytes += g.bytes
		for _, r := range g.records {
			r.leader = nil
			if w != nil && r.hash != (segment.Hash{}) {
				if id, found := p.stands(w, g, r, oldest); found {
					p.duplicates = append(p.duplicates, duplicate{r, id})
					continue
				}
			}
			if leaders != nil && r.hash != (segment.Hash{}) {
				if r.leader = leaders[r.hash]; r.leader != nil {
					p.tied = append(p.tied, r)
					continue
				}
				leaders[r.hash] = r
			}
			p.records = append(p.records, r)
		}
	}
	if len(p.records) == 0 {
		return false
	}
	p.pack(bytes)
	return true
}

// pack fills segments with the records, which take about so many bytes.
func (p *part) pack(bytes int) {
	b := &segment.Builder{}
	b.Grow(min(len(p.records), segment.MaxRecords), min(bytes, segment.MaxBytes))
	for _, r := range p.records {
		if !b.Fits(len(r.encoded)) {
			p.builders = append(p.builders, b)
			b = &segment.Builder{}
		}
		b.AppendEncoded(r.encoded, r.hash)
	}
	p.builders = append(p.builders, b)
}

// body is the stored form of the i-th segment.
func (p *part) body(i int) []byte {
	if p.queue.options.EncryptionEnabled {
		return p.bodies[i]
	}
	return p.partition.packer.Body(p.builders[i], p.queue.format)
}

// stands tells whether the record is stored already, and its id: only from commits that are known. A recorded
// transaction id comes before the message id of a record without one.
func (p *part) stands(w *window, g *pushGroup, r *pushRecord, oldest int64) (id [16]byte, found bool) {
	at, exact, _, _ := w.find(r.hash, math.MaxInt64)
	switch {
	case exact:
	case g.probes[r.hash] != nil:
		at = *g.probes[r.hash]
	case r.derivedAt != nil:
		at = *r.derivedAt
	default:
		return id, false
	}
	if at.micros < oldest {
		return id, false
	}
	// A place that has no id gets the zero id, as the contract has it for an original that cannot be read back.
	id, _ = wireid.Message(time.UnixMicro(at.micros), at.offset, p.partition.id)
	return id, true
}

// stored answers the part's groups.
func (p *part) stored(l *lane, a *pg.Appending) {
	p.partition.skips = 0
	p.publish(l.b, a)
	p.done()
}

// publish fills in the results of what was appended, keeps its segments for pops, and tells who waits.
func (p *part) publish(b *Broker, a *pg.Appending) {
	offset, base := a.Base, a.Base
	for _, s := range p.builders {
		b.tail.add(p.partition.id, base, a.CreatedAt, s.Segment(), s.IDs())
		base += int64(s.Len())
	}
	for _, r := range p.records {
		id, err := wireid.Message(a.CreatedAt, offset, p.partition.id)
		if err != nil {
			b.log.Error("stored a message whose place has no id", zap.String("code", "WG0411"), zap.Error(err))
		}
		r.queued(id)
		offset++
	}
	for _, r := range p.tied {
		r.duplicate(r.leader.result.MessageID)
	}
	b.watch.written(p.queue, p.partition, offset-1)
	b.hints.Wake(p.queue.tenant, p.queue.name, p.partition.name)
}

// done answers the part's duplicates, and with them its groups.
func (p *part) done() {
	for _, d := range p.duplicates {
		d.record.duplicate(d.id)
	}
	for _, g := range p.groups {
		g.done()
	}
}

// confirm answers parts that hold nothing but duplicates, and were taken aside: there is no append that would notice a
// queue that was deleted or configured elsewhere meanwhile.
func (l *lane) confirm(parts []*part) {
	ctx, cancel := context.WithTimeout(l.b.ctx, dbTimeout)
	defer cancel()
	ids := make([]int64, len(parts))
	for i, p := range parts {
		ids[i] = p.queue.id
	}
	rows, err := l.b.db.QueuesByID(ctx, ids)
	if err != nil {
		l.b.log.Error("push failed: the queue of duplicates not read", zap.String("code", "WG0412"), zap.Error(err))
	}
	versions := make(map[int64]int64, len(rows))
	for _, row := range rows {
		versions[row.ID] = row.Version
	}
	var moved []*part
	for _, p := range parts {
		version, there := versions[p.queue.id]
		switch {
		case err != nil:
			for _, g := range p.groups {
				g.fail()
			}
		case version != p.queue.version:
			p.gone = !there
			moved = append(moved, p)
			continue
		default:
			p.done()
		}
		l.land(p.partition, nil, nil)
	}
	l.resolveAgain(moved)
}

func (p *part) skippedTooOften() bool {
	at := p.partition
	if at.skips == 0 {
		at.skipped = time.Now()
	}
	at.skips++
	return at.skips >= maxSkips || time.Since(at.skipped) > maxSkipTime
}

// derivedPlace checks that a record stands where a message id points and that it has no id of its own; nil otherwise.
func (b *Broker) derivedPlace(ctx context.Context, at wireid.Place) (*place, error) {
	found, err := b.db.IDsBetween(ctx, []int64{at.Partition}, []int64{at.Offset - 1}, []int64{at.Offset})
	if err != nil {
		return nil, err
	}
	for _, s := range found[0] {
		if at.Offset < s.Base || at.Offset >= s.Base+int64(s.Count) || s.CreatedAt.UnixMilli() != at.Millis {
			continue
		}
		i := int(at.Offset-s.Base) * segment.HashSize
		if segment.Hash(s.IDs[i:i+segment.HashSize]) == (segment.Hash{}) {
			return &place{offset: at.Offset, micros: s.CreatedAt.UnixMicro()}, nil
		}
	}
	return nil, nil
}

// resolveAgain serves parts whose queue or partition changed under them: it reads them again and lets the groups try.
func (l *lane) resolveAgain(parts []*part) {
	ctx, cancel := context.WithTimeout(l.b.ctx, dbTimeout)
	defer cancel()
	for _, p := range parts {
		if p.gone {
			l.b.catalog.dropPartition(p.partition)
		}
		l.b.catalog.outdated(p.queue)
		groups := append([]*pushGroup(nil), p.groups...)
		l.mu.Lock()
		groups = append(groups, p.partition.waiting...)
		p.partition.waiting = nil
		if p.gone {
			l.setWindow(p.partition, nil)
		}
		l.mu.Unlock()
		for _, g := range groups {
			l.b.placeAgain(ctx, g, p.partition.name)
		}
		l.land(p.partition, nil, nil)
	}
}

// forgetLooks makes the group's records be looked up anew.
func (g *pushGroup) forgetLooks() {
	g.probes, g.probed = nil, 0
	for _, r := range g.records {
		r.derivedAt, r.derivedAsked = nil, false
	}
}

// maxPlacings bounds how often a group is placed again because its queue was deleted or configured under it.
const maxPlacings = 50

// placeAgain finds or makes the group's queue and partition once more and sends it there.
func (b *Broker) placeAgain(ctx context.Context, g *pushGroup, name string) {
	g.forgetLooks()
	if g.placed++; g.placed > maxPlacings {
		b.log.Error("push failed: its queue keeps changing", zap.String("code", "WG0413"), zap.String("queue", g.queue.name))
		g.fail()
		return
	}
	queues, err := b.catalog.ensure(ctx, []queueKey{g.queue.queueKey})
	if err == nil && queues[g.queue.queueKey] != nil {
		g.queue = queues[g.queue.queueKey]
		var partitions map[partitionKey]*partition
		partitions, err = b.catalog.ensurePartitions(ctx, g.queue.tenant, []partitionKey{{g.queue.id, name}})
		g.partition = partitions[partitionKey{g.queue.id, name}]
	}
	switch {
	case err != nil:
		b.log.Error("push failed: its queue was not resolved", zap.String("code", "WG0414"), zap.Error(err))
		g.fail()
	case g.partition == nil:
		b.catalog.outdated(g.queue)
		b.placeAgain(ctx, g, name)
	case b.refusesClearText(g.queue):
		g.fail()
	default:
		g.partition.lane.push(g)
	}
}
