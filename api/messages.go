package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/admin"
	"waggle/api/jsonwire"
)

const (
	defaultMessages = 200
	// messagesSince is how far back a list goes that does not say.
	messagesSince = time.Hour
)

// listMessages is GET /api/v1/messages: newest first. total is how many there are on this page, as the contract has it.
func (s *Server) listMessages(x *exchange) {
	filter, err := readMessageFilter(parseQuery(x.r.URL.RawQuery), time.Now())
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	page, err := s.parts.Reads.Messages(x.r.Context(), x.tenant, filter)
	if err != nil {
		x.failBroker("list messages failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"messages":[`...)
		for i := range page.Messages {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendListedMessage(dst, &page.Messages[i])
		}
		dst = append(dst, `],"mode":`...)
		dst = appendMode(dst, page.Mode)
		return append(appendCount(dst, `,"total":`, int64(len(page.Messages))), '}')
	})
}

// readMessageFilter reads the query; its errors are texts for the client. The end is inclusive to the minute.
func readMessageFilter(q query, now time.Time) (filter admin.MessageFilter, err error) {
	filter = admin.MessageFilter{
		Queue: q.loose("queue"), Partition: q.loose("partition"), Namespace: q.loose("namespace"), Task: q.loose("task"),
		Limit: min(q.looseNumber("limit", defaultMessages), maxPage), Offset: q.looseNumber("offset", 0),
	}
	if filter.Namespace == "" {
		filter.Namespace = q.loose("ns")
	}
	for _, named := range [...][2]string{
		{"queue", filter.Queue}, {"partition", filter.Partition}, {"namespace", filter.Namespace}, {"task", filter.Task},
	} {
		if err := checkName(named[0], named[1]); err != nil {
			return filter, err
		}
	}
	switch status := admin.MessageStatus(q.loose("status")); status {
	case "", admin.MessagePending, admin.MessageProcessing, admin.MessageCompleted, admin.MessageDeadLetter:
		filter.Status = status
	default:
		return filter, errors.New("status must be pending, processing, completed or dead_letter")
	}
	read := func(name string, otherwise time.Time) time.Time {
		text := q.loose(name)
		if text == "" || err != nil {
			return otherwise
		}
		at, failure := readTimestamp(name, text)
		err = failure
		return at
	}
	filter.From = read("from", now.Add(-messagesSince))
	filter.Before = read("to", now).UTC().Truncate(time.Minute).Add(time.Minute)
	return filter, err
}

func appendListedMessage(dst []byte, m *admin.ListedMessage) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonwire.AppendUUID(dst, m.ID)
	dst = append(dst, `,"transactionId":`...)
	dst = jsonwire.AppendString(dst, m.TransactionID)
	dst = append(dst, `,"txnHash":`...)
	dst = appendOptional(dst, m.Hash)
	dst = append(dst, `,"partitionId":`...)
	dst = jsonwire.AppendUUID(dst, m.PartitionID)
	dst = appendQueuePath(dst, &m.MessageOrigin)
	dst = append(dst, `,"queue":`...)
	dst = jsonwire.AppendString(dst, m.Queue)
	dst = append(dst, `,"partition":`...)
	dst = jsonwire.AppendString(dst, m.Partition)
	dst = append(dst, `,"namespace":`...)
	dst = jsonwire.AppendString(dst, m.Namespace)
	dst = append(dst, `,"task":`...)
	dst = jsonwire.AppendString(dst, m.Task)
	dst = append(dst, `,"status":`...)
	dst = jsonwire.AppendString(dst, string(m.Status))
	dst = append(dst, `,"queueStatus":`...)
	dst = appendOptional(dst, string(m.QueueStatus))
	dst = appendCount(dst, `,"queuePriority":`, m.QueuePriority)
	dst = appendCount(dst, `,"busStatus":{"consumedBy":`, int64(m.ConsumedBy))
	dst = appendCount(dst, `,"totalGroups":`, int64(m.Groups))
	dst = append(dst, `},"traceId":`...)
	dst = appendOptionalUUID(dst, m.TraceID)
	dst = append(dst, `,"producerSub":`...)
	dst = appendOptional(dst, m.ProducerSub)
	dst = append(dst, `,"payloadAvailable":`...)
	dst = strconv.AppendBool(dst, m.Payload != nil)
	dst = appendCount(dst, `,"segment":{"seq":`, m.SegmentBase)
	dst = appendCount(dst, `,"frameIdx":`, int64(m.Index))
	dst = append(dst, `},"createdAt":`...)
	dst = jsonwire.AppendMillis(dst, m.CreatedAt)
	dst = append(dst, `,"leaseExpiresAt":`...)
	dst = appendInstant(dst, m.LeaseExpiresAt)
	dst = appendPayload(dst, m.Payload)
	dst = append(dst, `,"isEncrypted":`...)
	return append(strconv.AppendBool(dst, m.Encrypted), '}')
}

