package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"waggle/pg"
)

const (
	// maxStreams bounds the stream queries of a tenant.
	maxStreams = 10_000
	// maxStateKey is what an index entry surely holds.
	maxStateKey = 1024
	// maxStateRows bounds one answer of state.
	maxStateRows = 100_000
)

var (
	// ErrNotFound says that a query or a partition is not the tenant's.
	ErrNotFound = errors.New("not found")
	// ErrStateTooLarge says that more rows match than one answer holds.
	ErrStateTooLarge = fmt.Errorf("more than %d rows match: narrow the question with keys, key_prefix or ripe_at_or_before", maxStateRows)
)

// What a stream query is, what became of its registration, and a row of its state.
type (
	StreamQuery        = pg.StreamQuery
	StreamRegistration = pg.StreamRegistration
	StateRow           = pg.StateRow
)

// RegisterStream makes or finds a stream query. ErrLimit when the tenant has too many.
func (b *Broker) RegisterStream(ctx context.Context, q StreamQuery, reset bool) (StreamRegistration, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	id, err := uuid.NewV7()
	if err != nil {
		return StreamRegistration{}, err
	}
	q.ID, q.Name, q.SourceQueue, q.ConfigHash = id, storableText(q.Name), storableText(q.SourceQueue), storableText(q.ConfigHash)
	if q.SinkQueue != nil {
		sink := storableText(*q.SinkQueue)
		q.SinkQueue = &sink
	}
	r, err := b.db.RegisterStream(ctx, q, reset, maxStreams)
	switch {
	case errors.Is(err, pg.ErrTooManyStreams):
		return r, fmt.Errorf("%w: %d stream queries", ErrLimit, maxStreams)
	case err != nil:
		return r, unavailable(err)
	}
	return r, nil
}

// StateRequest asks for rows of a query's state in one partition. Empty fields select all.
type StateRequest struct {
	Tenant      uuid.UUID
	QueryID     string
	PartitionID string
	Keys        []string
	Prefix      string
	RipeUpTo    *float64
}

// StreamState returns the rows in the order of their keys' bytes. ErrNotFound when query or partition is not the tenant's.
func (b *Broker) StreamState(ctx context.Context, r StateRequest) ([]StateRow, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	query, owner, err := b.streamPlace(ctx, r.Tenant, r.QueryID, r.PartitionID)
	if err != nil {
		return nil, err
	}
	filter := pg.StateFilter{Query: query, Partition: owner.partition.id, RipeUpTo: r.RipeUpTo, Limit: maxStateRows + 1}
	for _, key := range r.Keys {
		filter.Keys = append(filter.Keys, []byte(key))
	}
	if r.Prefix != "" {
		filter.Prefix = []byte(r.Prefix)
	}
	found, err := b.db.FindStream(ctx, query, r.Tenant)
	if err != nil {
		return nil, unavailable(err)
	}
	if !found {
		return nil, ErrNotFound
	}
	rows, err := b.db.StreamState(ctx, filter)
	switch {
	case err != nil:
		return nil, unavailable(err)
	case len(rows) > maxStateRows:
		return nil, ErrStateTooLarge
	}
	return rows, nil
}

// streamPlace resolves the ids of a stream call; the partition must be the tenant's.
func (b *Broker) streamPlace(ctx context.Context, tenant uuid.UUID, queryID, partitionID string) (uuid.UUID, *ackSet, error) {
	query, err := uuid.Parse(queryID)
	owner := &ackSet{partitionText: partitionID}
	if err != nil || owner.parse(b.ids) != "" {
		return query, nil, ErrNotFound
	}
	if err := b.findOwners(ctx, []*ackSet{owner}); err != nil {
		return query, nil, unavailable(err)
	}
	if owner.partition == nil || owner.queue == nil || owner.queue.tenant != tenant {
		return query, nil, ErrNotFound
	}
	return query, owner, nil
}

// Cycle is one step of a stream query on one partition: state, sink pushes and the source's ack in one transaction.
type Cycle struct {
	Tenant      uuid.UUID
	ProducerSub string
	QueryID     string
	PartitionID string
	Group       string
	State       []StateOp
	Pushes      []PushItem
	Ack         *CycleAck
	// Release ends the lease after a good ack; without it the cursor moves by Count records and the rest stays leased.
	Release bool
}

// StateOp stores a value under a key, or deletes the key when Value is nil.
type StateOp struct {
	Key   string
	Value []byte
}

// CycleAck is what a cycle says of the batch that it worked on.
type CycleAck struct {
	Lease string
	OK    bool
	Count int64
}

// CycleAnswer is what a committed cycle did.
type CycleAnswer struct {
	Queue         string
	Pushed        []CyclePush
	Count         int64
	LeaseReleased bool
}

// CyclePush is what became of the items of one partition. Base is the offset of the first that was stored, -1 when all
// were duplicates.
type CyclePush struct {
	Queue     string
	Partition string
	Base      int64
}

