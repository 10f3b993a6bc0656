package broker

import (
	"context"
	"errors"
	"strconv"

	"github.com/google/uuid"

	"waggle/broker/segment"
	"waggle/broker/wireid"
	"waggle/pg"
)

// ReplayRequest names a dead letter, by its own id or by its message. Queue and Partition, where they are not nil, say
// where it goes instead of where it came from.
type ReplayRequest struct {
	Tenant        uuid.UUID
	ID            string
	PartitionID   string
	TransactionID string
	Queue         *string
	Partition     *string
}

// Replayed is a dead letter that is a message again. Duplicate says that an earlier replay had written it.
type Replayed struct {
	ID            int64
	Queue         string
	Partition     string
	Group         string
	TransactionID string

	As        PushResult
	Offset    int64
	Duplicate bool
}

// ErrNoDeadLetter says that there is no such dead letter, or not any more.
var ErrNoDeadLetter = errors.New("no such dead letter")

// Replay moves a dead letter back into a log: it appends the message, for all groups, and removes the row in one
// transaction. The new message's transaction id follows from the row, so that nothing is written twice.
func (b *Broker) Replay(ctx context.Context, r ReplayRequest) (Replayed, error) {
	letter, err := b.findLetter(ctx, r)
	if err != nil {
		return Replayed{}, err
	}
	payload := letter.Payload
	if letter.Sealed {
		key := b.config.Keys.DeadLetter(letter.QueueID, letter.PartitionID, letter.Offset, letter.Group)
		if payload, err = segment.OpenPayload(letter.Payload, key); err != nil {
			return Replayed{}, sealedError(letter.Queue, err)
		}
	}
	item := PushItem{
		Queue: letter.Queue, Partition: letter.Partition, Payload: payload,
		TransactionID: "dlq:" + strconv.FormatInt(letter.ID, 10), HasTransactionID: true,
	}
	if r.Queue != nil {
		item.Queue = *r.Queue
	}
	if r.Partition != nil {
		item.Partition = *r.Partition
	}
	pushed := make([]PushResult, 1)
	u := &bundle{b: b, tenant: r.Tenant, pushes: groupItems([]PushItem{item}, pushed, letter.ProducerSub), dropDuplicates: true}
	u.also = func(_ context.Context, tx *pg.BundleTx) error {
		there, err := tx.TakeDeadLetter(letter.ID)
		if err == nil && !there {
			err = ErrNoDeadLetter
		}
		return err
	}
	if err := u.run(ctx); err != nil {
		if errors.Is(err, ErrNoDeadLetter) {
			return Replayed{}, err
		}
		return Replayed{}, u.failure(err)
	}
	b.metrics.pushed(pushed)
	out := Replayed{
		ID: letter.ID, Queue: item.Queue, Partition: item.Partition, Group: letter.Group, TransactionID: letter.TransactionID,
		As: pushed[0], Offset: -1, Duplicate: pushed[0].Status == Duplicate,
	}
	if at, ok := wireid.ParseMessage(out.As.MessageID); ok {
		out.Offset = at.Offset
	}
	return out, nil
}

func (b *Broker) findLetter(ctx context.Context, r ReplayRequest) (*pg.ListedDeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	id, err := strconv.ParseInt(r.ID, 10, 64)
	if r.ID == "" {
		id, err = b.newestLetter(ctx, r)
	} else if err != nil {
		return nil, ErrNoDeadLetter
	}
	if err != nil {
		return nil, err
	}
	letter, err := b.db.FindDeadLetter(ctx, r.Tenant, id)
	switch {
	case err != nil:
		return nil, unavailable(err)
	case letter == nil:
		return nil, ErrNoDeadLetter
	}
	return letter, nil
}

// newestLetter finds the dead letter of a message.
func (b *Broker) newestLetter(ctx context.Context, r ReplayRequest) (int64, error) {
	wire, err := uuid.Parse(r.PartitionID)
	if err != nil {
		return 0, ErrNoDeadLetter
	}
	partition, ok := b.ids.OpenPartition(wire)
	if !ok {
		return 0, ErrNoDeadLetter
	}
	message, err := uuid.Parse(r.TransactionID)
	if err != nil {
		message = uuid.Nil
	}
	buried, err := b.db.FindBuried(ctx, r.Tenant, partition, storableText(r.TransactionID), message)
	switch {
	case err != nil:
		return 0, unavailable(err)
	case buried == nil:
		return 0, ErrNoDeadLetter
	}
	return buried.ID, nil
}
