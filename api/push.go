package api

import (
	"net/http"
	"strconv"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// push is POST /api/v1/push.
func (s *Server) push(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	defer b.release()
	d := takePushDecoder()
	defer d.release()
	items, err := d.decode(b.data)
	if err != nil {
		x.fail(http.StatusBadRequest, err.Error(), "")
		return
	}
	if len(items) == 0 {
		x.json(http.StatusCreated, []byte("[]"))
		return
	}
	results := s.parts.Broker.Push(x.r.Context(), x.tenant, x.producerSub, items)
	x.answer(http.StatusCreated, func(dst []byte) []byte {
		dst = append(dst, '[')
		for i := range results {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendPushResult(dst, i, items[i].Queue, &results[i])
		}
		return append(dst, ']')
	})
}

func appendPushResult(dst []byte, index int, queue string, result *broker.PushResult) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"message_id":`...)
	dst = jsonwire.AppendUUID(dst, result.MessageID)
	dst = append(dst, `,"transaction_id":`...)
	dst = jsonwire.AppendString(dst, result.TransactionID)
	dst = append(dst, `,"queueName":`...)
	dst = jsonwire.AppendString(dst, queue)
	dst = append(dst, `,"status":`...)
	dst = jsonwire.AppendString(dst, string(result.Status))
	if result.Status == broker.Failed {
		dst = append(dst, `,"error":"internal"`...)
	}
	return append(dst, '}')
}
