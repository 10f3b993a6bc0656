package broker

import (
	"time"

	"github.com/google/uuid"

	"waggle/broker/segment"
	"waggle/broker/wireid"
)

// messageAt is the record as clients see it.
func messageAt(s segment.Segment, i int, createdAt time.Time, offset, partition int64) (Message, error) {
	r := s.Record(i)
	m := Message{
		ID: r.ID, TraceID: r.TraceID, ProducerSub: r.ProducerSub, CreatedAt: createdAt, Payload: r.Payload,
	}
	if m.ID == uuid.Nil {
		id, err := wireid.Message(createdAt, offset, partition)
		if err != nil {
			return m, err
		}
		m.ID = id
	}
	if r.TransactionID != nil {
		m.TransactionID = *r.TransactionID
	} else {
		m.TransactionID = m.ID.String()
	}
	return m, nil
}
