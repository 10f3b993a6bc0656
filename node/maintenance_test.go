package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// Pop maintenance holds on every broker, with and without the mesh, outlives a restart of all, and loses nothing.
func TestPopMaintenanceIsClusterWideAndDurable(t *testing.T) {
	for name, mesh := range map[string]string{"hints": "on", "heartbeats": "off"} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, pgtest.New(t).URL, 2, "WAGGLE_MESH="+mesh)
			const path = "/api/v1/system/maintenance/pop"
			turn := func(on string) {
				got := call(t, http.MethodPost, c[0].url+path, `{"enabled":`+on+`}`)
				require.Equal(t, http.StatusOK, got.status, got.body)
				began := time.Now()
				require.Eventually(t, func() bool {
					// A look at shared-state asks the broker itself, and not the database.
					state := call(t, http.MethodGet, c[1].url+"/api/v1/system/shared-state", "")
					return state.body == `{"enabled":false,"reason":"single_node_segments_broker","maintenance_mode":false,"pop_maintenance_mode":`+on+`}`
				}, patience, 10*time.Millisecond)
				if mesh == "on" {
					require.Less(t, time.Since(began), 3*time.Second, "a hint is faster than the next heartbeat")
				}
			}
			other := newClient(t, c[1].url)
			if mesh == "on" {
				c.awaitMesh(t)
			}
			parked := make(chan *client.PopAnswer, 1)
			go func() {
				got, err := other.Pop(t.Context(), client.PopRequest{Queue: "held", Wait: true, Timeout: time.Minute, AutoAck: true})
				if err == nil {
					parked <- got
				}
			}()
			turn("true")
			_, err := newClient(t, c[0].url).Push(t.Context(), []client.Item{{Queue: "held"}})
			require.NoError(t, err)
			got, err := other.Pop(t.Context(), client.PopRequest{Queue: "held"})
			require.NoError(t, err)
			require.Nil(t, got)
			select {
			case <-parked:
				t.Fatal("a pop that was parked before got a message")
			case <-time.After(time.Second):
			}
			for _, m := range c {
				requireExchange(t, m, mesh == "on")
			}
			turn("false")
			select {
			case got := <-parked:
				require.Len(t, got.Messages, 1)
			case <-time.After(patience):
				t.Fatal("the parked pop got nothing after maintenance")
			}

			turn("true")
			for _, m := range c {
				m.kill()
			}
			c[1].restart(t)
			state := call(t, http.MethodGet, c[1].url+"/api/v1/system/maintenance", "")
			require.Contains(t, state.body, `"popMaintenanceMode":true`)
		})
	}
}

// requireExchange checks what a broker of two says of what they told each other, during pop maintenance.
func requireExchange(t *testing.T, m *member, mesh bool) {
	t.Helper()
	got := call(t, http.MethodGet, m.url+"/internal/api/inter-instance/stats", "")
	require.Equal(t, http.StatusOK, got.status)
	var answer struct {
		ServerID string   `json:"server_id"`
		Reason   string   `json:"reason"`
		Port     int      `json:"port"`
		Peers    []string `json:"peers"`
		Alive    int      `json:"servers_alive"`
		Dead     int      `json:"servers_dead"`
		Sent     int      `json:"messages_sent"`
		Received int      `json:"messages_received"`
		Enabled  bool     `json:"enabled"`
		Paused   bool     `json:"pop_maintenance_mode"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &answer))
	require.Equal(t, m.name, answer.ServerID)
	require.Equal(t, mesh, answer.Enabled)
	require.True(t, answer.Paused)
	if !mesh {
		require.Equal(t, "no_peers", answer.Reason)
		require.Empty(t, answer.Peers)
		return
	}
	require.Len(t, answer.Peers, 1)
	require.Equal(t, 1, answer.Alive)
	require.Zero(t, answer.Dead)
	require.Positive(t, answer.Port)
	require.NotContains(t, answer.Peers[0], fmt.Sprintf(":%d", answer.Port), "the port is this broker's own")
	require.Positive(t, answer.Sent)
	require.Positive(t, answer.Received)
}
