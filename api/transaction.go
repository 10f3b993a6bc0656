package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// maxOperations bounds the push items and acks of one transaction.
const maxOperations = 10_000

const reasonBadRequest = "bad_request"

// transaction is POST /api/v1/transaction. A rollback is an answer of status 200 like a commit.
func (s *Server) transaction(x *exchange) {
	call := newCallID()
	b := x.readBody()
	if b == nil {
		return
	}
	// Payloads are cut from the body, so it is kept until they are stored.
	defer b.release()
	if err := checkJSON(b.data); err != nil {
		x.fail(http.StatusBadRequest, badBody(err).Error(), "")
		return
	}
	t, err := readTransaction(b.data)
	if err != nil {
		x.answerRollback(http.StatusBadRequest, call, reasonBadRequest, err.Error())
		return
	}
	t.Tenant, t.ProducerSub = x.tenant, x.producerSub
	results, err := s.parts.Broker.Transact(x.r.Context(), t)
	var rollback *broker.Rollback
	switch {
	case errors.As(err, &rollback):
		x.answerRollback(http.StatusOK, call, rollback.Reason, rollback.Text)
	case err != nil:
		x.failBroker("transaction failed", err)
	default:
		x.answer(http.StatusOK, func(dst []byte) []byte {
			dst = append(dst, `{"transactionId":`...)
			dst = jsonwire.AppendUUID(dst, call)
			dst = append(dst, `,"success":true,"results":[`...)
			for i := range results {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = appendOperationResult(dst, i, &t.Operations[i], &results[i])
			}
			return append(dst, `]}`...)
		})
	}
}

// newCallID is the id of a call. It is minted here because it names the call, not what it stores.
func newCallID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		return uuid.New()
	}
	return id
}

func (x *exchange) answerRollback(status int, call uuid.UUID, reason, text string) {
	x.answer(status, func(dst []byte) []byte {
		dst = append(dst, `{"transactionId":`...)
		dst = jsonwire.AppendUUID(dst, call)
		dst = append(dst, `,"success":false,"reason":`...)
		dst = jsonwire.AppendString(dst, reason)
		dst = append(dst, `,"error":`...)
		dst = jsonwire.AppendString(dst, text)
		return append(dst, `,"results":[]}`...)
	})
}

func appendOperationResult(dst []byte, index int, operation *broker.Operation, result *broker.OperationResult) []byte {
	dst = appendCount(dst, `{"index":`, int64(index))
	if operation.Push == nil {
		dst = append(dst, `,"type":"ack","success":true,"transactionId":`...)
		dst = jsonwire.AppendString(dst, result.TransactionID)
		return append(appendFlag(dst, `,"error":null,"dlq":`, result.DLQ), '}')
	}
	dst = append(dst, `,"type":"push","success":true,"transactionId":`...)
	dst = jsonwire.AppendString(dst, result.TransactionID)
	dst = append(dst, `,"messageId":`...)
	dst = jsonwire.AppendUUID(dst, result.MessageID)
	dst = append(dst, `,"queueName":`...)
	dst = jsonwire.AppendString(dst, operation.Push.Queue)
	if result.Duplicate {
		dst = append(dst, `,"duplicate":true`...)
	}
	return append(dst, '}')
}

// checkJSON holds a body against the strict grammar before it is read with a laxer parser.
func checkJSON(data []byte) error {
	var scanner jsonwire.Scanner
	scanner.Reset(data)
	scanner.Raw()
	return scanner.End()
}

// readTransaction reads a body that is JSON. Its errors are texts for the client.
func readTransaction(data []byte) (t broker.Transaction, err error) {
	body, _ := objectOf(data)
	operations, ok := arrayOf(body["operations"])
	if !ok {
		return t, errors.New("transaction requires an operations array")
	}
	for _, rider := range []string{"kv", "timers"} {
		if raw := string(body[rider]); raw != "" && raw != "null" && !emptyArray(raw) {
			return t, fmt.Errorf("%s is not supported by this build: nothing of the transaction was done", rider)
		}
	}
	if t.RequiredLeases, err = body.texts("requiredLeases"); err != nil {
		return t, err
	}
	for i, raw := range operations {
		if err := readOperation(raw, &t); err != nil {
			return t, fmt.Errorf("operations[%d]%w", i, err)
		}
		if len(t.Operations) > maxOperations {
			return t, fmt.Errorf("operations hold more than %d pushed items and acks", maxOperations)
		}
	}
	return t, nil
}

