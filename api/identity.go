package api

import (
	"net/http"

	"waggle/api/jsonwire"
	"waggle/broker"
)

// showIdentity is GET /auth/me: who a dashboard's user is. Without tokens everybody is the operator of the one cluster there is;
// with them this broker keeps no sessions, and a dashboard has to bring its own.
func (s *Server) showIdentity(x *exchange) {
	if s.parts.Auth != nil {
		x.w.Header()[challengeHeader] = bearerChallenge
		x.fail(http.StatusUnauthorized, "auth_required", "auth_required")
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"user_id":"standalone","email":null,"tenant_slug":"local","is_operator":true,"operator_enabled":true,`+
			`"operator_live":true,"acting_cluster":{"id":`...)
		dst = jsonwire.AppendString(dst, s.settings.ClusterID)
		dst = append(dst, `,"slug":"local"},"clusters":[{"id":`...)
		dst = jsonwire.AppendString(dst, s.settings.ClusterID)
		dst = append(dst, `,"slug":"local","role":"admin","tenant_slug":"local","tenant_id":`...)
		dst = jsonwire.AppendUUID(dst, broker.DefaultTenant)
		dst = append(dst, `,"status":"active","cell_slug":`...)
		dst = jsonwire.AppendString(dst, s.settings.ServerID)
		return append(dst, `}],"act_cluster_header":"x-queen-act-cluster","role":"admin","cluster":null,"standalone":true}`...)
	})
}

const loginPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>waggle</title></head>
<body><p>This broker has no login: where it asks for tokens, they go into the header <code>Authorization</code>.</p></body></html>
`

var contentHTML = []string{"text/html; charset=utf-8"}

// showLogin is GET /auth/login. There is nothing at / that it could lead to.
func (s *Server) showLogin(x *exchange) {
	x.begin(http.StatusOK, contentHTML, len(loginPage))
	_ = x.write([]byte(loginPage))
}

// logout is POST /auth/logout: there is no session to end. Its body means nothing.
func (s *Server) logout(x *exchange) { x.json(http.StatusOK, []byte(`{"ok":true}`)) }
