package broker

import (
	"context"

	"github.com/google/uuid"

	"waggle/pg"
)

// deadLetterBatch bounds how many dead letters one transaction removes.
const deadLetterBatch = 10_000

// DeleteMessage removes the dead letters of a message and counts them. What stands in the log cannot be removed.
func (b *Broker) DeleteMessage(ctx context.Context, tenant uuid.UUID, partitionID, transactionID string) (letters int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	wire, err := uuid.Parse(partitionID)
	if err != nil {
		return 0, nil
	}
	partition, ok := b.ids.OpenPartition(wire)
	if !ok {
		return 0, nil
	}
	message, err := uuid.Parse(transactionID)
	if err != nil {
		message = uuid.Nil
	}
	letters, err = b.db.DeleteBuried(ctx, tenant, partition, storableText(transactionID), message)
	return letters, unreachable(err)
}

// DeleteDeadLetters removes the dead letters of a queue, of one group where it is given, and counts them. It is done in
// batches: what a failure leaves is there for the next call.
func (b *Broker) DeleteDeadLetters(ctx context.Context, tenant uuid.UUID, queue string, group *string) (letters int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	if !storableName(queue) {
		return 0, nil
	}
	if group != nil {
		text := storableText(*group)
		group = &text
	}
	for {
		n, err := b.db.DeleteDeadLetters(ctx, pg.QueueName{Tenant: tenant, Name: queue}, group, deadLetterBatch)
		letters += n
		if err != nil || n < deadLetterBatch {
			return letters, unreachable(err)
		}
	}
}
