package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

type leading struct {
	Name  *string
	Epoch *int64
}

// leader asks one broker who leads.
func (m *member) leader(t testing.TB) leading {
	t.Helper()
	got := call(t, http.MethodGet, m.url+"/api/v1/cluster/leader", "")
	require.Equal(t, http.StatusOK, got.status)
	var answer leading
	require.NoError(t, json.Unmarshal([]byte(got.body), &answer))
	return answer
}

// awaitLeader returns the broker that leads, the epoch, and how long it took until a broker knew it.
func (c cluster) awaitLeader(t testing.TB, ask *member, after int64) (leader *member, epoch int64, took time.Duration) {
	t.Helper()
	took = eventually(t, "somebody leads", func() bool {
		now := ask.leader(t)
		if now.Name == nil || *now.Epoch <= after {
			return false
		}
		for _, m := range c {
			if m.name == *now.Name {
				leader, epoch = m, *now.Epoch
			}
		}
		return true
	})
	require.NotNil(t, leader)
	return leader, epoch, took
}

// When the leader goes, another leads soon, and goes on with the work. The times that are promised are measured by
// `make test-leader`; here the machine may be busy.
func TestAnotherLeads(t *testing.T) {
	c := startCluster(t, pgtest.New(t).URL, 3, "WAGGLE_RETENTION_INTERVAL=200ms")
	c.awaitMesh(t)
	survivorOf := func(leader *member) *member {
		if c[0] == leader {
			return c[1]
		}
		return c[0]
	}
	leader, epoch, _ := c.awaitLeader(t, c[0], 0)
	requireRetention(t, survivorOf(leader), "under the first leader")

	for _, end := range []struct {
		name   string
		signal syscall.Signal
		limit  time.Duration
	}{
		{"killed", syscall.SIGKILL, 10 * time.Second},
		{"told to stop", syscall.SIGTERM, 5 * time.Second},
	} {
		survivor, gone := survivorOf(leader), leader
		gone.signal(end.signal)
		var took time.Duration
		leader, epoch, took = c.awaitLeader(t, survivor, epoch)
		t.Logf("%s: %s leads %v later", end.name, leader.name, took)
		require.NotEqual(t, gone.name, leader.name)
		require.Less(t, took, end.limit, end.name)
		require.Equal(t, 1.0, leader.metric(t, "waggle_leader_is_leader"))
		if end.signal == syscall.SIGTERM {
			require.Zero(t, gone.exitCode(t, patience))
		} else {
			<-gone.done
		}
		requireRetention(t, survivor, "after the leader was "+end.name)
		gone.restart(t)
		require.Zero(t, gone.metric(t, "waggle_leader_is_leader"))
	}
}

// requireRetention stores messages that retention has to take away, and waits until it did.
func requireRetention(t *testing.T, m *member, when string) {
	t.Helper()
	cl := newClient(t, m.url)
	queue := fmt.Sprint("kept for a second ", when)
	_, err := cl.Configure(t.Context(), client.Configuration{
		Queue: queue, Options: map[string]any{"retentionEnabled": true, "retentionSeconds": 1},
	})
	require.NoError(t, err)
	_, err = cl.Push(t.Context(), []client.Item{{Queue: queue}, {Queue: queue}})
	require.NoError(t, err)
	pop := func(group string) *client.PopAnswer {
		got, err := cl.Pop(t.Context(), client.PopRequest{Queue: queue, Group: group, Mode: "all"})
		require.NoError(t, err)
		return got
	}
	require.Len(t, pop("before").Messages, 2)
	attempt := 0
	eventually(t, "retention takes the messages away "+when, func() bool {
		attempt++
		return pop(fmt.Sprint("after-", attempt)) == nil
	})
}
