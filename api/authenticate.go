package api

import "net/http"

const (
	authorizationHeader = "Authorization"
	challengeHeader     = "Www-Authenticate"
)

var bearerChallenge = []string{"Bearer"}

// authenticate lets the verifier decide, on the same text of the path that the route is found in, and notes whose
// request it is; or it answers the refusal.
func (x *exchange) authenticate() bool {
	id, refusal := x.server.parts.Auth.Check(x.r.Context(), x.r.Method, x.path, x.r.Header[authorizationHeader])
	if refusal == nil {
		x.producerSub = id.Subject
		return true
	}
	x.server.metrics.refused.WithLabelValues(refusal.Reason).Inc()
	if refusal.Status == http.StatusUnauthorized {
		x.w.Header()[challengeHeader] = bearerChallenge
	}
	x.fail(refusal.Status, refusal.Text, "")
	return false
}
