package api

import (
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"waggle/admin"
	"waggle/api/jsonwire"
)

// listQueues is GET /api/v1/resources/queues. Its parameter stats=cached changes nothing: the numbers are always those of
// the last statistics pass.
func (s *Server) listQueues(x *exchange) {
	queues, err := s.parts.Reads.Queues(x.r.Context(), x.tenant)
	if err != nil {
		x.failBroker("list queues failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"queues":[`...)
		for i := range queues {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendQueueSummary(dst, &queues[i])
		}
		return append(dst, "]}"...)
	})
}

func appendQueueSummary(dst []byte, queue *admin.QueueSummary) []byte {
	dst = appendQueueHead(dst, &queue.QueueIdentity)
	dst = appendCount(dst, `,"partitions":`, queue.Partitions)
	dst = appendCount(dst, `,"retainedBytes":`, queue.RetainedBytes)
	dst = appendSegments(dst, queue.Segments, queue.Messages)
	dst = appendCount(dst, `,"messages":{"total":`, queue.Messages)
	dst = appendCount(dst, `,"pending":`, queue.Pending)
	dst = appendCount(dst, `,"processing":`, queue.Processing)
	return append(dst, "}}"...)
}

// describeQueue is GET /api/v1/resources/queues/:queue.
func (s *Server) describeQueue(x *exchange) {
	var queue *admin.QueueDetail
	if name := x.names[0]; checkName("queue", name) == nil { // no other name can exist
		var err error
		if queue, err = s.parts.Reads.Queue(x.r.Context(), x.tenant, name); err != nil {
			x.failBroker("describe queue failed", err)
			return
		}
	}
	if queue == nil {
		x.fail(http.StatusNotFound, "Queue not found", "")
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte { return appendQueueDetail(dst, queue) })
}

func appendQueueDetail(dst []byte, queue *admin.QueueDetail) []byte {
	dst = appendQueueHead(dst, &queue.QueueIdentity)
	dst = appendCount(dst, `,"priority":`, queue.Priority)
	dst = append(dst, `,"options":`...)
	dst = append(dst, queue.Options...)
	dst = appendCount(dst, `,"optionsVersion":`, queue.OptionsVersion)
	dst = append(dst, `,"partitions":[`...)
	for i := range queue.Partitions {
		if i > 0 {
			dst = append(dst, ',')
		}
		partition := &queue.Partitions[i]
		dst = append(dst, `{"id":`...)
		dst = jsonwire.AppendUUID(dst, partition.ID)
		dst = append(dst, `,"name":`...)
		dst = jsonwire.AppendString(dst, partition.Name)
		dst = append(dst, `,"createdAt":`...)
		dst = jsonwire.AppendMillis(dst, partition.CreatedAt)
		dst = append(dst, `,"stats":`...)
		dst = appendCounts(dst, &partition.Counts)
		dst = append(dst, `,"oldestMessage":`...)
		dst = appendMoment(dst, partition.Oldest)
		dst = append(dst, `,"newestMessage":`...)
		dst = appendMoment(dst, partition.Newest)
		dst = append(dst, '}')
	}
	dst = append(dst, `],"totals":`...)
	dst = appendCounts(dst, &queue.Totals)
	dst = appendCount(dst, `,"retainedBytes":`, queue.RetainedBytes)
	dst = appendSegments(dst, queue.Segments, queue.Totals.Total)
	return append(dst, '}')
}

func appendQueueHead(dst []byte, queue *admin.QueueIdentity) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonwire.AppendUUID(dst, queue.ID)
	dst = append(dst, `,"name":`...)
	dst = jsonwire.AppendString(dst, queue.Name)
	dst = append(dst, `,"namespace":`...)
	dst = jsonwire.AppendString(dst, queue.Namespace)
	dst = append(dst, `,"task":`...)
	dst = jsonwire.AppendString(dst, queue.Task)
	dst = append(dst, `,"createdAt":`...)
	return jsonwire.AppendMillis(dst, queue.CreatedAt)
}

// appendCounts appends the numbers of a partition or of a whole queue. "failed" is null: a failed message is either
// redelivered or a dead letter, so nothing is ever counted there.
func appendCounts(dst []byte, counts *admin.Counts) []byte {
	dst = appendCount(dst, `{"total":`, counts.Total)
	dst = appendCount(dst, `,"pending":`, counts.Pending)
	dst = appendCount(dst, `,"processing":`, counts.Processing)
	dst = appendCount(dst, `,"completed":`, counts.Completed)
	dst = appendCount(dst, `,"failed":null,"deadLetter":`, counts.DeadLetter)
	return append(dst, '}')
}

func appendSegments(dst []byte, segments, messages int64) []byte {
	dst = appendCount(dst, `,"segments":{"segments":`, segments)
	dst = appendCount(dst, `,"messages":`, messages)
	return append(dst, '}')
}

func appendCount(dst []byte, before string, n int64) []byte {
	return strconv.AppendInt(append(dst, before...), n, 10)
}

// deleteQueue is DELETE /api/v1/resources/queues/:queue.
func (s *Server) deleteQueue(x *exchange) {
	name, existed := x.names[0], false
	if checkName("queue", name) == nil {
		var err error
		if existed, err = s.parts.Broker.DeleteQueue(x.r.Context(), x.tenant, name); err != nil {
			x.failBroker("delete failed", err)
			return
		}
	}
	if existed {
		s.logger.Info("queue deleted", zap.Stringer("tenant", x.tenant), zap.String("queue", name))
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"deleted":`...)
		dst = strconv.AppendBool(dst, existed)
		dst = append(dst, `,"queue":`...)
		dst = jsonwire.AppendString(dst, name)
		dst = append(dst, `,"existed":`...)
		dst = strconv.AppendBool(dst, existed)
		if !existed {
			dst = append(dst, `,"message":"Queue not found"`...)
		}
		return append(dst, '}')
	})
}
