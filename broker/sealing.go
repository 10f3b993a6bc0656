package broker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/broker/seal"
	"waggle/broker/segment"
	"waggle/pg"
)

// What an operator reads of queues whose data is encrypted. Each is logged once a minute and queue.
const (
	// CodeNoKey: a queue wants encryption and this broker has no key. Nothing is stored.
	CodeNoKey = "WG0031"
	// CodeKeyMissing: stored data is sealed with a key that this broker does not have. Nothing is handed out.
	CodeKeyMissing = "WG0032"
	// CodeTampered: stored data does not open with the key that it names.
	CodeTampered = "WG0033"
)

// SealedError says that stored data cannot be opened here. Its text is meant for clients and operators: it names the key,
// never what is in it.
type SealedError struct {
	Code  string
	Queue string
	// Key is the id of the key that the data names.
	Key   string
	cause error
}

func (e *SealedError) Error() string {
	if e.Code == CodeKeyMissing {
		return fmt.Sprintf("%s queue %q: %v; add it to --encryption-keys-file of every broker", e.Code, e.Queue, e.cause)
	}
	return fmt.Sprintf("%s queue %q: stored data %v", e.Code, e.Queue, e.cause)
}

func (e *SealedError) Unwrap() error { return e.cause }

// ClientText is what a client is told.
func (e *SealedError) ClientText() string { return e.Error() }

// sealedError gives errors of opening their code; it returns others as they are.
func sealedError(queue string, err error) error {
	var missing *seal.KeyError
	var tampered *seal.TamperedError
	switch {
	case errors.As(err, &missing) && missing.ID != "":
		return &SealedError{Code: CodeKeyMissing, Queue: queue, Key: missing.ID, cause: missing}
	case errors.As(err, &missing):
		return &SealedError{Code: CodeNoKey, Queue: queue, cause: missing}
	case errors.As(err, &tampered):
		return &SealedError{Code: CodeTampered, Queue: queue, Key: tampered.Key, cause: tampered}
	default:
		return err
	}
}

// alarms keeps what goes wrong with every message of a queue from filling the log.
type alarms struct {
	mu   sync.Mutex // guards last
	last map[alarm]time.Time
}

type alarm struct {
	queue queueKey
	code  string
}

const (
	alarmEvery = time.Minute
	maxAlarms  = 10_000
)

// due tells whether the alarm may ring again, and takes it that it does.
func (a *alarms) due(at alarm, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, rung := a.last[at]; rung && now.Sub(last) < alarmEvery {
		return false
	}
	if a.last == nil || len(a.last) >= maxAlarms {
		a.last = map[alarm]time.Time{}
	}
	a.last[at] = now
	return true
}

// refusesClearText tells that the queue wants encryption and there is no key here: nothing is stored in clear.
func (b *Broker) refusesClearText(q *queue) bool {
	if !q.options.EncryptionEnabled || b.config.Keys.CanSeal() {
		return false
	}
	if b.alarms.due(alarm{q.queueKey, CodeNoKey}, time.Now()) {
		b.log.Error("queue wants encryption and this broker has no key, pushes to it fail: set --encryption-key or --encryption-keys-file", zap.String("code", "WG0031"),
			zap.String("code", CodeNoKey), zap.String("queue", q.name), zap.Stringer("tenant", q.tenant))
	}
	return true
}

// unreadable gives an error of reading stored data of the queue its code, and logs it.
func (b *Broker) unreadable(q *queue, err error) error {
	err = sealedError(q.name, err)
	var sealed *SealedError
	if errors.As(err, &sealed) && b.alarms.due(alarm{q.queueKey, sealed.Code}, time.Now()) {
		b.log.Error("stored data cannot be opened, nothing of it is handed out", zap.String("code", sealed.Code),
			zap.String("queue", q.name), zap.Stringer("tenant", q.tenant), zap.String("key", sealed.Key), zap.Error(err))
	}
	return err
}

