package admin

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/google/uuid"

	"waggle/broker/segment"
	"waggle/broker/wireid"
	"waggle/pg"
)

// MessageFilter chooses messages. What is empty binds nothing; Before is exclusive.
type MessageFilter struct {
	Queue     string
	Partition string
	Namespace string
	Task      string
	Status    MessageStatus
	From      time.Time
	Before    time.Time
	Limit     int
	Offset    int
}

// MessagePage is a page of a list, newest first.
type MessagePage struct {
	Messages []ListedMessage
	Mode     Mode
}

// ListedMessage is a retained message in a list.
type ListedMessage struct {
	MessageHead
	MessageOrigin
	Status         MessageStatus
	QueueStatus    MessageStatus
	QueuePriority  int64
	ConsumedBy     int
	Groups         int
	LeaseExpiresAt time.Time
	// Hash is the recorded one of the transaction id, in hex; empty where the message id stands for it.
	Hash string
	// SegmentBase and Index are where the message lies.
	SegmentBase int64
	Index       int
}

// MessageHead is what was pushed.
type MessageHead struct {
	ID            uuid.UUID
	TransactionID string
	TraceID       uuid.UUID
	ProducerSub   string
	CreatedAt     time.Time
	// Payload is JSON as it was pushed, nil where it cannot be read.
	Payload   []byte
	Encrypted bool
}

// MessageOrigin names where a message lies.
type MessageOrigin struct {
	PartitionID uuid.UUID
	Partition   string
	Queue       string
	Namespace   string
	Task        string
}

const (
	// fewPartitions is up to how many partitions are looked through one by one; beyond, the log of all is.
	fewPartitions = 1000
	segmentPage   = 1000
	// maxSegments bounds what one call looks at. A list that ends there ends early.
	maxSegments = 100_000
	// readBytes bounds the bodies that are in memory at one time.
	readBytes = 8 << 20
	// maxMessageBytes bounds the payloads of one page. Each goes out under two names.
	maxMessageBytes = maxPageBytes / 2
)

// pick is a message that a page shows.
type pick struct {
	segment int // index into the segments of the picks
	offset  int64
}

// picks are what was chosen for a page, in its order.
type picks struct {
	segments []pg.SegmentRef
	messages []pick
}

// Messages lists the messages of a tenant that are retained, newest first. A page ends early where its payloads would
// exceed 16 MiB. No body is read but those of the page.
func (r *Reader) Messages(ctx context.Context, tenant uuid.UUID, filter MessageFilter) (MessagePage, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var page MessagePage
	chosen := pg.MessageFilter{
		Tenant: tenant, Queue: given(filter.Queue), Partition: given(filter.Partition), Namespace: given(filter.Namespace), Task: given(filter.Task),
	}
	mode, err := r.mode(ctx, tenant, chosen.Queue, chosen.Namespace, chosen.Task)
	if err != nil {
		return page, failed("list messages", err)
	}
	page.Mode = mode
	partitions, err := r.db.MessagePartitions(ctx, chosen, fewPartitions+1)
	if err != nil || len(partitions) == 0 {
		return page, failedOrNil("list messages", err)
	}
	if len(partitions) > fewPartitions {
		partitions = nil
	}
	known := standings{}
	window := pg.SegmentWindow{
		Filter: chosen, Partitions: partitions, From: filter.From, Before: filter.Before, Limit: segmentPage,
	}
	found, err := r.choose(ctx, window, filter, known)
	if err != nil {
		return page, failed("list messages", err)
	}
	if page.Messages, err = r.show(ctx, tenant, found, known); err != nil {
		return page, failed("list messages", err)
	}
	return page, nil
}

func failedOrNil(doing string, err error) error {
	if err == nil {
		return nil
	}
	return failed(doing, err)
}

// choose walks the segments, newest first, until it has the page.
func (r *Reader) choose(ctx context.Context, window pg.SegmentWindow, filter MessageFilter, known standings) (picks, error) {
	var out picks
	skip := filter.Offset
	for seen := 0; seen < maxSegments && len(out.messages) < filter.Limit; {
		page, err := r.db.MessageSegments(ctx, window)
		if err != nil {
			return out, err
		}
		if filter.Status != "" {
			if err := known.meet(ctx, r.db, page); err != nil {
				return out, err
			}
		}
		for _, s := range page {
			if len(out.messages) == filter.Limit {
				break
			}
			skip = out.take(s, filter, skip, known[s.Partition])
		}
		if len(page) < window.Limit {
			break
		}
		seen += len(page)
		window.After = &page[len(page)-1]
	}
	if filter.Status == "" {
		return out, known.meet(ctx, r.db, out.segments)
	}
	return out, nil
}

