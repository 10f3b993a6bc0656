package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// Whichever broker is asked, the leader steps down, and its jobs run, stop and start again.
func TestLeaderIsSteeredThroughEveryBroker(t *testing.T) {
	for _, mesh := range []string{"on", "off"} {
		t.Run("mesh "+mesh, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, pgtest.New(t).URL, 2, "WAGGLE_MESH="+mesh, "WAGGLE_RETENTION_INTERVAL=1h")
			for _, m := range c {
				asked := newClient(t, m.url)
				var before client.LeaderStatus
				eventually(t, "somebody leads and has run all jobs", func() bool {
					var err error
					before, err = asked.Leader(t.Context())
					return err == nil && before.Name != "" && len(before.Jobs) > 5 && jobOf(before, "retention").LastSuccess != nil
				})
				began := time.Now()
				name, err := asked.StepDown(t.Context())
				require.NoError(t, err)
				require.Equal(t, before.Name, name)
				var after client.LeaderStatus
				eventually(t, "another broker leads", func() bool {
					after, err = asked.Leader(t.Context())
					return err == nil && after.Name != "" && after.Epoch > before.Epoch
				})
				require.NotEqual(t, before.Name, after.Name)
				t.Logf("asked %s, %s led: another leads after %v", m.name, before.Name, time.Since(began))

				last := jobOf(after, "retention").LastSuccess
				require.NoError(t, asked.RunJob(t.Context(), "retention"))
				took := eventually(t, "a job that is due in an hour runs at once", func() bool {
					status, err := asked.Leader(t.Context())
					return err == nil && jobOf(status, "retention").LastSuccess.After(*last)
				})
				require.Less(t, took, 15*time.Second, "the leader was told")

				require.NoError(t, asked.SwitchJob(t.Context(), "retention", false))
				err = asked.RunJob(t.Context(), "retention")
				require.ErrorContains(t, err, "switched off")
				require.NoError(t, asked.SwitchJob(t.Context(), "retention", true))
				require.ErrorContains(t, asked.RunJob(t.Context(), "nonsense"), "no leader has ever had a job")
			}
		})
	}
}

func jobOf(status client.LeaderStatus, name string) client.Job {
	for _, job := range status.Jobs {
		if job.Name == name {
			return job
		}
	}
	return client.Job{}
}

// A job that is switched off does not run, whoever leads, and one that needs a newer build is left to that.
func TestJobsThatAreOffOrNeedANewerBuildRest(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	c := startCluster(t, database.URL, 1, "WAGGLE_RETENTION_INTERVAL=200ms")
	asked := newClient(t, c[0].url)
	runs := func(job string) float64 {
		return c[0].metric(t, fmt.Sprintf(`waggle_leader_job_runs_total{job=%q}`, job))
	}
	eventually(t, "retention runs", func() bool { return runs("retention") > 1 })
	require.NoError(t, asked.SwitchJob(t.Context(), "retention", false))
	time.Sleep(300 * time.Millisecond) // for a run that had begun
	at := runs("retention")
	time.Sleep(time.Second)
	require.Equal(t, at, runs("retention"))
	require.NoError(t, asked.SwitchJob(t.Context(), "retention", true))
	eventually(t, "retention runs again", func() bool { return runs("retention") > at })

	conn, err := pgx.Connect(t.Context(), database.URL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "update waggle.job set min_build = 9999 where name = 'retention'")
	require.NoError(t, err)
	time.Sleep(500 * time.Millisecond)
	at = runs("retention")
	time.Sleep(time.Second)
	require.Equal(t, at, runs("retention"))
	status, err := asked.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, 9999, jobOf(status, "retention").MinBuild)
}

// The command waits for the successor and says who it is.
func TestStepDownByCommand(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgtest.New(t).URL, 2)
	eventually(t, "somebody leads", func() bool {
		return strings.Contains(call(t, http.MethodGet, c[0].url+"/api/v1/cluster/leader", "").body, `"name":"broker`)
	})
	var out strings.Builder
	p := startProcess(t, nil, &out, "leader", "step-down", "--url", c[0].url, "--output", "json")
	require.Equal(t, 0, p.exitCode(t, patience), p.log)
	var answer struct {
		SteppedDown, Leads string
		Epoch              int
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &answer))
	require.NotEqual(t, answer.SteppedDown, answer.Leads)
	require.NotEmpty(t, answer.Leads)
	out.Reset()
	p = startProcess(t, nil, &out, "leader", "status", "--url", c[1].url)
	require.Equal(t, 0, p.exitCode(t, patience), p.log)
	require.Contains(t, out.String(), answer.Leads+" leads since")
	require.Contains(t, out.String(), "NEXT DUE", "its jobs, as far as they have run")
}
