package broker

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/broker/segment"
	"waggle/broker/wireid"
	"waggle/pg"
)

// dbTimeout bounds what a call does in the database outside of flushes.
const dbTimeout = 10 * time.Second

// ackSet is what one request says of one partition under one lease.
type ackSet struct {
	partitionText string
	leaseText     string
	// lease is zero when leaseText is empty or no lease id at all.
	lease   uuid.UUID
	indexes []int

	partitionID int64
	queue       *queue
	partition   *partition
}

// Ack says what became of messages, set by set: sets are independent, and each is one offset commit on its cursor.
func (b *Broker) Ack(ctx context.Context, tenant uuid.UUID, group string, items []AckItem) []AckResult {
	results := make([]AckResult, len(items))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dbTimeout)
	defer cancel()
	group = storableText(group)
	sets := b.ownedSets(ctx, tenant, items, results)
	slow := b.ackFromMemory(group, sets, items, results)
	if len(slow) > 0 {
		slow = b.ackFromPeek(ctx, group, slow, items, results)
	}
	for _, s := range slow {
		b.ackSlowly(ctx, s, group, items, results)
	}
	for _, s := range sets {
		s.queue.activity.acked(results, s.indexes)
		b.touched.add(s.partitionID)
	}
	b.metrics.acked(results)
	return results
}

func (s *ackSet) refuse(results []AckResult, text string) {
	for _, i := range s.indexes {
		results[i] = AckResult{Error: text}
	}
}

func (s *ackSet) completedOnly(items []AckItem) bool {
	for _, i := range s.indexes {
		if items[i].Status != AckCompleted {
			return false
		}
	}
	return true
}

// ownedSets groups the items and refuses those whose partition is not the tenant's.
func (b *Broker) ownedSets(ctx context.Context, tenant uuid.UUID, items []AckItem, results []AckResult) []*ackSet {
	type key struct{ partition, lease string }
	byKey := map[key]*ackSet{}
	var sets []*ackSet
	for i := range items {
		k := key{items[i].PartitionID, items[i].Lease}
		s := byKey[k]
		if s == nil {
			s = &ackSet{partitionText: k.partition, leaseText: k.lease}
			byKey[k] = s
			sets = append(sets, s)
		}
		s.indexes = append(s.indexes, i)
	}
	var named []*ackSet
	for _, s := range sets {
		if text := s.parse(b.ids); text != "" {
			s.refuse(results, text)
			continue
		}
		named = append(named, s)
	}
	if err := b.findOwners(ctx, named); err != nil {
		b.log.Warn("ack failed: partitions not resolved", zap.String("code", "WG0420"), zap.Error(err))
		for _, s := range named {
			s.refuse(results, errPool)
		}
		return nil
	}
	var owned []*ackSet
	for _, s := range named {
		if s.partition == nil || s.queue == nil || s.queue.tenant != tenant {
			s.refuse(results, errNotOwned)
			continue
		}
		owned = append(owned, s)
	}
	return owned
}

// parse reads the set's ids; a text is the refusal.
func (s *ackSet) parse(ids *wireid.Codec) string {
	wire, err := uuid.Parse(s.partitionText)
	if err != nil {
		return "invalid input syntax for type uuid: \"" + s.partitionText + "\""
	}
	var ok bool
	if s.partitionID, ok = ids.OpenPartition(wire); !ok {
		return errNotOwned
	}
	if lease, err := uuid.Parse(s.leaseText); err == nil {
		s.lease = lease
	}
	return ""
}

// findOwners reads what is not remembered of the sets' partitions and queues, all of it at once.
func (b *Broker) findOwners(ctx context.Context, sets []*ackSet) error {
	ids := make([]int64, len(sets))
	for i, s := range sets {
		ids[i] = s.partitionID
	}
	partitions, err := b.catalog.partitionsByID(ctx, ids)
	if err != nil {
		return err
	}
	ids = ids[:0]
	for _, s := range sets {
		if s.partition = partitions[s.partitionID]; s.partition != nil {
			ids = append(ids, s.partition.queue)
		}
	}
	queues, err := b.catalog.queuesByID(ctx, ids)
	if err != nil {
		return err
	}
	for _, s := range sets {
		if s.partition != nil {
			s.queue = queues[s.partition.queue]
		}
	}
	return nil
}