// Cycle commits all of c or nothing. ErrNotFound when query or partition is not the tenant's; a *Rollback says why nothing
// was done.
func (b *Broker) Cycle(ctx context.Context, c Cycle) (CycleAnswer, error) {
	bytes := 0
	for i := range c.Pushes {
		bytes += len(c.Pushes[i].Payload) + len(c.Pushes[i].TransactionID) + recordOverhead
	}
	leave, ok := b.room.enter(ctx, bytes)
	if !ok {
		return CycleAnswer{}, &Rollback{ReasonDatabase, "too many bytes wait for the database; nothing was done"}
	}
	defer leave()
	query, owner, err := b.streamPlace(ctx, c.Tenant, c.QueryID, c.PartitionID)
	if err != nil {
		return CycleAnswer{}, err
	}
	writes, deletes, err := lastOps(c.State)
	if err != nil {
		return CycleAnswer{}, err
	}
	pushed := make([]PushResult, len(c.Pushes))
	u := &bundle{b: b, tenant: c.Tenant, pushes: groupItems(c.Pushes, pushed, c.ProducerSub), dropDuplicates: true}
	answer := CycleAnswer{Queue: owner.queue.name}
	var source *bundleSet
	if c.Ack != nil {
		source = &bundleSet{ackSet: *owner, group: storableText(c.Group)}
		u.sets = []*bundleSet{source}
	}
	u.also = func(_ context.Context, tx *pg.BundleTx) error {
		if source != nil {
			if err := source.advance(tx, &c, &answer); err != nil {
				return err
			}
		}
		found, err := tx.HoldStream(query, c.Tenant, owner.partition.id)
		if err != nil {
			return err
		}
		if !found {
			return ErrNotFound
		}
		tx.WriteState(query, owner.partition.id, writes, deletes)
		return nil
	}
	if err := u.run(ctx); err != nil {
		if errors.Is(err, ErrNotFound) {
			return CycleAnswer{}, ErrNotFound
		}
		return CycleAnswer{}, u.failure(err)
	}
	b.metrics.pushed(pushed)
	answer.Pushed = u.pushedParts()
	return answer, nil
}

// advance moves the source's cursor, which the bundle has locked.
func (s *bundleSet) advance(tx *pg.BundleTx, c *Cycle, answer *CycleAnswer) error {
	cursor := s.cursor
	if c.Ack.Lease == "" || !holds(cursor, c.Ack.Lease) {
		return &Rollback{ReasonAckRejected, errLease}
	}
	d := decision{committed: cursor.Committed, release: true, retry: cursor.Retry, bury: -1}
	switch {
	case !c.Ack.OK:
		d.signalled = true
	case c.Release:
		d.committed, d.retry = max(cursor.BatchEnd, cursor.Committed), 0
	default:
		d.committed = min(cursor.Committed+max(c.Ack.Count, 0), cursor.BatchEnd)
		// When nothing is left there is nothing that the lease could hold back.
		if d.release = d.committed == cursor.BatchEnd; d.release {
			d.retry = 0
		}
	}
	s.decision = d
	answer.Count, answer.LeaseReleased = d.committed-cursor.Committed, d.release
	tx.Move(0, d.committed, d.release, d.retry)
	return nil
}

// lastOps keeps the last operation of each key: it is what the operations come to, in whatever order the others stand.
func lastOps(ops []StateOp) (writes []pg.StateWrite, deletes [][]byte, err error) {
	last := make(map[string]int, len(ops))
	for i, op := range ops {
		if len(op.Key) > maxStateKey {
			return nil, nil, &Rollback{ReasonDatabase, fmt.Sprintf("state key %d is longer than %d bytes", i, maxStateKey)}
		}
		last[op.Key] = i
	}
	for i, op := range ops {
		switch {
		case last[op.Key] != i:
		case op.Value == nil:
			deletes = append(deletes, []byte(op.Key))
		default:
			writes = append(writes, pg.StateWrite{Key: []byte(op.Key), Value: op.Value, WindowEnd: windowEnd(op.Value)})
		}
	}
	return writes, deletes, nil
}

// windowEnd is the value's windowEnd where it is an object that has one, as a number.
func windowEnd(value []byte) *float64 {
	var fields map[string]json.RawMessage
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &fields) != nil {
		return nil
	}
	var end *float64
	if json.Unmarshal(fields["windowEnd"], &end) != nil {
		return nil
	}
	return end
}

// pushedParts tells where the pushes of a committed bundle stand.
func (u *bundle) pushedParts() []CyclePush {
	out := make([]CyclePush, len(u.parts))
	at := 0
	for i, p := range u.parts {
		out[i] = CyclePush{Queue: p.queue.name, Partition: p.partition.name, Base: -1}
		if len(p.builders) > 0 {
			out[i].Base = u.appendings[at].Base
			at++
		}
	}
	return out
}
