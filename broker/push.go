package broker

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/broker/segment"
	"waggle/broker/wireid"
)

// pushGroup is what one request appends to one partition: the unit of commit. It belongs to the request until it is
// given to a lane, then to whoever processes it, and comes back with done.
type pushGroup struct {
	queue     *queue
	partition *partition
	records   []*pushRecord
	bytes     int
	tries     int
	placed    int // how often its queue or partition had to be found again
	// probes holds what the database said of hashes that the window could not decide; probed is the offset below
	// which it was asked.
	probes map[segment.Hash]*place
	probed int64
	done   func()
	// check is set for a group of a bundle, which goes through the lane only to be compared with what is stored.
	check *windowCheck
}

// pushRecord is one message on its way into the log. Followers are further items with the same transaction id.
type pushRecord struct {
	encoded   []byte
	hash      segment.Hash
	result    *PushResult
	followers []*PushResult
	// derived is set when the transaction id reads as a message id; derivedAt is the record that it names, once asked.
	derived      *wireid.Place
	derivedAt    *place
	derivedAsked bool
	// leader is a record of another group in the same flush that has the same transaction id and came first.
	leader *pushRecord
}

func (r *pushRecord) queued(id uuid.UUID) {
	r.result.MessageID, r.result.Status = id, Queued
	if r.hash == (segment.Hash{}) {
		r.result.TransactionID = id.String()
	}
	r.follow(id, Duplicate)
}

func (r *pushRecord) duplicate(id uuid.UUID) {
	r.result.MessageID, r.result.Status = id, Duplicate
	r.follow(id, Duplicate)
}

func (r *pushRecord) failed() {
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New()
	}
	r.result.MessageID, r.result.Status = id, Failed
	if r.hash == (segment.Hash{}) {
		r.result.TransactionID = id.String()
	}
	r.follow(id, Failed)
}

func (r *pushRecord) follow(id uuid.UUID, status PushStatus) {
	for _, f := range r.followers {
		f.MessageID, f.Status = id, status
	}
}

func (g *pushGroup) fail() {
	for _, r := range g.records {
		r.failed()
	}
	g.done()
}

// Push stores the items, each (queue, partition) group of them whole or not at all, and answers at the same indexes.
// It returns when every group is on disk, refused or failed; the context only bounds the wait for room.
func (b *Broker) Push(ctx context.Context, tenant uuid.UUID, producerSub string, items []PushItem) []PushResult {
	results := make([]PushResult, len(items))
	defer func() { b.metrics.pushed(results) }()
	bytes := 0
	for i := range items {
		bytes += len(items[i].Payload) + len(items[i].TransactionID) + recordOverhead
	}
	leave, ok := b.room.enter(ctx, bytes)
	if !ok {
		b.log.Warn("push refused, too many bytes wait", zap.String("code", "WG0401"), zap.Int("bytes", bytes))
		refuseAll(items, results)
		return results
	}
	defer leave()
	groups := groupItems(items, results, producerSub)
	setup, cancel := context.WithTimeout(b.ctx, dbTimeout)
	ready := b.resolveGroups(setup, tenant, groups)
	cancel()
	var pending sync.WaitGroup
	pending.Add(len(ready))
	for _, g := range ready {
		g.done = pending.Done
		g.partition.lane.push(g)
	}
	pending.Wait()
	for _, g := range ready {
		g.queue.activity.pushed(len(g.records))
	}
	return results
}

func refuseAll(items []PushItem, results []PushResult) {
	for i := range items {
		results[i].TransactionID = items[i].TransactionID
		r := pushRecord{result: &results[i]}
		if items[i].HasTransactionID {
			r.hash = segment.HashOf(items[i].TransactionID)
		}
		r.failed()
	}
}

type namedGroup struct {
	queue, partition string
	pushGroup
	leaders map[segment.Hash]*pushRecord
}

// recordOverhead is about what the stored form of a record adds to payload and transaction id.
const recordOverhead = 16