func appendQueuePath(dst []byte, origin *admin.MessageOrigin) []byte {
	dst = append(dst, `,"queuePath":`...)
	return jsonwire.AppendString(dst, origin.Queue+"/"+origin.Partition)
}

// appendPayload appends the payload under both of its names.
func appendPayload(dst, payload []byte) []byte {
	if payload == nil {
		return append(dst, `,"data":null,"payload":null`...)
	}
	dst = append(dst, `,"data":`...)
	dst = append(dst, payload...)
	dst = append(dst, `,"payload":`...)
	return append(dst, payload...)
}

func appendMode(dst []byte, mode admin.Mode) []byte {
	dst = append(dst, `{"hasQueueMode":`...)
	dst = strconv.AppendBool(dst, mode.HasQueueMode)
	dst = appendCount(dst, `,"busGroupsCount":`, mode.Groups)
	dst = append(dst, `,"type":`...)
	return append(jsonwire.AppendString(dst, mode.Type()), '}')
}

func appendOptionalUUID(dst []byte, id uuid.UUID) []byte {
	if id == uuid.Nil {
		return append(dst, "null"...)
	}
	return jsonwire.AppendUUID(dst, id)
}

// appendInstant appends null for the zero time.
func appendInstant(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return jsonwire.AppendMicros(dst, t)
}

// showMessage is GET /api/v1/messages/:partitionId/:transactionId.
func (s *Server) showMessage(x *exchange) {
	var message *admin.Message
	id, transaction := x.messageNames()
	partition, err := uuid.Parse(id)
	if err == nil && len(transaction) <= maxTransactionID { // no other can exist
		message, err = s.parts.Reads.Message(x.r.Context(), x.tenant, partition, transaction)
		switch {
		case errors.Is(err, admin.ErrUndecodable):
			s.logger.Error("message does not decode", zap.String("code", "WG0509"), zap.String("partition", id), zap.String("transaction", transaction), zap.Error(err))
			x.fail(http.StatusInternalServerError, admin.ErrUndecodable.Error(), "")
			return
		case err != nil:
			x.failBroker("find message failed", err)
			return
		}
	}
	if message == nil {
		x.fail(http.StatusNotFound, "Message not found", "")
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte { return appendMessageDetail(dst, message) })
}