func emptyArray(raw string) bool {
	items, ok := arrayOf([]byte(raw))
	return ok && len(items) == 0
}

func readOperation(raw json.RawMessage, t *broker.Transaction) error {
	fields, ok := objectOf(raw)
	if !ok {
		return errors.New(" must be an object")
	}
	kind, err := fields.text("type", true)
	if err != nil {
		return fmt.Errorf(".%w", err)
	}
	switch *kind {
	case "push":
		return readPushOperation(fields, t)
	case "ack":
		ack, err := readAckOperation(fields)
		if err != nil {
			return fmt.Errorf(".%w", err)
		}
		t.Operations = append(t.Operations, ack)
		return nil
	}
	return fmt.Errorf(".type is %q: only push and ack operations are supported", *kind)
}

// readPushOperation takes the items of a push, or the flat form of one.
func readPushOperation(fields object, t *broker.Transaction) error {
	list := fields["items"]
	if list == nil || string(list) == "null" {
		item, err := readBundleItem(fields)
		if err != nil {
			return fmt.Errorf(".%w", err)
		}
		t.Operations = append(t.Operations, broker.Operation{Push: item})
		return nil
	}
	items, ok := arrayOf(list)
	if !ok {
		return errors.New(".items must be an array")
	}
	for k, raw := range items {
		fields, ok := objectOf(raw)
		if !ok {
			return fmt.Errorf(".items[%d] must be an object", k)
		}
		item, err := readBundleItem(fields)
		if err != nil {
			return fmt.Errorf(".items[%d].%w", k, err)
		}
		t.Operations = append(t.Operations, broker.Operation{Push: item})
	}
	return nil
}

var emptyPayload = []byte("{}")

// readBundleItem reads an item that a transaction or a stream pushes.
func readBundleItem(fields object) (*broker.PushItem, error) {
	queue, err := fields.text("queue", true)
	if err != nil {
		return nil, err
	}
	item := &broker.PushItem{Queue: *queue, Partition: broker.DefaultPartition, Payload: emptyPayload}
	partition, err := fields.text("partition", false)
	if err != nil {
		return nil, err
	}
	if partition != nil {
		item.Partition = *partition
	}
	if err := errors.Join(checkName("queue", item.Queue), checkName("partition", item.Partition)); err != nil {
		return nil, err
	}
	for _, name := range []string{"data", "payload"} {
		if raw := fields[name]; raw != nil {
			item.Payload = raw
		}
	}
	id, err := fields.text("transactionId", false)
	switch {
	case err != nil:
		return nil, err
	case id != nil && *id != "":
		if item.TransactionID, item.HasTransactionID = *id, true; hasControl(*id) {
			return nil, errors.New("transactionId holds a control character")
		}
		if len(*id) > maxTransactionID {
			return nil, fmt.Errorf("transactionId is longer than %d bytes", maxTransactionID)
		}
	}
	trace, err := fields.text("traceId", false)
	if err != nil {
		return nil, err
	}
	if trace != nil && *trace != "" {
		if item.TraceID, err = uuid.Parse(*trace); err != nil {
			return nil, errors.New("traceId must be a UUID")
		}
	}
	return item, nil
}

func readAckOperation(fields object) (o broker.Operation, err error) {
	o.Ack, o.Group = &broker.AckItem{Status: broker.AckCompleted}, broker.QueueMode
	for _, field := range []struct {
		name     string
		required bool
		to       func(string)
	}{
		{"transactionId", true, func(text string) { o.Ack.TransactionID = text }},
		{"partitionId", true, func(text string) { o.Ack.PartitionID = text }},
		{"status", false, func(text string) { o.Ack.Status = ackStatus(text) }},
		{"leaseId", false, func(text string) { o.Ack.Lease = text }},
		{"error", false, func(text string) { o.Ack.Error = text }},
		{"consumerGroup", false, func(text string) {
			if text != "" {
				o.Group = groupName(text)
			}
		}},
	} {
		text, err := fields.text(field.name, field.required)
		if err != nil {
			return o, err
		}
		if text != nil {
			field.to(*text)
		}
	}
	return o, nil
}
