package admin

import (
	"go.uber.org/zap"

	"waggle/broker/seal"
	"waggle/broker/segment"
	"waggle/pg"
)

// WithKeys lets the reader open what is stored encrypted. Nil keys open nothing. The logger hears of what stays closed.
func (r *Reader) WithKeys(keys *seal.Keyring, logger *zap.Logger) *Reader {
	with := *r
	with.keys, with.logger = keys, logger
	return &with
}

// openSegment decodes a stored segment, whether it is sealed or not.
func (r *Reader) openSegment(queue, partition int64, s *pg.Segment) (segment.Segment, error) {
	if !segment.IsSealed(s.Body) {
		return segment.Decode(s.Format, s.Count, s.Body)
	}
	return segment.Open(s.Format, s.Count, s.Body, r.keys.Segment(queue, partition))
}

// openRecord decodes one record of a stored segment, as a segment of its own.
func (r *Reader) openRecord(queue, partition int64, s *pg.Segment, i int) (segment.Segment, error) {
	return segment.OpenOne(s.Format, s.Count, s.Body, i, r.keys.Segment(queue, partition))
}

// openLetter returns the payload of a dead letter as it was pushed.
func (r *Reader) openLetter(l *pg.ListedDeadLetter) ([]byte, error) {
	if !l.Sealed {
		return l.Payload, nil
	}
	return segment.OpenPayload(l.Payload, r.keys.DeadLetter(l.QueueID, l.PartitionID, l.Offset, l.Group))
}

// openBuried is openLetter for a dead letter that was looked up by its message.
func (r *Reader) openBuried(partition int64, l *pg.BuriedMessage) ([]byte, error) {
	return r.openLetter(&pg.ListedDeadLetter{
		Payload: l.Payload, Sealed: l.Sealed, QueueID: l.QueueID, PartitionID: partition, Offset: l.Offset, Group: l.Group,
	})
}

var closedPayload = []byte("null")

// openLetters opens a page of dead letters in place. One that does not open is listed all the same, without its payload:
// a lost key must not hide what else there is, nor the letter itself from whoever wants to delete it.
func (r *Reader) openLetters(letters []pg.ListedDeadLetter) {
	var failed error
	closed := 0
	for i := range letters {
		l := &letters[i]
		payload, err := r.openLetter(l)
		if err != nil {
			closed, failed, payload = closed+1, err, closedPayload
		}
		l.Payload = payload
	}
	if closed > 0 && r.logger != nil {
		r.logger.Warn("dead letters listed without their payloads: they do not open", zap.String("code", "WG0034"), zap.Int("letters", closed), zap.Error(failed))
	}
}
