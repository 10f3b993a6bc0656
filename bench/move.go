package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// mover passes what was popped on to another queue before it counts as consumed: together with its acknowledgement in
// one transaction, or in two calls as everybody writes it who has no transactions.
type mover struct {
	queue    string
	together bool
	body     []byte
	request  []byte
}

var committedMark = []byte(`"success":true,"results":`)

// movePayload fills a moved message up to the size of all payloads.
var movePayload = bytes.Repeat([]byte("moved on "), payloadBytes)[:payloadBytes-len(`{"bench":"","text":""}`)-markBytes]

// move sends the delivery on and acknowledges it.
func (m *mover) move(ctx context.Context, w *wire, d *delivery) error {
	if m.together {
		return m.transact(ctx, w, d)
	}
	m.body = append(m.appendItems(append(m.body[:0], `{"items":[`...), d), `]}`...)
	status, body, err := w.do(ctx, m.post("/api/v1/push"))
	if err == nil {
		err = checkPushed(status, body, len(d.marks))
	}
	if err != nil {
		return err
	}
	m.request = d.appendAck(m.request[:0], false)
	if status, body, err = w.do(ctx, m.request); err != nil {
		return err
	}
	return d.checkAcked(status, body, false)
}

func (m *mover) transact(ctx context.Context, w *wire, d *delivery) error {
	m.body = append(m.appendItems(append(m.body[:0], `{"operations":[{"type":"push","items":[`...), d), `]}`...)
	for i, mark := range d.marks {
		m.body = append(m.body, `,{"type":"ack","status":"completed","transactionId":"`...)
		m.body = append(m.body, mark...)
		m.body = append(m.body, `","partitionId":"`...)
		m.body = append(m.body, d.partitions[i]...)
		m.body = append(m.body, `","leaseId":"`...)
		m.body = append(m.body, d.lease...)
		m.body = append(m.body, `"}`...)
	}
	m.body = append(m.body, `]}`...)
	status, body, err := w.do(ctx, m.post("/api/v1/transaction"))
	if err != nil {
		return err
	}
	if status != http.StatusOK || !bytes.Contains(body, committedMark) {
		return fmt.Errorf("transaction: status %d: %.200s", status, body)
	}
	return nil
}

// appendItems writes a push item for each message, to the partition of the same number and under the same id.
func (m *mover) appendItems(dst []byte, d *delivery) []byte {
	for i, mark := range d.marks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"queue":"`...)
		dst = append(dst, m.queue...)
		dst = append(dst, `","partition":"p`...)
		dst = append(dst, mark[partitionAt:sequenceAt]...)
		dst = append(dst, `","transactionId":"`...)
		dst = append(dst, mark...)
		dst = append(dst, `","payload":{"bench":"`...)
		dst = append(dst, mark...)
		dst = append(dst, `","text":"`...)
		dst = append(dst, movePayload...)
		dst = append(dst, `"}}`...)
	}
	return dst
}

// post is the whole request with the body; both are overwritten by the next.
func (m *mover) post(path string) []byte {
	m.request = append(m.request[:0], "POST "...)
	m.request = append(m.request, path...)
	m.request = append(m.request, " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: "...)
	m.request = strconv.AppendInt(m.request, int64(len(m.body)), 10)
	m.request = append(m.request, "\r\n\r\n"...)
	return append(m.request, m.body...)
}
