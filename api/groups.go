package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// looseFlag reads a switch of a management route; what it does not know counts as not given.
func (q query) looseFlag(name string) bool {
	switch q.loose(name) {
	case "true", "1", "yes":
		return true
	}
	return false
}

// deleteGroup is DELETE /api/v1/consumer-groups/:group: the group in all queues of the tenant.
func (s *Server) deleteGroup(x *exchange) { s.dropGroup(x, x.names[0], nil) }

// deleteGroupCalled lets a path that is a route of its own still name the group for deletion.
func (s *Server) deleteGroupCalled(name string) handler {
	return func(x *exchange) { s.dropGroup(x, name, nil) }
}

// deleteQueueGroup is DELETE /api/v1/consumer-groups/:group/queues/:queue.
func (s *Server) deleteQueueGroup(x *exchange) { s.dropGroup(x, x.names[0], &x.names[1]) }

func (s *Server) dropGroup(x *exchange, group string, queue *string) {
	registration := parseQuery(x.r.URL.RawQuery).looseFlag("deleteMetadata")
	deleted, err := s.parts.Broker.DeleteGroup(x.r.Context(), x.tenant, groupName(group), queue, registration)
	if err != nil {
		x.failBroker("delete consumer group failed", err)
		return
	}
	if deleted.Cursors > 0 || deleted.Registration {
		s.logger.Info("consumer group deleted", zap.Stringer("tenant", x.tenant), zap.String("group", group),
			zap.Stringp("queue", queue), zap.Int("cursors", deleted.Cursors), zap.Bool("registration", deleted.Registration))
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"success":true,"consumerGroup":`...)
		dst = jsonwire.AppendString(dst, group)
		if queue != nil {
			dst = append(dst, `,"queueName":`...)
			dst = jsonwire.AppendString(dst, *queue)
		}
		dst = appendCount(dst, `,"deletedPartitions":`, int64(deleted.Cursors))
		dst = append(dst, `,"metadataDeleted":`...)
		return append(strconv.AppendBool(dst, deleted.Registration), '}')
	})
}

// seekQueue is POST /api/v1/consumer-groups/:group/queues/:queue/seek.
func (s *Server) seekQueue(x *exchange) { s.seek(x, nil) }

// seekPartition is POST /api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek.
func (s *Server) seekPartition(x *exchange) { s.seek(x, &x.names[2]) }

func (s *Server) seek(x *exchange, partition *string) {
	b := x.readBody()
	if b == nil {
		return
	}
	request, err := readSeek(b.data, partition != nil)
	b.release()
	if err == nil {
		err = errors.Join(checkGroup(x.names[0]), checkName("queue", x.names[1]), checkOptional("partition", partition))
	}
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	request.Tenant, request.Group, request.Queue, request.Partition = x.tenant, groupName(x.names[0]), x.names[1], partition
	cursors, err := s.parts.Broker.Seek(x.r.Context(), request)
	status, failure := http.StatusOK, ""
	switch {
	case errors.Is(err, broker.ErrNoPartitions) && partition != nil:
		status, failure = http.StatusNotFound, "Partition not found"
	case errors.Is(err, broker.ErrNoPartitions):
		status, failure = http.StatusNotFound, "Queue not found or has no partitions"
	case errors.Is(err, broker.ErrLimit):
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	case err != nil:
		x.failBroker("seek failed", err)
		return
	}
	x.answer(status, func(dst []byte) []byte {
		dst = append(dst, `{"success":`...)
		dst = strconv.AppendBool(dst, failure == "")
		if failure != "" {
			dst = append(dst, `,"error":`...)
			dst = jsonwire.AppendString(dst, failure)
		}
		return appendSeek(dst, x, &request, cursors)
	})
}

func appendSeek(dst []byte, x *exchange, request *broker.SeekRequest, cursors int) []byte {
	dst = append(dst, `,"consumerGroup":`...)
	dst = jsonwire.AppendString(dst, x.names[0])
	dst = append(dst, `,"queueName":`...)
	dst = jsonwire.AppendString(dst, x.names[1])
	if request.Partition != nil {
		dst = append(dst, `,"partitionName":`...)
		dst = jsonwire.AppendString(dst, *request.Partition)
	}
	dst = append(dst, `,"seekToEnd":`...)
	dst = strconv.AppendBool(dst, request.ToEnd)
	dst = append(dst, `,"targetTimestamp":`...)
	if request.ToEnd {
		dst = append(dst, "null"...)
	} else {
		dst = jsonwire.AppendMillis(dst, request.At)
	}
	if request.Partition != nil {
		dst = append(dst, `,"updated":`...)
		return append(strconv.AppendBool(dst, cursors > 0), '}')
	}
	return append(appendCount(dst, `,"partitionsUpdated":`, int64(cursors)), '}')
}

// readSeek reads the body; its errors are texts for the client. A body that says nothing may mean the end.
func readSeek(data []byte, emptyMeansEnd bool) (request broker.SeekRequest, err error) {
	if emptyMeansEnd && blankJSON(data) {
		request.ToEnd = true
		return request, nil
	}
	var scanner jsonwire.Scanner
	scanner.Reset(data)
	timestamp, said := "", false
	scanner.BeginObject()
	for key, ok := scanner.NextKey(); ok; key, ok = scanner.NextKey() {
		switch string(key) {
		case "toEnd":
			said = true
			switch raw := string(scanner.Raw()); raw {
			case "true", "false", "null":
				request.ToEnd = raw == "true"
			default:
				scanner.Fail(errors.New("toEnd must be true or false"))
			}
		case "timestamp":
			said = true
			timestamp = scanText(&scanner)
		default:
			scanner.Raw()
		}
	}
	err = scanner.End()
	switch {
	case err != nil:
		return request, badBody(err)
	case request.ToEnd:
	case timestamp != "":
		request.At, err = readTimestamp("timestamp", timestamp)
	case emptyMeansEnd && !said:
		request.ToEnd = true
	default:
		//lint:ignore ST1005 the words of the contract
		err = errors.New("Must specify toEnd=true or a timestamp")
	}
	return request, err
}

func blankJSON(data []byte) bool {
	for _, c := range data {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

func readTimestamp(field, text string) (time.Time, error) {
	at, err := broker.ParseTimestamp(text)
	if err != nil {
		return at, errors.New(field + " must be an ISO 8601 time")
	}
	return at.UTC(), nil
}

// resubscribe is POST /api/v1/consumer-groups/:group/subscription.
func (s *Server) resubscribe(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	at, err := readResubscribe(b.data)
	b.release()
	if err == nil {
		err = checkGroup(x.names[0])
	}
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	queues, err := s.parts.Broker.Resubscribe(x.r.Context(), x.tenant, groupName(x.names[0]), at)
	if err != nil {
		x.failBroker("change subscription failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"success":true,"consumerGroup":`...)
		dst = jsonwire.AppendString(dst, x.names[0])
		dst = append(dst, `,"newTimestamp":`...)
		dst = jsonwire.AppendMillis(dst, at)
		return append(appendCount(dst, `,"rowsUpdated":`, int64(queues)), '}')
	})
}

func readResubscribe(data []byte) (at time.Time, err error) {
	var scanner jsonwire.Scanner
	scanner.Reset(data)
	text := ""
	scanner.BeginObject()
	for key, ok := scanner.NextKey(); ok; key, ok = scanner.NextKey() {
		if string(key) == "subscriptionTimestamp" {
			text = scanText(&scanner)
		} else {
			scanner.Raw()
		}
	}
	if err := scanner.End(); err != nil {
		return at, badBody(err)
	}
	if text == "" {
		return at, errors.New("subscriptionTimestamp is required")
	}
	return readTimestamp("subscriptionTimestamp", text)
}
