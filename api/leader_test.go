package api

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/api/auth"
)

func TestLeaderAndJobsAreSteeredThroughAnyBroker(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.jobs = []Job{
		{Name: "purge", Enabled: true, NextDue: created},
		{
			Name: "retention", NextDue: created, LastStart: created, LastSuccess: created.Add(-time.Minute), LastFailure: created,
			LastError: `no "disk"`, LastRows: 3, RowsDone: 40, MinBuild: 8,
		},
	}
	f.requireJSON(f.do("GET", "/api/v1/cluster/leader", ""), http.StatusOK, `{"name":null,"startId":null,"epoch":null,"since":null,"isSelf":false,"jobs":[`+
		`{"name":"purge","enabled":true,"nextDue":"2031-04-05T06:07:08.123Z","lastStart":null,"lastSuccess":null,"lastFailure":null,"lastError":null,"lastRows":0,"rowsDone":0,"minBuild":0},`+
		`{"name":"retention","enabled":false,"nextDue":"2031-04-05T06:07:08.123Z","lastStart":"2031-04-05T06:07:08.123Z","lastSuccess":"2031-04-05T06:06:08.123Z",`+
		`"lastFailure":"2031-04-05T06:07:08.123Z","lastError":"no \"disk\"","lastRows":3,"rowsDone":40,"minBuild":8}]}`)
	f.requireJSON(f.do("POST", "/api/v1/cluster/leader/step-down", "", "Authorization", "Bearer x"), http.StatusOK, `{"steppedDown":"b1"}`)
	f.requireJSON(f.do("POST", "/api/v1/cluster/leader/jobs/purge/run", "", ForwardedHeader, "1"), http.StatusOK, `{"job":"purge","due":"now"}`)
	f.requireJSON(f.do("POST", "/api/v1/cluster/leader/jobs/purge", `{"enabled":false}`), http.StatusOK, `{"job":"purge","enabled":false}`)
	require.Equal(t, []string{`step down for "Bearer x" false`, `run purge for "" true`, "purge false"}, f.steered)

	for err, status := range map[error]int{
		ErrNoJob: http.StatusNotFound, ErrJobOff: http.StatusConflict, ErrNoLeader: http.StatusConflict, ErrLeaderMoved: http.StatusConflict,
		errors.New("timeout"): http.StatusInternalServerError,
	} {
		f.err = err
		require.Equal(t, status, f.do("POST", "/api/v1/cluster/leader/jobs/purge/run", "").Code, err)
	}
	require.Equal(t, http.StatusInternalServerError, f.do("GET", "/api/v1/cluster/leader", "").Code)
	for _, path := range []string{"step-down", "jobs/purge/run", "jobs/purge"} {
		require.Equal(t, auth.Admin, auth.LevelOf(http.MethodPost, "/api/v1/cluster/leader/"+path))
	}
	require.Equal(t, auth.ReadOnly, auth.LevelOf(http.MethodGet, "/api/v1/cluster/leader"))
}