var (
	// errStaleLease rolls back an ack whose lease is not the row's live one.
	errStaleLease = errors.New(errLease)
	// errOptions rolls back an ack whose queue has other options than this broker knows.
	errOptions = errors.New("queue options changed")
	// errMoved rolls back an ack whose cursor is not as it was when its offsets were looked up.
	errMoved = errors.New("cursor moved")
)

// maxAckTries is how often offsets are looked up before the lock is taken; then they are looked up under it.
const maxAckTries = 3

// ackSlowly serves everything that a flush cannot. Offsets are looked up first, then the cursor is locked; a cursor
// that moved between the two makes the look-up worthless.
func (b *Broker) ackSlowly(ctx context.Context, s *ackSet, group string, items []AckItem, results []AckResult) {
	var d decision
	var cursor pg.Cursor
	var closed *SealedError
	err := errMoved
	for try := 1; errors.Is(err, errMoved) || errors.Is(err, errOptions); try++ {
		if errors.Is(err, errOptions) {
			if err = b.readOptionsAgain(ctx, s); err != nil {
				break
			}
		}
		if try > maxAckTries {
			d, cursor, err = b.ackUnderLock(ctx, s, group, func(tx *pg.AckTx, state cursorState) ([]resolved, error) {
				return resolveInLog(ctx, tx, s, items, state)
			})
			continue
		}
		d, cursor, err = b.ackLookedUp(ctx, s, group, items)
	}
	switch {
	case errors.Is(err, errStaleLease):
		s.refuse(results, errLease)
		return
	case errors.Is(err, pg.ErrNoCursor):
		s.refuse(results, errNoConsumer)
		return
	case errors.As(err, &closed):
		s.refuse(results, closed.ClientText())
		return
	case err != nil:
		b.log.Error("ack failed", zap.String("code", "WG0421"), zap.Error(err), zap.String("queue", s.queue.name))
		s.refuse(results, errAckFlush)
		return
	}
	for k, i := range s.indexes {
		results[i] = d.results[k]
	}
	if d.bury >= 0 {
		b.metrics.deadLetters.Inc()
		s.queue.activity.letters.Add(1)
	}
	b.conflated(s.queue, stateOf(cursor), d)
	if d.release {
		b.leases.end(cursor.Lease, cursor.ID)
		b.watch.released(s.queue, s.partition, cursor.Group, d.committed, d.signalled)
		// Others may have pops parked that know this lease only as one to wait for.
		b.hints.Wake(s.queue.tenant, s.queue.name, s.partition.name)
	}
}

func (b *Broker) readOptionsAgain(ctx context.Context, s *ackSet) error {
	q, err := b.catalog.reload(ctx, s.queue.id)
	if err != nil {
		return err
	}
	if q == nil {
		return pg.ErrNoCursor
	}
	s.queue = q
	return nil
}

// ackLookedUp looks offsets up without a lock, on one of a few connections, and decides under the lock.
func (b *Broker) ackLookedUp(ctx context.Context, s *ackSet, group string, items []AckItem) (decision, pg.Cursor, error) {
	cursors, err := b.db.PeekCursors(ctx, []int64{s.queue.id}, []int64{s.partition.id}, group)
	if err != nil {
		return decision{}, pg.Cursor{}, err
	}
	seen := cursors[0]
	switch {
	case seen.ID == 0:
		return decision{}, seen, pg.ErrNoCursor
	case s.leaseText != "" && (!seen.Live || seen.Lease != s.lease):
		return decision{}, seen, errStaleLease
	}
	list, err := b.lookUpOffsets(ctx, s, items, stateOf(seen))
	if err != nil {
		return decision{}, seen, err
	}
	return b.ackUnderLock(ctx, s, group, func(tx *pg.AckTx, _ cursorState) ([]resolved, error) {
		now := tx.Cursor
		if now.ID != seen.ID || now.Committed != seen.Committed || now.BatchEnd != seen.BatchEnd || now.Live != seen.Live ||
			now.Lease != seen.Lease {
			return nil, errMoved
		}
		return list, nil
	})
}