// groupItems sorts the items into their groups and encodes them, all into one piece of memory.
func groupItems(items []PushItem, results []PushResult, producerSub string) []*namedGroup {
	size := 0
	for i := range items {
		size += len(items[i].Payload) + len(items[i].TransactionID) + len(producerSub) + recordOverhead
	}
	e := encoding{producerSub: producerSub, arena: make([]byte, 0, size), records: make([]pushRecord, len(items))}
	var groups []*namedGroup
	var last *namedGroup
	type name struct{ queue, partition string }
	var byName map[name]*namedGroup
	for i := range items {
		item := &items[i]
		if last == nil || last.queue != item.Queue || last.partition != item.Partition {
			var known *namedGroup
			if len(groups) > 0 {
				if byName == nil {
					byName = map[name]*namedGroup{{last.queue, last.partition}: last}
				}
				known = byName[name{item.Queue, item.Partition}]
			}
			if last = known; last == nil {
				last = &namedGroup{queue: item.Queue, partition: item.Partition}
				groups = append(groups, last)
				if byName != nil {
					byName[name{item.Queue, item.Partition}] = last
				}
			}
		}
		last.add(&e, items[i:], &results[i])
	}
	return groups
}

// encoding is the memory that the records of one request share.
type encoding struct {
	producerSub string
	arena       []byte
	records     []pushRecord
}

func (e *encoding) next(item *PushItem, hash segment.Hash, result *PushResult) *pushRecord {
	record := segment.Record{ProducerSub: e.producerSub, TraceID: item.TraceID, Payload: item.Payload}
	if item.HasTransactionID {
		record.TransactionID = &item.TransactionID
	}
	begin := len(e.arena)
	e.arena = segment.AppendRecord(e.arena, &record)
	r := &e.records[0]
	e.records = e.records[1:]
	r.encoded, r.hash, r.result = e.arena[begin:len(e.arena):len(e.arena)], hash, result
	if item.HasTransactionID && len(item.TransactionID) == 36 && item.TransactionID[14] == '7' {
		r.derived = derivedFrom(item.TransactionID)
	}
	return r
}

// run is how many items from the first on are of one group.
func run(items []PushItem) int {
	n := 1
	for n < len(items) && items[n].Queue == items[0].Queue && items[n].Partition == items[0].Partition {
		n++
	}
	return n
}

// add encodes the first of the items, or makes it follow the first of the group with its transaction id. The others
// are still to come, to this group or to another.
func (g *namedGroup) add(e *encoding, items []PushItem, result *PushResult) {
	item := &items[0]
	if g.records == nil {
		g.records = make([]*pushRecord, 0, run(items))
	}
	var hash segment.Hash
	if item.HasTransactionID {
		result.TransactionID = item.TransactionID
		hash = segment.HashOf(item.TransactionID)
		if leader := g.leaders[hash]; leader != nil {
			leader.followers = append(leader.followers, result)
			return
		}
	}
	r := e.next(item, hash, result)
	if item.HasTransactionID && (len(items) > 1 || g.leaders != nil) {
		if g.leaders == nil {
			g.leaders = make(map[segment.Hash]*pushRecord, cap(g.records))
		}
		g.leaders[hash] = r
	}
	g.records = append(g.records, r)
	g.bytes += len(r.encoded)
}

// derivedFrom reads a text as a message id, in the one spelling that ids have.
func derivedFrom(transactionID string) *wireid.Place {
	id, err := uuid.Parse(transactionID)
	if err != nil || id.String() != transactionID {
		return nil
	}
	at, ok := wireid.ParseMessage(id)
	if !ok {
		return nil
	}
	return &at
}

func failGroups(groups []*namedGroup) {
	for _, g := range groups {
		g.done = func() {}
		g.fail()
	}
}

