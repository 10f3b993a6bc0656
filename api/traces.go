package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"waggle/admin"
	"waggle/api/jsonwire"
	"waggle/broker"
)

const (
	maxTraceNames = 100
	maxTraceData  = 1 << 20

	defaultTraces     = 100
	defaultTraceNames = 50
	// maxPage bounds the lists of management routes.
	maxPage = 10_000
)

// writeTrace is POST /api/v1/traces.
func (s *Server) writeTrace(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	defer b.release()
	request, err := readTrace(b.data)
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	request.Tenant = x.tenant
	id, err := s.parts.Broker.Trace(x.r.Context(), request)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		x.answer(http.StatusNotFound, func(dst []byte) []byte {
			return append(dst, `{"success":false,"error":"Message not found"}`...)
		})
	case err != nil:
		s.logger.Warn("trace failed", zap.String("code", "WG0510"), zap.String("request_id", x.requestID()), zap.Error(err))
		text := "trace failed: " + err.Error()
		if unavailable(err) {
			text = "pool"
		}
		x.fail(http.StatusInternalServerError, text, "")
	default:
		x.answer(http.StatusCreated, func(dst []byte) []byte {
			dst = append(dst, `{"success":true,"traceId":`...)
			return append(jsonwire.AppendUUID(dst, id), '}')
		})
	}
}

// readTrace reads the body; its errors are texts for the client. Data stays the bytes that came.
func readTrace(data []byte) (request broker.TraceRequest, err error) {
	var scanner jsonwire.Scanner
	scanner.Reset(data)
	request.EventType = "info"
	optional := func(target *string) {
		if text := scanText(&scanner); text != "" {
			*target = text
		}
	}
	scanner.BeginObject()
	for key, ok := scanner.NextKey(); ok; key, ok = scanner.NextKey() {
		switch string(key) {
		case "transactionId":
			optional(&request.TransactionID)
		case "partitionId":
			optional(&request.PartitionID)
		case "consumerGroup":
			optional(&request.Group)
		case "eventType":
			optional(&request.EventType)
		case "traceNames":
			request.Names = scanTexts(&scanner)
		case "data":
			if !scanner.Null() {
				request.Data = scanner.Raw()
			}
		default:
			scanner.Raw()
		}
	}
	if err := scanner.End(); err != nil {
		return request, badBody(err)
	}
	return request, checkTrace(&request)
}

func checkTrace(request *broker.TraceRequest) error {
	switch {
	case request.TransactionID == "" || request.PartitionID == "":
		return errors.New("transactionId and partitionId are required")
	case request.Data == nil:
		return errors.New("data is required")
	case len(request.TransactionID) > maxTransactionID:
		return fmt.Errorf("transactionId is longer than %d bytes", maxTransactionID)
	case len(request.Data) > maxTraceData:
		return fmt.Errorf("data is longer than %d bytes", maxTraceData)
	case len(request.Group) > maxName:
		return fmt.Errorf("consumerGroup is longer than %d bytes", maxName)
	case len(request.EventType) > maxName:
		return fmt.Errorf("eventType is longer than %d bytes", maxName)
	case len(request.Names) > maxTraceNames:
		return fmt.Errorf("traceNames holds more than %d names", maxTraceNames)
	}
	for i, name := range request.Names {
		if len(name) > maxName {
			return fmt.Errorf("traceNames[%d] is longer than %d bytes", i, maxName)
		}
	}
	return nil
}

// scanTexts reads an array of strings, or one string; null is none.
func scanTexts(scanner *jsonwire.Scanner) []string {
	if scanner.Peek() != '[' {
		if text := scanText(scanner); text != "" {
			return []string{text}
		}
		return nil
	}
	texts := []string{}
	scanner.BeginArray()
	for scanner.NextElement() {
		texts = append(texts, scanText(scanner))
	}
	return texts
}

