package api

import (
	"math"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"waggle/api/jsonwire"
)

const defaultExtendSeconds = 60

// extend is POST /api/v1/lease/:leaseId/extend.
func (s *Server) extend(x *exchange) {
	b := x.readBody()
	if b == nil {
		return
	}
	seconds := extendSeconds(b.data)
	b.release()
	lease := x.names[0]
	result, err := s.parts.Broker.Extend(x.r.Context(), x.tenant, lease, seconds)
	if err != nil {
		s.logger.Warn("renew failed", zap.String("code", "WG0501"), zap.String("request_id", x.requestID()), zap.Error(err))
		text := "renew failed: " + err.Error()
		if unavailable(err) {
			text = "pool"
		}
		x.fail(http.StatusInternalServerError, text, "")
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"leaseId":`...)
		dst = jsonwire.AppendString(dst, lease)
		dst = append(dst, `,"success":`...)
		dst = strconv.AppendBool(dst, result.Renewed > 0)
		dst = append(dst, `,"renewed":`...)
		dst = strconv.AppendInt(dst, int64(result.Renewed), 10)
		for _, name := range [...]string{"newExpiresAt", "expiresAt", "lease_expires_at"} { // one per generation of clients
			dst = append(dst, `,"`...)
			dst = append(dst, name...)
			dst = append(dst, `":`...)
			if result.Renewed > 0 {
				dst = jsonwire.AppendMicros(dst, result.ExpiresAt)
			} else {
				dst = append(dst, "null"...)
			}
		}
		return append(dst, '}')
	})
}

// extendSeconds reads the body leniently, as the contract wants it: whatever is not an object with a whole number of
// seconds means the default. The least is 1.
func extendSeconds(data []byte) int {
	seconds := int64(defaultExtendSeconds)
	var scanner jsonwire.Scanner
	scanner.Reset(data)
	scanner.BeginObject()
	for key, ok := scanner.NextKey(); ok; key, ok = scanner.NextKey() {
		if string(key) == "seconds" && !scanner.Null() {
			seconds, _ = scanner.Int()
			continue
		}
		scanner.Raw()
	}
	if scanner.End() != nil {
		return defaultExtendSeconds
	}
	return int(min(max(seconds, 1), math.MaxInt32))
}
