package api

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPopMaintenance(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const path = "/api/v1/system/maintenance/pop"
	f.requireJSON(f.do("GET", path, ""), http.StatusOK, `{"popMaintenanceMode":false,"message":"Pop maintenance mode is OFF. Normal operation."}`)
	f.requireJSON(f.do("POST", path, `{"enabled":true}`), http.StatusOK,
		`{"popMaintenanceMode":true,"message":"Pop maintenance mode ENABLED. All POP operations will return empty arrays."}`)
	require.True(t, f.paused)
	f.requireJSON(f.do("GET", "/api/v1/system/shared-state", ""), http.StatusOK,
		`{"enabled":false,"reason":"single_node_segments_broker","maintenance_mode":false,"pop_maintenance_mode":true}`)
	whole := f.do("GET", "/api/v1/system/maintenance", "")
	require.Equal(t, http.StatusOK, whole.Code)
	require.Contains(t, whole.Body.String(), `{"maintenanceMode":false,"popMaintenanceMode":true,"bufferedMessages":0,"bufferHealthy":true,"bufferStats":{`)
	f.err = errors.New("gone")
	require.Equal(t, http.StatusOK, f.do("GET", "/api/v1/system/maintenance", "").Code, "never 500")
	require.Equal(t, http.StatusInternalServerError, f.do("POST", path, `{"enabled":false}`).Code)
	for _, body := range []string{`{}`, `{"enabled":"true"}`, `{"enabled":null}`} {
		for _, path := range []string{path, "/api/v1/system/maintenance"} {
			f.requireJSON(f.do("POST", path, body), http.StatusBadRequest, `{"error":"enabled (boolean) is required"}`)
		}
	}
	require.Equal(t, http.StatusBadRequest, f.do("POST", path, `{`).Code)
}

// This build has nowhere to put pushes but the database: it must not pretend.
func TestPushMaintenanceIsRefused(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := f.do("POST", "/api/v1/system/maintenance", `{"enabled":true}`)
	require.Equal(t, http.StatusNotImplemented, w.Code)
	require.Contains(t, w.Body.String(), `"code":"not_implemented"`)
}

func TestNotifyIsAHint(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.requireJSON(f.do("POST", "/internal/api/notify", `{"queue":"q","partition":"p"}`), http.StatusOK, `{"status":"ok"}`)
	f.requireJSON(f.do("POST", "/internal/api/notify", `{"queue":"q"}`), http.StatusOK, `{"status":"ok"}`)
	require.Equal(t, []string{"q/p", "q/"}, f.hinted)
	require.Equal(t, http.StatusBadRequest, f.do("POST", "/internal/api/notify", `{"partition":"p"}`).Code)
}
