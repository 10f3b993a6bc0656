package broker

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
)

// Operation is one step of a transaction: a push, or an ack in the name of Group.
type Operation struct {
	Push  *PushItem
	Ack   *AckItem
	Group string
}

// Transaction is pushes and acks that happen together or not at all.
type Transaction struct {
	Tenant      uuid.UUID
	ProducerSub string
	Operations  []Operation
	// RequiredLeases stand for acks that name no lease.
	RequiredLeases []string
}

// OperationResult stands at the same index as its operation. Duplicate is a push that repeats the transaction id of an
// earlier one of the same transaction, and carries its message id.
type OperationResult struct {
	TransactionID string
	MessageID     uuid.UUID
	Duplicate     bool
	DLQ           bool
}

// Transact commits the operations in one transaction of the database and then wakes who waits for what was pushed. An
// error of type *Rollback says why nothing was done; any other, that the database could not be reached.
func (b *Broker) Transact(ctx context.Context, t Transaction) ([]OperationResult, error) {
	var items []PushItem
	var acks []AckItem
	var groups []string
	for i := range t.Operations {
		switch o := &t.Operations[i]; {
		case o.Push != nil:
			items = append(items, *o.Push)
		default:
			acks, groups = append(acks, *o.Ack), append(groups, storableText(o.Group))
		}
	}
	bytes := 0
	for i := range items {
		bytes += len(items[i].Payload) + len(items[i].TransactionID) + recordOverhead
	}
	leave, ok := b.room.enter(ctx, bytes)
	if !ok {
		return nil, &Rollback{ReasonDatabase, "too many bytes wait for the database; nothing was done"}
	}
	defer leave()
	required := distinct(t.RequiredLeases)
	pushed := make([]PushResult, len(items))
	u := &bundle{
		b: b, tenant: t.Tenant, pushes: groupItems(items, pushed, t.ProducerSub), acks: acks, sets: ackSets(acks, groups, required),
	}
	err := u.own(ctx)
	if err == nil {
		err = u.run(ctx)
	}
	if err != nil {
		err = u.failure(err)
		b.metrics.transacted(err)
		return nil, err
	}
	b.metrics.transacted(nil)
	u.count()
	b.metrics.pushed(pushed)
	return u.results(t.Operations, pushed), nil
}

func distinct(texts []string) []string {
	var out []string
	for _, text := range texts {
		if text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

func (u *bundle) results(operations []Operation, pushed []PushResult) []OperationResult {
	acked := make([]AckResult, len(u.acks))
	for _, s := range u.sets {
		for k, i := range s.indexes {
			acked[i] = s.decision.results[k]
		}
	}
	u.b.metrics.acked(acked)
	results := make([]OperationResult, len(operations))
	for i, nextPush, nextAck := 0, 0, 0; i < len(operations); i++ {
		if operations[i].Push == nil {
			results[i] = OperationResult{TransactionID: u.acks[nextAck].TransactionID, DLQ: acked[nextAck].DLQ}
			nextAck++
			continue
		}
		r := &pushed[nextPush]
		results[i] = OperationResult{TransactionID: r.TransactionID, MessageID: r.MessageID, Duplicate: r.Status == Duplicate}
		nextPush++
	}
	return results
}

// count notes the transaction with the queues that it touched.
func (u *bundle) count() {
	u.b.bundled.Add(1)
	for _, p := range u.parts {
		p.queue.activity.pushed(len(p.records))
		p.queue.activity.transactions.Add(1)
	}
	for _, s := range u.sets {
		s.queue.activity.ackRequests.Add(1)
		s.queue.activity.ackSuccess.Add(int64(len(s.indexes)))
		s.queue.activity.all.ackRequests.Add(1)
		s.queue.activity.all.ackMessages.Add(int64(len(s.indexes)))
		s.queue.activity.transactions.Add(1)
	}
}

// transacted counts a transaction by how it ended.
func (m *metrics) transacted(err error) {
	var rollback *Rollback
	switch {
	case err == nil:
		m.transactions.WithLabelValues("committed").Inc()
	case errors.As(err, &rollback) && rollback.Reason != ReasonDatabase:
		m.transactions.WithLabelValues("rolled_back").Inc()
	default:
		m.transactions.WithLabelValues("failed").Inc()
	}
}
