package conformance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// token signs claims as HS256 does.
func token(t testing.TB, claims object) string {
	t.Helper()
	return signed(t, object{"alg": "HS256", "typ": "JWT"}, claims, *jwtSecret)
}

func signed(t testing.TB, header, claims object, secret string) string {
	t.Helper()
	h, err := json.Marshal(header)
	require.NoError(t, err)
	c, err := json.Marshal(claims)
	require.NoError(t, err)
	text := base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func TestB15Authentication(t *testing.T) {
	t.Parallel()
	s, q := jwtServer.get(t), unique("b15")
	as := func(claims object) *server { return s.with("Authorization", "Bearer "+token(t, claims)) }
	writer, consumer := as(object{"sub": "press", "role": "write-only"}), as(object{"roles": list{"read-write"}})

	body := object{"items": list{object{"queue": q, "transactionId": "1", "payload": 1, "producerSub": "forged"}}}
	writer.post(t, "/api/v1/push", body).is(t, 201, pushedForm)
	as(object{"sub": "", "role": "write-only"}).post(t, "/api/v1/push", object{"items": list{item(q, "Default", "2", 1)}}).is(t, 201, pushedForm)
	popped := pop(t, consumer, q, "")
	require.Equal(t, "press", popped.at(t, "messages", 0, "producerSub"))
	require.Nil(t, popped.at(t, "messages", 1, "producerSub"), "an empty sub is null")
	as(object{"sub": "mover", "role": "admin"}).post(t, "/api/v1/transaction", object{"operations": list{pushOperation(item(q, "moved", "3", 1))}}).
		is(t, 200, committedForm)
	require.Equal(t, "mover", pop(t, consumer, q, "").at(t, "messages", 0, "producerSub"))

	now := time.Now().Unix()
	for name, c := range map[string]struct{ header, text string }{
		"no token":         {"", "Authentication required"},
		"no JWT":           {"Bearer nonsense", "Bad token header"},
		"none":             {"Bearer " + signed(t, object{"alg": "none"}, object{"role": "admin"}, ""), "Unsupported token algorithm"},
		"other algorithm":  {"Bearer " + signed(t, object{"alg": "HS512"}, object{"role": "admin"}, *jwtSecret), "Unsupported token algorithm"},
		"wrong secret":     {"Bearer " + signed(t, object{"alg": "HS256"}, object{"role": "admin"}, "other"), "Invalid token signature"},
		"expired":          {"Bearer " + token(t, object{"role": "admin", "exp": now - 3600}), "Token has expired"},
		"not yet":          {"Bearer " + token(t, object{"role": "admin", "nbf": now + 3600}), "Token not yet valid"},
		"from the future":  {"Bearer " + token(t, object{"role": "admin", "iat": now + 3600}), "Token issued in the future"},
		"in the query too": {"", "Authentication required"},
	} {
		caller := s
		if c.header != "" {
			caller = s.with("Authorization", c.header)
		}
		got := caller.get(t, "/api/v1/resources/queues?token="+token(t, object{"role": "admin"})).is(t, 401, "{error:string}")
		require.Equal(t, c.text, got.text(t, "error"), name)
	}
	good := token(t, object{"role": "admin", "exp": now - 10, "nbf": now + 10})
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER ", ""} {
		s.with("Authorization", scheme+good).get(t, "/api/v1/resources/queues").is(t, 200, "{queues:[any]}")
	}
	for _, public := range []string{"/health", "/metrics", "/metrics/prometheus"} {
		require.Equal(t, 200, s.get(t, public).status, public)
		require.Equal(t, 200, s.with("Authorization", "Bearer nonsense").get(t, public).status, public)
	}
}

// levels are sets: who may call what (section 2 and the index).
func TestLevels(t *testing.T) {
	t.Parallel()
	s := jwtServer.get(t)
	readers, writers := []string{"read-only", "read-write", "admin"}, []string{"write-only", "read-write", "admin"}
	both, admins := []string{"read-write", "admin"}, []string{"admin"}
	allowed := map[string][]string{}
	for _, route := range inScope {
		switch {
		case contains(route, "GET /api/v1/pop", "POST /api/v1/ack", "/transaction", "/lease/", "configure", "/traces", "/retry", "/replay", "/seek",
			"/subscription", "queries", "cycle") && !contains(route, "GET /api/v1/traces"):
			allowed[route] = both
		case contains(route, "/system/", "stats/refresh", "DELETE /api/v1/consumer-groups", "DELETE /api/v1/resources", "DELETE /api/v1/dlq"):
			allowed[route] = admins
		case contains(route, "/push"):
			allowed[route] = writers
		case contains(route, "DELETE /api/v1/messages"):
			allowed[route] = both
		case contains(route, "GET /health", "GET /metrics"):
			continue
		default:
			allowed[route] = readers
		}
	}
	allowed["GET /api/v1/nowhere"] = both
	for route, roles := range allowed {
		for _, role := range []string{"read-only", "write-only", "read-write", "admin", "guest"} {
			method, path := filled(route)
			caller := s.with("Authorization", "Bearer "+token(t, object{"role": role}))
			got := caller.call(t, method, path, `{"enabled":0}`)
			if may := slices.Contains(roles, role); may {
				require.NotContains(t, []int{401, 403}, got.status, "%s as %s: %s", route, role, got.body)
			} else {
				require.Equal(t, 403, got.status, "%s as %s: %s", route, role, got.body)
				require.Equal(t, "Insufficient permissions", got.text(t, "error"))
			}
		}
		method, path := filled(route)
		s.call(t, method, path, "{}").is(t, 401, "{error:=Authentication required}")
	}
}
