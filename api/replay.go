package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// retryMessage is POST /api/v1/messages/:partitionId/:transactionId/retry: the newest dead letter of the message becomes a
// message again. The body means nothing.
func (s *Server) retryMessage(x *exchange) {
	id, transaction := x.messageNames()
	s.replay(x, broker.ReplayRequest{PartitionID: id, TransactionID: transaction}, func(dst []byte) []byte {
		dst = append(dst, `{"success":false,"partitionId":`...)
		dst = jsonwire.AppendString(dst, id)
		dst = append(dst, `,"transactionId":`...)
		dst = jsonwire.AppendString(dst, transaction)
		return append(dst, `,"error":"Message not found","message":"No dead letter of this message exists"}`...)
	})
}

// replayDeadLetter is POST /api/v1/dlq/:id/replay; its body may name another queue and partition.
func (s *Server) replayDeadLetter(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	request, err := readReplay(b.data)
	b.release()
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	request.ID = x.names[0]
	s.replay(x, request, func(dst []byte) []byte {
		dst = append(dst, `{"success":false,"result":"gone","dlqId":`...)
		dst = jsonwire.AppendString(dst, request.ID)
		return append(dst, `,"error":"Message not found","message":"There is no such dead letter, or it has been replayed or deleted"}`...)
	})
}

// readReplay takes an empty body for an empty object.
func readReplay(data []byte) (request broker.ReplayRequest, err error) {
	if len(data) == 0 {
		return request, nil
	}
	if err := checkJSON(data); err != nil {
		return request, badBody(err)
	}
	fields, ok := objectOf(data)
	if !ok {
		return request, errors.New("bad body: expected an object")
	}
	for name, to := range map[string]**string{"queue": &request.Queue, "partition": &request.Partition} {
		if *to, err = fields.text(name, false); err != nil {
			return request, err
		}
		if text := *to; text != nil {
			if blank(*text) {
				return request, fmt.Errorf("%s must not be blank", name)
			}
			if err := checkName(name, *text); err != nil {
				return request, err
			}
		}
	}
	return request, nil
}

func (s *Server) replay(x *exchange, request broker.ReplayRequest, gone func([]byte) []byte) {
	request.Tenant = x.tenant
	r, err := s.parts.Broker.Replay(x.r.Context(), request)
	var rollback *broker.Rollback
	switch {
	case errors.Is(err, broker.ErrNoDeadLetter):
		x.answer(http.StatusNotFound, gone)
	case errors.As(err, &rollback):
		// Both halves are one transaction: nothing is half done.
		s.logger.Warn("replay failed", zap.String("code", "WG0511"), zap.String("request_id", x.requestID()), zap.Error(err))
		x.answer(http.StatusInternalServerError, func(dst []byte) []byte {
			dst = append(dst, `{"success":false,"error":`...)
			dst = jsonwire.AppendString(dst, rollback.Text)
			return append(dst, `,"dlqRowRemoved":false}`...)
		})
	case err != nil:
		x.failBroker("replay failed", err)
	default:
		x.answer(http.StatusOK, func(dst []byte) []byte { return appendReplayed(dst, &r) })
	}
}

func appendReplayed(dst []byte, r *broker.Replayed) []byte {
	result := "moved"
	if r.Duplicate {
		result = "duplicate"
	}
	dst = append(dst, `{"success":true,"result":"`+result+`","queue":`...)
	dst = jsonwire.AppendString(dst, r.Queue)
	dst = append(dst, `,"partition":`...)
	dst = jsonwire.AppendString(dst, r.Partition)
	dst = append(dst, `,"consumerGroup":`...)
	dst = jsonwire.AppendString(dst, r.Group)
	dst = append(dst, `,"dlqId":"`...)
	dst = strconv.AppendInt(dst, r.ID, 10)
	dst = append(dst, `","originalTransactionId":`...)
	dst = jsonwire.AppendString(dst, r.TransactionID)
	dst = append(dst, `,"replayedAs":{"index":0,"message_id":`...)
	dst = jsonwire.AppendUUID(dst, r.As.MessageID)
	dst = append(dst, `,"transaction_id":`...)
	dst = jsonwire.AppendString(dst, r.As.TransactionID)
	dst = append(dst, `,"queueName":`...)
	dst = jsonwire.AppendString(dst, r.Queue)
	dst = append(dst, `,"status":`...)
	dst = jsonwire.AppendString(dst, string(r.As.Status))
	dst = append(dst, `,"offset":`...)
	if r.Offset < 0 {
		dst = append(dst, `null`...)
	} else {
		dst = strconv.AppendInt(dst, r.Offset, 10)
	}
	return append(dst, `},"dlqRowRemoved":true}`...)
}
