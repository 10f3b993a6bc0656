package node_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// meshStatus is the part of GET /api/v1/cluster/mesh that these tests look at.
type meshStatus struct {
	Enabled bool
	Self    struct{ Name, Address string }
	Peers   []struct {
		Name, State         string
		FrameVersion        int
		LastHeardMs, RTTMs  *float64
		FramesIn, FramesOut map[string]int
		Interest            *struct{ Held bool }
	}
	Interest *struct{ Generation int }
	Beacon   struct{ Count int }
	FramesIn map[string]int
	Unheard  []string
}

func (m *member) mesh(t testing.TB) (status meshStatus) {
	t.Helper()
	got := call(t, http.MethodGet, m.url+"/api/v1/cluster/mesh", "")
	require.Equal(t, http.StatusOK, got.status)
	require.NoError(t, json.Unmarshal([]byte(got.body), &status))
	return status
}

// awaitInterest waits until every broker has the summary of every other one.
func (c cluster) awaitInterest(t testing.TB) {
	t.Helper()
	for _, m := range c {
		eventually(t, m.name+" knows what the others are interested in", func() bool {
			held := 0
			for _, p := range m.mesh(t).Peers {
				if p.Interest != nil && p.Interest.Held {
					held++
				}
			}
			return held == len(c)-1
		})
	}
}

func TestTheMeshTellsWhatItDoes(t *testing.T) {
	database := pgtest.New(t).URL
	c := startCluster(t, database, 2)
	c.awaitMesh(t)
	c.awaitInterest(t)
	eventually(t, "beacons have been answered", func() bool {
		status := c[0].mesh(t)
		return status.Beacon.Count > 0 && status.Peers[0].RTTMs != nil && status.Peers[0].LastHeardMs != nil
	})
	status := c[0].mesh(t)
	require.True(t, status.Enabled)
	require.NotEmpty(t, status.Self.Address)
	require.Len(t, status.Peers, 1)
	require.Equal(t, "alive", status.Peers[0].State)
	require.Equal(t, 2, status.Peers[0].FrameVersion)
	require.Positive(t, status.Peers[0].FramesIn["beacon"])
	require.Positive(t, status.Peers[0].FramesOut["interest"])
	require.Empty(t, status.Unheard)

	t.Run("nobody is woken for a queue that nobody waits at", func(t *testing.T) {
		_, err := newClient(t, c[0].url).Push(t.Context(), []client.Item{{Queue: "alone"}})
		require.NoError(t, err)
		require.Positive(t, c[0].metric(t, "waggle_mesh_wakes_withheld_total"))
		require.Zero(t, c[0].mesh(t).Peers[0].FramesOut["wake"])
	})
	t.Run("a broker with interest switched off is told everything", func(t *testing.T) {
		off := newMember(t, "off", database, "WAGGLE_MESH_INTEREST=off")
		off.launch(t)
		off.awaitListening(t)
		append(c, off).awaitMesh(t)
		require.Nil(t, off.mesh(t).Interest)
		before := off.metric(t, `waggle_mesh_frames_in_total{kind="wake",version="2"}`)
		_, err := newClient(t, c[0].url).Push(t.Context(), []client.Item{{Queue: "alone"}})
		require.NoError(t, err)
		eventually(t, "the wake came", func() bool {
			return off.metric(t, `waggle_mesh_frames_in_total{kind="wake",version="2"}`) > before
		})
	})
	t.Run("without a mesh there is nothing to tell", func(t *testing.T) {
		alone := startCluster(t, pgtest.New(t).URL, 1, "WAGGLE_MESH=off")[0]
		status := alone.mesh(t)
		require.False(t, status.Enabled)
		require.Empty(t, status.Peers)
	})
}
