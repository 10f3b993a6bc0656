package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"waggle/client"
)

// drainLoad pops and acknowledges until everything has been consumed.
type drainLoad struct {
	target    string
	queue     string
	consumers int
	// group is empty for queue mode; ask is what the pops ask for, as a query.
	group string
	ask   string
	// ackLast acknowledges only the last message of each partition, which completes those before it.
	ackLast bool
	// move, when set, makes what passes on what a consumer has popped.
	move  func() *mover
	audit *audit
	// wanted is how many messages there are to consume; consumed how many have been acknowledged.
	wanted   *atomic.Int64
	consumed *atomic.Int64
	// drained is when the last one was, in Unix nanoseconds.
	drained atomic.Int64
}

// pollTimeout is how long an idle consumer parks before it looks whether all is done.
const pollTimeout = 250 * time.Millisecond

// run starts the consumers; the function it returns waits until all is consumed, or for the end of the span and grace.
func (l *drainLoad) run(ctx context.Context, s span, grace time.Duration) func() *sample {
	return gather(l.consumers, func(_ int, c *counter) { l.work(ctx, s, s.end.Add(grace), c) })
}

func (l *drainLoad) work(ctx context.Context, s span, deadline time.Time, c *counter) {
	w := newWire(l.target, deadline.Add(time.Second))
	defer w.close()
	pop := fmt.Appendf(nil, "GET /api/v1/pop/queue/%s?%s&wait=true&timeout=%d HTTP/1.1\r\nHost: bench\r\n\r\n",
		url.PathEscape(l.queue), l.ask, pollTimeout.Milliseconds())
	taken := delivery{group: l.group}
	var ack []byte
	var onward *mover
	if l.move != nil {
		onward = l.move()
	}
	for ctx.Err() == nil && time.Now().Before(deadline) && l.consumed.Load() < l.wanted.Load() {
		started := time.Now()
		status, body, err := w.do(ctx, pop)
		if err == nil && status == http.StatusNoContent {
			continue
		}
		if err == nil {
			err = taken.read(status, body)
		}
		if err == nil {
			for _, mark := range taken.marks {
				if !l.audit.delivered(mark) {
					err = fmt.Errorf("pop: a message of somebody else: %q", mark)
				}
			}
		}
		switch {
		case err != nil:
		case onward != nil:
			err = onward.move(ctx, w, &taken)
		default:
			ack = taken.appendAck(ack[:0], l.ackLast)
			if status, body, err = w.do(ctx, ack); err == nil {
				err = taken.checkAcked(status, body, l.ackLast)
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				c.fail(err)
			}
			time.Sleep(failurePause)
			continue
		}
		ended := time.Now()
		if l.consumed.Add(int64(len(taken.marks))) >= l.wanted.Load() {
			l.drained.CompareAndSwap(0, ended.UnixNano())
		}
		if s.holds(ended) {
			c.done(len(taken.marks), ended.Sub(started))
		}
	}
}

// delivery is what matters of a pop's answer: messages under one lease, and the partition of each. It is copied out of
// the answer, which the ack overwrites.
type delivery struct {
	group      string
	lease      []byte
	marks      [][]byte
	partitions [][]byte
	text       []byte
}

var (
	leaseField       = []byte(`"leaseId":"`)
	partitionIDField = []byte(`"partitionId":"`)
	transactionField = []byte(`"transactionId":"`)
	benchField       = []byte(`"bench":"`)
	successMark      = []byte(`"success":true`)
)

// read finds leases and marks by searching for their fields. An answer that is laid out in another way is decoded.
func (d *delivery) read(status int, body []byte) error {
	if status != http.StatusOK {
		return fmt.Errorf("pop: status %d: %.200s", status, body)
	}
	d.text = append(d.text[:0], body...)
	d.marks, d.partitions = d.marks[:0], d.partitions[:0]
	var found bool
	if d.lease, found = textAfter(d.text, leaseField); found && d.search() {
		return nil
	}
	return d.decode(body)
}

