package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"waggle/broker/segment"
	"waggle/broker/wireid"
	"waggle/pg"
)

// Message is all there is to say about one message.
type Message struct {
	MessageHead
	MessageOrigin
	Status         MessageStatus
	LeaseExpiresAt time.Time
	Groups         []GroupView
	Mode           Mode
	Config         QueueConfig
	// Error and RetryCount are those of the newest dead letter; Error is nil without one.
	Error      *string
	RetryCount int
}

// QueueConfig is what a message's queue says about consuming it.
type QueueConfig struct {
	LeaseTime  int64 `json:"leaseTime"`
	RetryLimit int64 `json:"retryLimit"`
	RetryDelay int64 `json:"retryDelay"`
	TTL        int64 `json:"ttl"`
	Priority   int64 `json:"priority"`
}

// ErrUndecodable says that a message is there and cannot be read: it is damaged, or of a newer build.
var ErrUndecodable = errors.New("frame decode failed")

func (r *Reader) queueConfig(stored []byte) (config QueueConfig, err error) {
	options, _, err := r.resolve(stored)
	if err != nil {
		return config, err
	}
	return config, json.Unmarshal(options, &config)
}

// allAges is further back than any segment.
const allAges = 100 * 365 * 24 * time.Hour

// Message describes one message, in the log or as a dead letter; nil when the tenant has none of that name there.
func (r *Reader) Message(ctx context.Context, tenant, partition uuid.UUID, transactionID string) (*Message, error) {
	id, ok := r.ids.OpenPartition(partition)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	places, err := r.places(ctx, tenant, []pg.SegmentRef{{Partition: id}})
	if err != nil {
		return nil, failed("find message", err)
	}
	at := places[id]
	if at == nil {
		return nil, nil
	}
	m := &Message{MessageOrigin: at.origin(), Config: at.config}
	messageID, err := uuid.Parse(transactionID)
	if err != nil {
		messageID = uuid.Nil
	}
	letter, err := r.db.FindBuried(ctx, tenant, id, storable(transactionID), messageID)
	if err != nil {
		return nil, failed("find message", err)
	}
	offset, err := r.read(ctx, m, at, transactionID)
	if err != nil && !errors.Is(err, ErrUndecodable) {
		return nil, failed("find message", err)
	}
	if letter != nil && offset >= 0 && offset != letter.Offset {
		letter = nil // of an older message with the same id
	}
	switch {
	case letter != nil:
		m.bury(letter)
		if offset < 0 || err != nil {
			offset = letter.Offset
			r.exhume(m, at, letter)
		}
	case err != nil:
		return nil, err
	case offset < 0:
		return nil, nil
	}
	if err := r.judge(ctx, tenant, m, at, offset); err != nil {
		return nil, failed("find message", err)
	}
	if letter != nil {
		m.Status = MessageDeadLetter
	}
	return m, nil
}

// read fills in what the log has of the message, and returns its offset; -1 when the log has nothing of it.
func (r *Reader) read(ctx context.Context, m *Message, at *place, transactionID string) (offset int64, err error) {
	hash := segment.HashOf(transactionID)
	found, err := r.db.FindIDs(ctx, []pg.IDQuery{{Partition: at.PartitionID, Low: 0, High: wireid.MaxOffset, Hash: hash[:]}}, allAges)
	if err != nil {
		return -1, err
	}
	if len(found) > 0 {
		return r.readAt(ctx, m, at, found[0].Offset, nil)
	}
	id, err := uuid.Parse(transactionID)
	if err != nil {
		return -1, nil
	}
	place, ok := wireid.ParseMessage(id)
	if !ok || place.Partition != at.PartitionID {
		return -1, nil
	}
	return r.readAt(ctx, m, at, place.Offset, &id)
}

// readAt reads the record at an offset; with an id, only if that is the message's.
func (r *Reader) readAt(ctx context.Context, m *Message, at *place, offset int64, id *uuid.UUID) (int64, error) {
	stored, found, err := r.db.SegmentAt(ctx, at.PartitionID, offset)
	if err != nil || !found || stored.Body == nil {
		return -1, err
	}
	opened, err := r.openRecord(at.QueueID, at.PartitionID, &stored, int(offset-stored.Base))
	if err != nil {
		return offset, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	head := headOf(opened.Record(0), &stored, offset, at.PartitionID)
	if id != nil && head.ID != *id {
		return -1, nil
	}
	m.MessageHead = head
	m.Encrypted = segment.IsSealed(stored.Body)
	return offset, nil
}

func (m *Message) bury(letter *pg.BuriedMessage) {
	text := strings.ToValidUTF8(string(letter.Error), "\ufffd")
	m.Error, m.RetryCount = &text, letter.RetryCount
}

// exhume fills in the message from its dead letter: the log has it no longer.
func (r *Reader) exhume(m *Message, at *place, letter *pg.BuriedMessage) {
	payload, err := r.openBuried(at.PartitionID, letter)
	if err != nil {
		payload = nil // what is known of the message is shown all the same
	}
	m.MessageHead = MessageHead{
		ID: letter.MessageID, TransactionID: letter.TransactionID, ProducerSub: letter.ProducerSub, CreatedAt: letter.PushedAt,
		Payload: payload, Encrypted: letter.Sealed,
	}
	if place, ok := wireid.ParseMessage(letter.MessageID); ok && place.Partition == at.PartitionID && place.Offset == letter.Offset {
		m.CreatedAt = time.UnixMilli(place.Millis)
	}
}

// judge fills in what the groups think.
func (r *Reader) judge(ctx context.Context, tenant uuid.UUID, m *Message, at *place, offset int64) error {
	known := standings{}
	if err := known.meet(ctx, r.db, []pg.SegmentRef{{Partition: at.PartitionID, Base: offset, Count: 1}}); err != nil {
		return err
	}
	judged := known[at.PartitionID].judge(offset)
	m.Status, m.LeaseExpiresAt, m.Groups = judged.status, judged.leaseExpiresAt, known[at.PartitionID].views(offset)
	var err error
	m.Mode, err = r.mode(ctx, tenant, &at.Queue, nil, nil)
	return err
}
