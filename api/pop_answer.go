package api

import (
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// popPiece is how much of a pop's answer is gathered before it is sent. An answer that fits goes out in one write
// with its length; a larger one goes out in chunks, so that an answer is never in memory twice.
const popPiece = 512 << 10

// writePop answers with messages. Payloads are copied as they are.
func (x *exchange) writePop(request *broker.PopRequest, answer *broker.PopAnswer) {
	b := takeBuffer()
	defer b.release()
	dst := appendPopHead(b.data, request, answer)
	tail := appendMessageTail(nil, answer)
	first, begun := true, false
	for i := range answer.Parts {
		part := &answer.Parts[i]
		place := appendMessagePlace(nil, part)
		place = append(place, tail...)
		for j := range part.Messages {
			message := &part.Messages[j]
			if len(dst)+len(message.Payload) > popPiece && !first {
				if !begun {
					x.begin(http.StatusOK, contentJSON, -1)
					begun = true
				}
				if x.write(dst) != nil {
					return
				}
				dst = dst[:0]
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendMessage(dst, message)
			dst = append(dst, place...)
			attempt := 1
			if j < part.Repeated {
				attempt = part.Attempt
			}
			dst = append(strconv.AppendInt(dst, int64(attempt), 10), '}')
		}
	}
	dst = appendPopEnd(dst, answer)
	b.data = dst
	if !begun {
		x.json(http.StatusOK, dst)
		return
	}
	_ = x.write(dst)
}

func appendPopHead(dst []byte, request *broker.PopRequest, answer *broker.PopAnswer) []byte {
	queue := request.Queue
	if request.Discovery {
		queue = ""
	}
	dst = append(dst, `{"success":true,"queue":`...)
	dst = jsonwire.AppendString(dst, queue)
	if len(answer.Parts) > 0 {
		dst = append(dst, `,"partition":`...)
		dst = jsonwire.AppendString(dst, answer.Parts[0].Partition)
		dst = append(dst, `,"partitionId":`...)
		dst = jsonwire.AppendUUID(dst, answer.Parts[0].PartitionID)
	} else { // of a conflating group
		dst = append(dst, `,"partition":"","partitionId":""`...)
	}
	dst = append(dst, `,"leaseId":`...)
	dst = appendLease(dst, answer)
	dst = append(dst, `,"consumerGroup":`...)
	dst = appendGroup(dst, answer)
	dst = append(dst, `,"partitionsClaimed":`...)
	dst = strconv.AppendInt(dst, int64(len(answer.Parts)), 10)
	return append(dst, `,"messages":[`...)
}

// appendPopEnd closes the list of messages; the keys after it are there only in the modes that they tell of.
func appendPopEnd(dst []byte, answer *broker.PopAnswer) []byte {
	dst = append(dst, ']')
	if answer.Conflation {
		dst = append(dst, `,"conflation":true`...)
	}
	if answer.ConflationConflict {
		dst = append(dst, `,"conflationConflict":true`...)
	}
	if choice := answer.Autopilot; choice != nil {
		dst = append(dst, `,"autopilot":{"partitions":`...)
		dst = strconv.AppendInt(dst, int64(choice.Partitions), 10)
		dst = append(dst, `,"batch":`...)
		dst = strconv.AppendInt(dst, int64(choice.Batch), 10)
		dst = append(dst, `,"waitMs":`...)
		dst = strconv.AppendInt(dst, choice.FillWait.Milliseconds(), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendMessage appends what differs from message to message; the rest is the same for all messages of a partition.
func appendMessage(dst []byte, message *broker.Message) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsonwire.AppendUUID(dst, message.ID)
	dst = append(dst, `,"transactionId":`...)
	dst = jsonwire.AppendString(dst, message.TransactionID)
	dst = append(dst, `,"traceId":`...)
	if message.TraceID == uuid.Nil {
		dst = append(dst, "null"...)
	} else {
		dst = jsonwire.AppendUUID(dst, message.TraceID)
	}
	dst = append(dst, `,"data":`...)
	dst = append(dst, message.Payload...)
	dst = append(dst, `,"producerSub":`...)
	dst = appendOptional(dst, message.ProducerSub)
	dst = append(dst, `,"createdAt":`...)
	return jsonwire.AppendMicros(dst, message.CreatedAt)
}

func appendMessagePlace(dst []byte, part *broker.PopPart) []byte {
	dst = append(dst, `,"partitionId":`...)
	dst = jsonwire.AppendUUID(dst, part.PartitionID)
	dst = append(dst, `,"partition":`...)
	return jsonwire.AppendString(dst, part.Partition)
}

func appendMessageTail(dst []byte, answer *broker.PopAnswer) []byte {
	dst = append(dst, `,"leaseId":`...)
	dst = appendLease(dst, answer)
	dst = append(dst, `,"consumerGroup":`...)
	dst = appendGroup(dst, answer)
	return append(dst, `,"deliveryAttempt":`...)
}

// appendLease appends the lease id, "" for an answer that needs no ack.
func appendLease(dst []byte, answer *broker.PopAnswer) []byte {
	if answer.Lease == uuid.Nil {
		return append(dst, `""`...)
	}
	return jsonwire.AppendUUID(dst, answer.Lease)
}

func appendGroup(dst []byte, answer *broker.PopAnswer) []byte {
	if answer.Group == "" {
		return jsonwire.AppendString(dst, broker.QueueMode)
	}
	return jsonwire.AppendString(dst, answer.Group)
}

// appendOptional appends null for an empty text.
func appendOptional(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	return jsonwire.AppendString(dst, text)
}