func (d *delivery) search() bool {
	rest, payloads := d.text, d.text
	for {
		at := bytes.Index(rest, transactionField)
		if at < 0 {
			return len(d.marks) > 0
		}
		rest = rest[at+len(transactionField):]
		if len(rest) < markBytes {
			return false
		}
		mark := rest[:markBytes:markBytes]
		at = bytes.Index(payloads, benchField)
		if at < 0 {
			return false
		}
		payloads = payloads[at+len(benchField):]
		if !bytes.HasPrefix(payloads, mark) {
			return false
		}
		partition, found := textAfter(rest, partitionIDField)
		if !found {
			return false
		}
		d.marks, d.partitions = append(d.marks, mark), append(d.partitions, partition)
	}
}

func textAfter(text, field []byte) ([]byte, bool) {
	at := bytes.Index(text, field)
	if at < 0 {
		return nil, false
	}
	text = text[at+len(field):]
	end := bytes.IndexByte(text, '"')
	if end < 0 {
		return nil, false
	}
	return text[:end], true
}

func (d *delivery) decode(body []byte) error {
	var answer client.PopAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("pop: decode: %w", err)
	}
	d.marks, d.partitions = d.marks[:0], d.partitions[:0]
	d.lease = []byte(answer.LeaseID)
	for _, m := range answer.Messages {
		var payload struct {
			Bench string `json:"bench"`
		}
		if err := json.Unmarshal(m.Data, &payload); err != nil {
			return fmt.Errorf("pop: decode payload: %w", err)
		}
		if payload.Bench != m.TransactionID {
			return fmt.Errorf("pop: payload %q under transaction id %q", payload.Bench, m.TransactionID)
		}
		d.marks, d.partitions = append(d.marks, []byte(m.TransactionID)), append(d.partitions, []byte(m.PartitionID))
	}
	if len(d.marks) == 0 {
		return errors.New("pop: no messages in a 200")
	}
	return nil
}

// appendAck writes the whole request that acknowledges the delivery.
func (d *delivery) appendAck(dst []byte, last bool) []byte {
	const item = `{"transactionId":"","partitionId":"","leaseId":"","status":"completed"}`
	size := len(`{"acknowledgments":[]}`) - 1
	if d.group != "" {
		size += len(`"consumerGroup":"",`) + len(d.group)
	}
	for i := range d.marks {
		if d.acks(i, last) {
			size += len(item) + markBytes + len(d.partitions[i]) + len(d.lease) + 1
		}
	}
	dst = append(dst, "POST /api/v1/ack/batch HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(size), 10)
	dst = append(dst, "\r\n\r\n{"...)
	if d.group != "" {
		dst = append(dst, `"consumerGroup":"`...)
		dst = append(dst, d.group...)
		dst = append(dst, `",`...)
	}
	dst = append(dst, `"acknowledgments":[`...)
	first := true
	for i, mark := range d.marks {
		if !d.acks(i, last) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, `{"transactionId":"`...)
		dst = append(dst, mark...)
		dst = append(dst, `","partitionId":"`...)
		dst = append(dst, d.partitions[i]...)
		dst = append(dst, `","leaseId":"`...)
		dst = append(dst, d.lease...)
		dst = append(dst, `","status":"completed"}`...)
	}
	return append(dst, "]}"...)
}

// acks tells whether the i-th message is acknowledged by itself. Messages of a partition stand together.
func (d *delivery) acks(i int, last bool) bool {
	return !last || i == len(d.marks)-1 || !bytes.Equal(d.partitions[i], d.partitions[i+1])
}

func (d *delivery) checkAcked(status int, body []byte, last bool) error {
	want := 0
	for i := range d.marks {
		if d.acks(i, last) {
			want++
		}
	}
	if status != http.StatusOK {
		return fmt.Errorf("ack: status %d: %.200s", status, body)
	}
	if n := bytes.Count(body, successMark); n != want {
		return fmt.Errorf("ack: %d of %d accepted: %.200s", n, want, body)
	}
	return nil
}
