package node_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// A role that may do more makes the tables with what `migrate up --print` says, and brokers then live with no right but to
// use them, whether they are told to leave the schema alone or find nothing to do.
func TestBrokersNeedNoRightButTheirTables(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t, pgtest.Empty())
	super := connectTo(t, database.SuperURL)
	var printed bytes.Buffer
	p := startProcess(t, []string{"WAGGLE_DATABASE_URL=" + database.SuperURL}, &printed, "migrate", "up", "--print")
	require.Zero(t, p.exitCode(t, patience), p.log)
	for range 2 { // it may be run again
		psql := exec.Command("psql", "--no-psqlrc", "--quiet", database.SuperURL)
		psql.Stdin = strings.NewReader(printed.String())
		output, err := psql.CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
	role := strings.ReplaceAll(database.Name, "-", "_") + "_low"
	for _, statement := range []string{
		"create role %s login password 'low'",
		"grant usage on schema waggle to %s",
		"grant select, insert, update, delete, truncate on all tables in schema waggle to %s",
		"grant usage on all sequences in schema waggle to %s",
	} {
		_, err := super.Exec(t.Context(), fmt.Sprintf(statement, role))
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		_, err := super.Exec(context.Background(), fmt.Sprintf("drop owned by %s; drop role %s", role, role))
		require.NoError(t, err)
	})
	low, err := url.Parse(database.URL)
	require.NoError(t, err)
	low.User = url.UserPassword(role, "low")
	again := startProcess(t, []string{"WAGGLE_DATABASE_URL=" + low.String()}, &printed, "migrate", "check")
	require.Zero(t, again.exitCode(t, patience), again.log)

	c := startCluster(t, low.String(), 1, "WAGGLE_APPLY_SCHEMA=0")
	c = append(c, startCluster(t, low.String(), 1, "WAGGLE_NAME=broker-2")...)
	w := startWorkload(t, "orders", c.urls(), 2, 2)
	c.awaitLeader(t, c[0], 0)
	eventually(t, "the leader says which index it may not build", func() bool {
		return strings.Contains(c[0].log.String()+c[1].log.String(), "WG0060")
	})
	pusher := newClient(t, c[0].url)
	results, err := pusher.Push(t.Context(), []client.Item{{Queue: "other", Partition: "p"}})
	require.NoError(t, err)
	require.Equal(t, client.Queued, results[0].Status)
	require.Equal(t, http.StatusOK, call(t, http.MethodDelete, c[1].url+"/api/v1/resources/queues/other", "").status)
	w.finish(t, true)
}

// A broker does not run on tables that are not as it needs them, nor on what another program made.
func TestABrokerLeavesAloneWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	damaged, foreign := pgtest.New(t), pgtest.New(t, pgtest.Empty())
	_, err := connectTo(t, damaged.SuperURL).Exec(t.Context(), "alter table waggle.cursor drop column attempt")
	require.NoError(t, err)
	_, err = connectTo(t, foreign.URL).Exec(t.Context(), "create schema waggle; create table waggle.bees (n int)")
	require.NoError(t, err)
	at := func(database string) []string {
		return []string{"--listen", freeAddress(t), "--mesh-listen", "127.0.0.1:0", "--database-url", database}
	}
	requireRefusal(t, exitGate, 1, []string{"WG0054", "column cursor.attempt is missing", "waggle migrate check"}, nil, at(damaged.URL)...)
	for _, apply := range []string{"1", "0"} {
		requireRefusal(t, exitGate, 1, []string{"WG0055", `it holds "bees"`}, []string{"QUEEN_APPLY_SCHEMA=" + apply}, at(foreign.URL)...)
	}
	var script bytes.Buffer
	p := startProcess(t, []string{"WAGGLE_DATABASE_URL=" + damaged.URL}, &script, "migrate", "check")
	require.Equal(t, exitGate, p.exitCode(t, patience))
	require.Contains(t, script.String(), "\nalter table waggle.\"cursor\" add column \"attempt\" integer default 0 not null;\n")
}