// open decodes a stored segment. Only a sealed one costs more than before there were any.
func (b *Broker) open(queue, partition int64, s *pg.Segment) (segment.Segment, error) {
	if !segment.IsSealed(s.Body) {
		return segment.Decode(s.Format, s.Count, s.Body)
	}
	return segment.Open(s.Format, s.Count, s.Body, b.config.Keys.Segment(queue, partition))
}

// openOne decodes one record of a stored segment, as a segment of its own.
func (b *Broker) openOne(queue, partition int64, s *pg.Segment, i int) (segment.Segment, error) {
	return segment.OpenOne(s.Format, s.Count, s.Body, i, b.config.Keys.Segment(queue, partition))
}

// seal fills the part's bodies, which are encrypted; false when that cannot be: its groups have failed then. Whatever a
// broker remembers of a queue's options, the flush stores a part only if they are those that decided here.
func (p *part) seal(l *lane) bool {
	p.bodies = p.bodies[:0]
	for _, b := range p.builders {
		body, err := p.partition.packer.Sealed(b, l.b.config.Keys.Segment(p.queue.id, p.partition.id))
		if err != nil {
			if !l.b.refusesClearText(p.queue) {
				l.b.log.Error("push failed: not encrypted", zap.String("code", "WG0035"), zap.String("queue", p.queue.name), zap.Error(err))
			}
			for _, g := range p.groups {
				g.fail()
			}
			return false
		}
		p.bodies = append(p.bodies, body)
	}
	return true
}

// letterPayload turns a record's payload into what its dead letter holds: sealed anew under the letter's own place, if the
// queue is encrypted or the record was.
func (b *Broker) letterPayload(q *queue, l *pg.DeadLetter, wasSealed bool) error {
	if !wasSealed && !q.options.EncryptionEnabled {
		return nil
	}
	payload, err := segment.SealPayload(l.Payload, b.config.Keys.DeadLetter(l.Queue, l.Partition, l.Offset, l.Group))
	if err != nil {
		return b.unreadable(q, err)
	}
	l.Payload, l.Sealed = payload, true
	return nil
}

// commit acks what an autoAck pop has read under a lease, drops the parts for which that failed, and returns the size of
// the rest. A queue with sealed segments is read so: a claim that moved its cursor at once would skip what then does not
// open.
func (a *PopAnswer) commit(b *Broker, held []heldPart) (size int64) {
	lost := b.ackRead(a.Lease, held)
	if len(lost) > 0 {
		b.giveBack(a.Lease, lost)
		a.Parts = slices.DeleteFunc(a.Parts, func(part PopPart) bool {
			return slices.ContainsFunc(lost, func(h heldPart) bool { return h.partition.wire == part.PartitionID })
		})
	}
	a.Lease = uuid.Nil
	for i := range a.Parts {
		size += a.Parts[i].size()
	}
	return size
}

// ackRead completes all that is held and returns the parts whose lease did not hold so long.
func (b *Broker) ackRead(lease uuid.UUID, held []heldPart) (lost []heldPart) {
	ackings := make([]*pg.Acking, len(held))
	var pending sync.WaitGroup
	pending.Add(len(held))
	for i := range held {
		h := &held[i]
		h.partition.lane.ack(&ackJob{
			ack: pg.Ack{Cursor: h.cursor, Lease: lease, Upto: h.last},
			done: func(a *pg.Acking, err error) {
				if err != nil {
					b.log.Warn("what an autoAck pop read was not acked", zap.String("code", "WG0426"), zap.Error(err))
				}
				ackings[i] = a
				pending.Done()
			},
		})
	}
	pending.Wait()
	for i := range held {
		h := &held[i]
		if a := ackings[i]; a == nil || !a.Moved {
			lost = append(lost, *h)
			continue
		}
		if b.watch.released(h.queue, h.partition, h.group, h.last, false) {
			b.hints.Wake(h.queue.tenant, h.queue.name, h.partition.name)
		}
	}
	return lost
}

// errNotCommitted ends an autoAck pop none of whose leases held until its records were read.
var errNotCommitted = errors.New("lease lost before the records were acked")
