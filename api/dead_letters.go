package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"waggle/admin"
	"waggle/api/jsonwire"
)

const (
	defaultDeadLetters = 100
	maxDeadLetters     = 10_000
)

// listDeadLetters is GET /api/v1/dlq. partition, from and to are accepted and change nothing, as the contract has it.
func (s *Server) listDeadLetters(x *exchange) {
	q := parseQuery(x.r.URL.RawQuery)
	filter := admin.DeadLetterFilter{
		Queue:  q.loose("queue"),
		Group:  q.loose("consumerGroup"),
		Limit:  min(q.looseNumber("limit", defaultDeadLetters), maxDeadLetters),
		Offset: q.looseNumber("offset", 0),
	}
	if err := errors.Join(checkName("queue", filter.Queue), checkGroup(filter.Group)); err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	filter.Group = groupName(filter.Group)
	letters, err := s.parts.Reads.DeadLetters(x.r.Context(), x.tenant, filter)
	if err != nil {
		x.failBroker("list dead letters failed", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"messages":[`...)
		for i := range letters {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendDeadLetter(dst, &letters[i])
		}
		dst = appendCount(dst, `],"pagination":{"limit":`, int64(filter.Limit))
		dst = appendCount(dst, `,"offset":`, int64(filter.Offset))
		dst = appendCount(dst, `},"total":`, int64(len(letters)))
		return append(dst, '}')
	})
}

func appendDeadLetter(dst []byte, letter *admin.DeadLetter) []byte {
	dst = append(dst, `{"id":"`...)
	dst = strconv.AppendInt(dst, letter.ID, 10)
	dst = append(dst, `","transactionId":`...)
	dst = jsonwire.AppendString(dst, letter.TransactionID)
	dst = append(dst, `,"partitionId":`...)
	dst = jsonwire.AppendUUID(dst, letter.PartitionID)
	dst = append(dst, `,"queue":`...)
	dst = jsonwire.AppendString(dst, letter.Queue)
	dst = append(dst, `,"partition":`...)
	dst = jsonwire.AppendString(dst, letter.Partition)
	dst = append(dst, `,"consumerGroup":`...)
	dst = jsonwire.AppendString(dst, letter.Group)
	dst = append(dst, `,"errorMessage":`...)
	dst = jsonwire.AppendString(dst, letter.Error)
	dst = appendCount(dst, `,"retryCount":`, int64(letter.RetryCount))
	dst = append(dst, `,"data":`...)
	dst = append(dst, letter.Payload...)
	dst = append(dst, `,"producerSub":`...)
	dst = appendOptional(dst, letter.ProducerSub)
	dst = append(dst, `,"createdAt":`...)
	dst = jsonwire.AppendMillis(dst, letter.FailedAt) // the contract: equal to failedAt
	dst = append(dst, `,"failedAt":`...)
	dst = jsonwire.AppendMillis(dst, letter.FailedAt)
	dst = append(dst, `,"pushedAt":`...)
	dst = appendMoment(dst, letter.PushedAt)
	if letter.IsEncrypted {
		dst = append(dst, `,"isEncrypted":true`...)
	}
	return append(dst, '}')
}

// appendMoment appends null for the zero time.
func appendMoment(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return jsonwire.AppendMillis(dst, t)
}