func appendMessageDetail(dst []byte, m *admin.Message) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonwire.AppendUUID(dst, m.ID)
	dst = append(dst, `,"transactionId":`...)
	dst = jsonwire.AppendString(dst, m.TransactionID)
	dst = appendPayload(dst, m.Payload)
	dst = append(dst, `,"traceId":`...)
	dst = appendOptionalUUID(dst, m.TraceID)
	dst = append(dst, `,"producerSub":`...)
	dst = appendOptional(dst, m.ProducerSub)
	dst = append(dst, `,"createdAt":`...)
	dst = jsonwire.AppendMillis(dst, m.CreatedAt)
	dst = append(dst, `,"partitionId":`...)
	dst = jsonwire.AppendUUID(dst, m.PartitionID)
	dst = append(dst, `,"partition":`...)
	dst = jsonwire.AppendString(dst, m.Partition)
	dst = append(dst, `,"isEncrypted":`...)
	dst = strconv.AppendBool(dst, m.Encrypted)
	dst = append(dst, `,"queue":`...)
	dst = jsonwire.AppendString(dst, m.Queue)
	dst = appendQueuePath(dst, &m.MessageOrigin)
	dst = append(dst, `,"namespace":`...)
	dst = jsonwire.AppendString(dst, m.Namespace)
	dst = append(dst, `,"task":`...)
	dst = jsonwire.AppendString(dst, m.Task)
	dst = append(dst, `,"status":`...)
	dst = jsonwire.AppendString(dst, string(m.Status))
	dst = append(dst, `,"errorMessage":`...)
	if m.Error == nil {
		dst = append(dst, "null"...)
	} else {
		dst = jsonwire.AppendString(dst, *m.Error)
	}
	dst = appendCount(dst, `,"retryCount":`, int64(m.RetryCount))
	dst = append(dst, `,"leaseExpiresAt":`...)
	dst = appendInstant(dst, m.LeaseExpiresAt)
	dst = appendCount(dst, `,"queueConfig":{"leaseTime":`, m.Config.LeaseTime)
	dst = appendCount(dst, `,"retryLimit":`, m.Config.RetryLimit)
	dst = appendCount(dst, `,"retryDelay":`, m.Config.RetryDelay)
	dst = appendCount(dst, `,"ttl":`, m.Config.TTL)
	dst = appendCount(dst, `,"priority":`, m.Config.Priority)
	dst = append(dst, `},"consumerGroups":[`...)
	for i, view := range m.Groups {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = jsonwire.AppendString(dst, view.Group)
		dst = append(dst, `,"group":`...)
		dst = jsonwire.AppendString(dst, view.Group)
		dst = append(dst, `,"consumed":`...)
		dst = strconv.AppendBool(dst, view.Consumed)
		dst = append(dst, `,"leaseExpiresAt":`...)
		dst = append(appendInstant(dst, view.LeaseExpiresAt), '}')
	}
	dst = append(dst, `],"mode":`...)
	return append(appendMode(dst, m.Mode), '}')
}

// deleteMessage is DELETE /api/v1/messages/:partitionId/:transactionId: it removes the message's dead letters.
func (s *Server) deleteMessage(x *exchange) {
	id, transaction := x.messageNames()
	var letters int64
	if len(transaction) <= maxTransactionID {
		var err error
		if letters, err = s.parts.Broker.DeleteMessage(x.r.Context(), x.tenant, id, transaction); err != nil {
			x.failBroker("delete message failed", err)
			return
		}
	}
	status := http.StatusOK
	if letters == 0 {
		status = http.StatusNotFound
	}
	x.answer(status, func(dst []byte) []byte {
		dst = append(dst, `{"success":`...)
		dst = strconv.AppendBool(dst, letters > 0)
		dst = append(dst, `,"partitionId":`...)
		dst = jsonwire.AppendString(dst, id)
		dst = append(dst, `,"transactionId":`...)
		dst = jsonwire.AppendString(dst, transaction)
		if letters == 0 {
			return append(dst, `,"error":"Message not found","message":"No dead letter of this message exists; a message in the log cannot be deleted"}`...)
		}
		return append(dst, `,"message":"Message deleted successfully"}`...)
	})
}

// deleteDeadLetters is DELETE /api/v1/dlq.
func (s *Server) deleteDeadLetters(x *exchange) {
	q := parseQuery(x.r.URL.RawQuery)
	queue := q.loose("queue")
	if queue == "" {
		x.fail(http.StatusBadRequest, "queue is required", "")
		return
	}
	if err := checkName("queue", queue); err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	var group *string
	if name := q.loose("consumerGroup"); name != "" {
		if err := checkGroup(name); err != nil {
			x.fail(http.StatusBadRequest, err.Error(), "")
			return
		}
		group = &name
	}
	letters, err := s.parts.Broker.DeleteDeadLetters(x.r.Context(), x.tenant, queue, group)
	if err != nil {
		x.failBroker("delete dead letters failed", err)
		return
	}
	s.logger.Info("dead letters deleted", zap.Stringer("tenant", x.tenant), zap.String("queue", queue),
		zap.Stringp("group", group), zap.Int64("letters", letters))
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = appendCount(dst, `{"success":true,"deleted":`, letters)
		dst = append(dst, `,"queue":`...)
		dst = jsonwire.AppendString(dst, queue)
		dst = append(dst, `,"consumerGroup":`...)
		if group == nil {
			return append(dst, "null}"...)
		}
		return append(jsonwire.AppendString(dst, *group), '}')
	})
}