func (b *Broker) lookUpOffsets(ctx context.Context, s *ackSet, items []AckItem, state cursorState) ([]resolved, error) {
	select {
	case b.lookups <- struct{}{}:
		defer func() { <-b.lookups }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return resolveInLog(ctx, b.db, s, items, state)
}

func stateOf(c pg.Cursor) cursorState {
	return cursorState{committed: c.Committed, batchEnd: c.BatchEnd, live: c.Live, retry: c.Retry, conflates: c.Conflation}
}

// ackUnderLock holds the cursor's row while the rules decide.
func (b *Broker) ackUnderLock(ctx context.Context, s *ackSet, group string,
	resolve func(*pg.AckTx, cursorState) ([]resolved, error),
) (d decision, cursor pg.Cursor, err error) {
	err = b.db.AckSet(ctx, s.queue.id, s.partition.id, group, func(tx *pg.AckTx) error {
		cursor = tx.Cursor
		state := stateOf(cursor)
		if s.leaseText != "" && (!cursor.Live || cursor.Lease != s.lease) {
			return errStaleLease
		}
		if cursor.QueueVersion != s.queue.version {
			return errOptions
		}
		list, err := resolve(tx, state)
		if err != nil {
			return err
		}
		o := s.queue.options
		d = decideAck(state, list, o.RetryLimit, o.DeadLetterQueue || o.DLQAfterMaxRetries)
		if d.bury >= 0 {
			if err := b.bury(ctx, tx, s, group, d); err != nil {
				return err
			}
		}
		if d.committed == state.committed && !d.release && d.retry == state.retry {
			return nil
		}
		return tx.Write(d.committed, d.release, d.retry)
	})
	return d, cursor, err
}

// bury copies the poisoned record into a dead letter.
func (b *Broker) bury(ctx context.Context, tx *pg.AckTx, s *ackSet, group string, d decision) error {
	refs, err := tx.IDsAfter(ctx, s.partition.id, d.bury-1, 1)
	if err != nil || len(refs) == 0 {
		return err
	}
	i := int(d.bury - refs[0].Base)
	if i < 0 || i >= refs[0].Count {
		return nil
	}
	stored, err := tx.Segment(s.partition.id, refs[0].Base)
	if err != nil {
		return err
	}
	if stored.Body == nil {
		// Retention was faster: there is nothing left to keep.
		return nil
	}
	decoded, err := b.openOne(s.queue.id, s.partition.id, &stored, i)
	if err != nil {
		return b.unreadable(s.queue, err)
	}
	m, err := messageAt(decoded, 0, stored.CreatedAt, d.bury, s.partition.id)
	if err != nil {
		return err
	}
	letter := pg.DeadLetter{
		Queue: s.queue.id, Partition: s.partition.id, Group: group, Offset: d.bury, MessageID: m.ID,
		TransactionID: storableText(m.TransactionID), ProducerSub: storableText(m.ProducerSub), Payload: m.Payload,
		Error: d.cause, RetryCount: tx.Cursor.Retry, PushedAt: stored.CreatedAt,
	}
	if err := b.letterPayload(s.queue, &letter, segment.IsSealed(stored.Body)); err != nil {
		return err
	}
	return tx.Bury(letter)
}

// Extend renews a lease on every cursor that it still holds.
func (b *Broker) Extend(ctx context.Context, tenant uuid.UUID, lease string, seconds int) (ExtendResult, error) {
	id, err := uuid.Parse(lease)
	if err != nil {
		return ExtendResult{}, nil
	}
	cursor, ok := wireid.ParseLease(id)
	if !ok {
		return ExtendResult{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	renewed, expires, err := b.db.ExtendLease(ctx, tenant, id, cursor, min(max(seconds, 1), math.MaxInt32))
	if err != nil {
		return ExtendResult{}, err
	}
	return ExtendResult{Renewed: renewed, ExpiresAt: expires}, nil
}