// take adds what the page shows of a segment, and returns how many messages are still to be skipped.
func (p *picks) take(s pg.SegmentRef, filter MessageFilter, skip int, at *standing) int {
	if filter.Status == "" && skip >= s.Count {
		return skip - s.Count
	}
	taken := false
	for i := s.Count - 1; i >= 0 && len(p.messages) < filter.Limit; i-- {
		offset := s.Base + int64(i)
		if filter.Status != "" && at.judge(offset).status != filter.Status {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if !taken {
			p.segments, taken = append(p.segments, s), true
		}
		p.messages = append(p.messages, pick{segment: len(p.segments) - 1, offset: offset})
	}
	return skip
}

// show reads what was chosen.
func (r *Reader) show(ctx context.Context, tenant uuid.UUID, found picks, known standings) ([]ListedMessage, error) {
	places, err := r.places(ctx, tenant, found.segments)
	if err != nil {
		return nil, err
	}
	out := make([]ListedMessage, 0, len(found.messages))
	shown := 0
	for first, next := 0, 0; first < len(found.segments) && shown <= maxMessageBytes; first = next {
		for size := 0; next < len(found.segments) && (next == first || size+found.segments[next].Bytes <= readBytes); next++ {
			size += found.segments[next].Bytes
		}
		chunk := found.segments[first:next]
		stored, err := r.db.ReadSegments(ctx, segmentPlaces(chunk))
		if err != nil {
			return nil, err
		}
		for len(found.messages) > 0 && found.messages[0].segment < next && shown <= maxMessageBytes {
			i := found.messages[0].segment
			n := 1
			for n < len(found.messages) && found.messages[n].segment == i {
				n++
			}
			place := places[found.segments[i].Partition]
			if s := &stored[i-first]; place != nil && s.Body != nil { // else deleted meanwhile
				for _, m := range r.showSegment(place, s, known[place.PartitionID], found.messages[:n]) {
					if shown += len(m.Payload); shown > maxMessageBytes && len(out) > 0 {
						break
					}
					out = append(out, m)
				}
			}
			found.messages = found.messages[n:]
		}
	}
	return out, nil
}

func segmentPlaces(segments []pg.SegmentRef) []pg.Place {
	places := make([]pg.Place, len(segments))
	for i, s := range segments {
		places[i] = pg.Place{Partition: s.Partition, Base: s.Base}
	}
	return places
}

// place is a partition with what its queue's options say.
type place struct {
	pg.MessagePlace
	wire   uuid.UUID
	config QueueConfig
}

func (p *place) origin() MessageOrigin {
	return MessageOrigin{PartitionID: p.wire, Partition: p.Partition, Queue: p.Queue, Namespace: p.Namespace, Task: p.Task}
}

func (r *Reader) places(ctx context.Context, tenant uuid.UUID, segments []pg.SegmentRef) (map[int64]*place, error) {
	var ids []int64
	for _, s := range segments {
		ids = append(ids, s.Partition)
	}
	slices.Sort(ids)
	rows, err := r.db.MessagePlaces(ctx, tenant, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	places := make(map[int64]*place, len(rows))
	for _, row := range rows {
		p := &place{MessagePlace: row, wire: r.ids.Partition(row.PartitionID)}
		if p.config, err = r.queueConfig(row.Options); err != nil {
			return nil, err
		}
		places[row.PartitionID] = p
	}
	return places, nil
}

// showSegment lists messages of one segment. One that cannot be opened is listed with what is known without.
func (r *Reader) showSegment(at *place, s *pg.Segment, known *standing, messages []pick) []ListedMessage {
	opened, err := r.openSegment(at.QueueID, at.PartitionID, s)
	out := make([]ListedMessage, 0, len(messages))
	for _, p := range messages {
		i := int(p.offset - s.Base)
		judged := known.judge(p.offset)
		m := ListedMessage{
			MessageOrigin: at.origin(), Status: judged.status, QueueStatus: judged.queueStatus, QueuePriority: at.config.Priority,
			ConsumedBy: judged.consumedBy, Groups: judged.groups, LeaseExpiresAt: judged.leaseExpiresAt,
			Hash: hashAt(s, i), SegmentBase: s.Base, Index: i,
		}
		if err == nil && i < opened.Len() {
			m.MessageHead = headOf(opened.Record(i), s, p.offset, at.PartitionID)
			m.Payload = slices.Clone(m.Payload) // the segment is larger than what is shown of it
		} else {
			m.MessageHead = headOf(segment.Record{}, s, p.offset, at.PartitionID)
		}
		m.Encrypted = segment.IsSealed(s.Body)
		out = append(out, m)
	}
	return out
}

func hashAt(s *pg.Segment, i int) string {
	if len(s.IDs) < (i+1)*segment.HashSize {
		return ""
	}
	h := segment.Hash(s.IDs[i*segment.HashSize:])
	if h == (segment.Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// headOf is the record as it was pushed.
func headOf(record segment.Record, s *pg.Segment, offset, partition int64) MessageHead {
	head := MessageHead{
		ID: record.ID, TraceID: record.TraceID, ProducerSub: record.ProducerSub, CreatedAt: s.CreatedAt, Payload: record.Payload,
	}
	if head.ID == uuid.Nil {
		head.ID, _ = wireid.Message(s.CreatedAt, offset, partition) // the zero id for a place that none can name
	}
	head.TransactionID = head.ID.String()
	if record.TransactionID != nil {
		head.TransactionID = *record.TransactionID
	}
	return head
}