// listTraces is GET /api/v1/traces/:partitionId/:transactionId.
func (s *Server) listTraces(x *exchange) {
	var traces []admin.Trace
	id, transaction := x.messageNames()
	if partition, err := uuid.Parse(id); err == nil && len(transaction) <= maxTransactionID {
		if traces, err = s.parts.Reads.Traces(x.r.Context(), x.tenant, partition, transaction); err != nil {
			x.failBroker("list traces failed", err)
			return
		}
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"traces":[`...)
		for i := range traces {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendTrace(dst, &traces[i]), '}')
		}
		return append(dst, "]}"...)
	})
}

// listTracesByName is GET /api/v1/traces/by-name/:traceName.
func (s *Server) listTracesByName(x *exchange) {
	limit, offset := page(x, defaultTraces)
	var traces []admin.Trace
	var total int64
	if len(x.names[0]) <= maxName { // no longer name can exist
		var err error
		if traces, total, err = s.parts.Reads.TracesNamed(x.r.Context(), x.tenant, x.names[0], limit, offset); err != nil {
			x.failBroker("list traces failed", err)
			return
		}
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"traces":[`...)
		for i := range traces {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTrace(dst, &traces[i])
			dst = append(dst, `,"transaction_id":`...)
			dst = jsonwire.AppendString(dst, traces[i].TransactionID)
			dst = append(dst, `,"partition_id":`...)
			dst = jsonwire.AppendUUID(dst, traces[i].PartitionID)
			dst = append(dst, `,"queue_name":`...)
			dst = jsonwire.AppendString(dst, traces[i].Queue)
			dst = append(dst, `,"partition_name":`...)
			dst = jsonwire.AppendString(dst, traces[i].Partition)
			dst = append(dst, `,"message_payload":null}`...)
		}
		return appendTotal(append(dst, ']'), total, limit, offset)
	})
}

// listTraceNames is GET /api/v1/traces/names.
func (s *Server) listTraceNames(x *exchange) {
	limit, offset := page(x, defaultTraceNames)
	names, total, err := s.parts.Reads.TraceNames(x.r.Context(), x.tenant, limit, offset)
	if err != nil {
		x.failBroker("list trace names failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"trace_names":[`...)
		for i := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, `{"trace_name":`...)
			dst = jsonwire.AppendString(dst, names[i].Name)
			dst = appendCount(dst, `,"trace_count":`, names[i].Traces)
			dst = appendCount(dst, `,"message_count":`, names[i].Messages)
			dst = append(dst, `,"last_seen":`...)
			dst = append(jsonwire.AppendMillis(dst, names[i].LastSeen), '}')
		}
		return appendTotal(append(dst, ']'), total, limit, offset)
	})
}

// page reads limit and offset of a management route.
func page(x *exchange, otherwise int) (limit, offset int) {
	q := parseQuery(x.r.URL.RawQuery)
	return min(q.looseNumber("limit", otherwise), maxPage), q.looseNumber("offset", 0)
}

// appendTotal ends an answer that knows how many there are in all.
func appendTotal(dst []byte, total int64, limit, offset int) []byte {
	dst = appendCount(dst, `,"total":`, total)
	dst = appendCount(dst, `,"pagination":{"limit":`, int64(limit))
	dst = appendCount(dst, `,"offset":`, int64(offset))
	return append(dst, "}}"...)
}

// appendTrace leaves the object open. Who worked on the message is not recorded.
func appendTrace(dst []byte, trace *admin.Trace) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonwire.AppendUUID(dst, trace.ID)
	dst = append(dst, `,"event_type":`...)
	dst = jsonwire.AppendString(dst, trace.EventType)
	dst = append(dst, `,"data":`...)
	dst = append(dst, trace.Data...)
	dst = append(dst, `,"consumer_group":`...)
	dst = jsonwire.AppendString(dst, trace.Group)
	dst = append(dst, `,"worker_id":null,"created_at":`...)
	dst = jsonwire.AppendMillis(dst, trace.CreatedAt)
	dst = append(dst, `,"trace_names":`...)
	return appendStrings(dst, trace.Names)
}