// resolveGroups finds or makes queues and partitions. Groups that cannot be stored are failed and left out.
func (b *Broker) resolveGroups(ctx context.Context, tenant uuid.UUID, groups []*namedGroup) []*pushGroup {
	if ready := b.resolveCached(tenant, groups); ready != nil {
		return ready
	}
	groups = b.failUnstorable(groups)
	keys := make([]queueKey, len(groups))
	for i, g := range groups {
		keys[i] = queueKey{tenant, g.queue}
		if q := b.catalog.cached(keys[i]); q != nil && b.refusesClearText(q) {
			b.catalog.outdated(q) // another broker may have switched it off; no flush would tell, as none is sent
		}
	}
	// A queue that vanishes between the two steps is made once more.
	for range maxPlacings {
		queues, err := b.catalog.ensure(ctx, keys)
		if err != nil && !errors.Is(err, ErrLimit) {
			b.log.Error("queues of a push not resolved", zap.String("code", "WG0402"), zap.Error(err))
			failGroups(groups)
			return nil
		}
		names := make([]partitionKey, 0, len(groups))
		for i, g := range groups {
			if q := queues[keys[i]]; q != nil {
				g.pushGroup.queue = q
				names = append(names, partitionKey{q.id, g.partition})
			}
		}
		partitions, err2 := b.catalog.ensurePartitions(ctx, tenant, names)
		if err2 != nil && !errors.Is(err2, ErrLimit) {
			b.log.Error("partitions of a push not resolved", zap.String("code", "WG0403"), zap.Error(err2))
			failGroups(groups)
			return nil
		}
		complete := true
		for _, g := range groups {
			if g.pushGroup.queue == nil {
				complete = false
				continue
			}
			g.pushGroup.partition = partitions[partitionKey{g.pushGroup.queue.id, g.partition}]
			if g.pushGroup.partition == nil && err2 == nil {
				complete = false
				b.catalog.outdated(g.pushGroup.queue)
			}
		}
		if limited := errors.Join(err, err2); limited != nil {
			b.log.Warn("push failed in part: a limit of the tenant is reached", zap.String("code", "WG0404"), zap.Stringer("tenant", tenant), zap.Error(limited))
			break
		}
		if complete {
			break
		}
	}
	var ready []*pushGroup
	groups = slices.DeleteFunc(groups, func(g *namedGroup) bool {
		if g.pushGroup.queue == nil || g.pushGroup.partition == nil || b.refusesClearText(g.pushGroup.queue) {
			return false
		}
		ready = append(ready, &g.pushGroup)
		return true
	})
	if len(groups) > 0 {
		b.log.Warn("push failed in part: queues or partitions not made", zap.String("code", "WG0405"), zap.Int("groups", len(groups)))
	}
	failGroups(groups)
	return ready
}

// failUnstorable fails the groups whose names storage cannot hold, so that they do not spoil the statement of the rest.
func (b *Broker) failUnstorable(groups []*namedGroup) []*namedGroup {
	kept := groups[:0]
	for _, g := range groups {
		if storableName(g.queue) && storableName(g.partition) {
			kept = append(kept, g)
			continue
		}
		b.log.Warn("push failed: a name cannot be stored", zap.String("code", "WG0406"), zap.Error(errName))
		failGroups([]*namedGroup{g})
	}
	return kept
}

// resolveCached serves the usual case: every queue and partition is remembered and takes what this broker can store. Nil
// otherwise.
func (b *Broker) resolveCached(tenant uuid.UUID, groups []*namedGroup) []*pushGroup {
	ready := make([]*pushGroup, len(groups))
	for i, g := range groups {
		q := b.catalog.cached(queueKey{tenant, g.queue})
		if q == nil || b.refusesClearText(q) {
			return nil
		}
		p := b.catalog.cachedPartition(partitionKey{q.id, g.partition})
		if p == nil {
			return nil
		}
		g.pushGroup.queue, g.pushGroup.partition = q, p
		ready[i] = &g.pushGroup
	}
	return ready
}
