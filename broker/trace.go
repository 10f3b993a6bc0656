package broker

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"waggle/broker/segment"
	"waggle/pg"
)

// TraceRequest is what a client says of a message. PartitionID is text as the client sent it; Data is validated JSON.
type TraceRequest struct {
	Tenant        uuid.UUID
	PartitionID   string
	TransactionID string
	// Group is empty for queue mode.
	Group     string
	EventType string
	Data      []byte
	Names     []string
}

// ErrNoMessage says that there is no such message, or that it is not the tenant's.
var ErrNoMessage = errors.New("message not found")

// Trace stores what a client says of a message, and returns the id of that. Only that the partition is the tenant's is
// checked, not the message: it may be gone already.
func (b *Broker) Trace(ctx context.Context, req TraceRequest) (uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	wire, err := uuid.Parse(req.PartitionID)
	if err != nil {
		return uuid.Nil, ErrNoMessage
	}
	partition, ok := b.ids.OpenPartition(wire)
	if !ok {
		return uuid.Nil, ErrNoMessage
	}
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.Nil, err
	}
	group := storableText(req.Group)
	if group == "" {
		group = QueueMode
	}
	text := storableText(req.TransactionID)
	hash := segment.HashOf(text)
	owned, err := b.db.WriteTrace(ctx, pg.NewTrace{
		ID: id, Tenant: req.Tenant, Partition: partition, TransactionHash: hash[:], TransactionID: text, Group: group,
		EventType: storableText(req.EventType), Data: req.Data, Names: distinctTexts(req.Names),
	})
	if err == nil && !owned {
		err = ErrNoMessage
	}
	return id, unreachable(err)
}

// distinctTexts makes texts storable and drops empty and repeated ones.
func distinctTexts(texts []string) []string {
	out, seen := make([]string, 0, len(texts)), make(map[string]bool, len(texts))
	for _, text := range texts {
		if text = storableText(text); text != "" && !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return out
}
