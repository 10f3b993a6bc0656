package api

import (
	"fmt"
	"net/http"
	"strconv"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// ack is POST /api/v1/ack: one acknowledgement, which also names the group.
func (s *Server) ack(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	defer b.release()
	var scanner jsonwire.Scanner
	scanner.Reset(b.data)
	item, group := scanAck(&scanner)
	s.acknowledge(x, scanner.End(), group, []broker.AckItem{item})
}

// ackBatch is POST /api/v1/ack/batch: the group stands at the top level only.
func (s *Server) ackBatch(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	defer b.release()
	var scanner jsonwire.Scanner
	scanner.Reset(b.data)
	var group string
	var items []broker.AckItem
	found := false
	scanner.BeginObject()
	for key, ok := scanner.NextKey(); ok; key, ok = scanner.NextKey() {
		switch string(key) {
		case "consumerGroup":
			group = scanText(&scanner)
		case "acknowledgments":
			found = true
			items = items[:0]
			scanner.BeginArray()
			for scanner.NextElement() {
				item, _ := scanAck(&scanner)
				items = append(items, item)
			}
		default:
			scanner.Raw()
		}
	}
	err := scanner.End()
	if err == nil && !found {
		err = fmt.Errorf("missing field %q", "acknowledgments")
	}
	s.acknowledge(x, err, group, items)
}

// scanAck reads one acknowledgement. A syntax error is left in the scanner.
func scanAck(scanner *jsonwire.Scanner) (item broker.AckItem, group string) {
	scanner.BeginObject()
	for key, ok := scanner.NextKey(); ok; key, ok = scanner.NextKey() {
		switch string(key) {
		case "transactionId":
			item.TransactionID = scanText(scanner)
		case "partitionId":
			item.PartitionID = scanText(scanner)
		case "leaseId":
			item.Lease = scanText(scanner)
		case "error":
			item.Error = scanText(scanner)
		case "consumerGroup":
			group = scanText(scanner)
		case "status":
			item.Status = broker.AckCompleted
			if !scanner.Null() {
				if text, ok := scanner.String(); ok {
					item.Status = ackStatus(string(text))
				}
			}
		default:
			scanner.Raw()
		}
	}
	return item, group
}

// scanText reads a string or a null, which counts as absent.
func scanText(scanner *jsonwire.Scanner) string {
	if scanner.Null() {
		return ""
	}
	text, _ := scanner.String()
	return string(text)
}

// ackStatus follows the contract: what it does not know is a failure.
func ackStatus(text string) broker.AckStatus {
	switch text {
	case "completed", "success", "acked", "ok":
		return broker.AckCompleted
	case "retry":
		return broker.AckRetry
	case "dlq":
		return broker.AckDLQ
	}
	return broker.AckFailed
}

func (s *Server) acknowledge(x *exchange, err error, group string, items []broker.AckItem) {
	if err != nil {
		x.fail(http.StatusBadRequest, badBody(err).Error(), "")
		return
	}
	// An empty group is queue mode, on pops too: the contract leaves the choice open, and no client sends one.
	if group == "" {
		group = broker.QueueMode
	}
	var results []broker.AckResult
	if len(items) > 0 {
		results = s.parts.Broker.Ack(x.r.Context(), x.tenant, groupName(group), items)
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, '[')
		for i := range results {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendAckResult(dst, i, items[i].TransactionID, &results[i])
		}
		return append(dst, ']')
	})
}

func appendAckResult(dst []byte, index int, transactionID string, result *broker.AckResult) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"transactionId":`...)
	dst = jsonwire.AppendString(dst, transactionID)
	dst = append(dst, `,"success":`...)
	dst = strconv.AppendBool(dst, result.Success)
	dst = append(dst, `,"error":`...)
	dst = appendOptional(dst, result.Error)
	dst = append(dst, `,"leaseReleased":`...)
	dst = strconv.AppendBool(dst, result.LeaseReleased)
	dst = append(dst, `,"dlq":`...)
	dst = strconv.AppendBool(dst, result.DLQ)
	dst = append(dst, `,"noop":`...)
	dst = strconv.AppendBool(dst, result.Noop)
	if result.Conflated {
		dst = append(dst, `,"conflated":true`...)
	}
	return append(dst, '}')
}
