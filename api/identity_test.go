package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"waggle/api/auth"
)

func TestIdentityWithoutTokensIsTheOperator(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) {
		f.settings.ClusterID, f.settings.ServerID, f.settings.Tenancy = "6f9d7d0e-0000-4000-8000-000000000001", `b"1`, true
	})
	w := f.do("GET", "/auth/me", "", "X-Queen-Tenant", "nonsense")
	f.requireJSON(w, http.StatusOK, `{"user_id":"standalone","email":null,"tenant_slug":"local","is_operator":true,"operator_enabled":true,"operator_live":true,`+
		`"acting_cluster":{"id":"6f9d7d0e-0000-4000-8000-000000000001","slug":"local"},"clusters":[{"id":"6f9d7d0e-0000-4000-8000-000000000001","slug":"local","role":"admin",`+
		`"tenant_slug":"local","tenant_id":"00000000-0000-0000-0000-000000000001","status":"active","cell_slug":"b\"1"}],`+
		`"act_cluster_header":"x-queen-act-cluster","role":"admin","cluster":null,"standalone":true}`)
	requireLoginPages(f)
}

func TestIdentityWithTokensIsTheirBusiness(t *testing.T) {
	t.Parallel()
	f := setup(t, func(f *fixture) { f.auth = auth.New(auth.DefaultSettings(), zap.NewNop()) })
	for _, header := range [][]string{nil, {"Authorization", "Bearer nonsense"}} {
		w := f.do("GET", "/auth/me", "", header...)
		f.requireJSON(w, http.StatusUnauthorized, `{"error":"auth_required","code":"auth_required"}`)
		require.Equal(t, "Bearer", w.Header().Get("Www-Authenticate"))
	}
	requireLoginPages(f)
}

// requireLoginPages checks what is the same with and without tokens.
func requireLoginPages(f *fixture) {
	f.Helper()
	w := f.do("GET", "/auth/login", "")
	require.Equal(f, http.StatusOK, w.Code)
	require.Equal(f, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(f, w.Body.String(), "no login")
	for _, body := range []string{"", "{}", "{"} {
		f.requireJSON(f.do("POST", "/auth/logout", body), http.StatusOK, `{"ok":true}`)
	}
	require.Equal(f, http.StatusMethodNotAllowed, f.do("GET", "/auth/logout", "").Code)
}
