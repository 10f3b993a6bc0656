package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/mesh"
)

func TestPingMeasuresTheWayToAPeerAndBack(t *testing.T) {
	t.Parallel()
	b := socketCluster(t, 2)
	peer, found := b[0].View().ByStartID(b[1].start)
	require.True(t, found)
	took, err := b[0].Ping(peer)
	require.NoError(t, err)
	require.Positive(t, took)

	other := peer
	other.Name = "somebody else" // who has the address now does not answer for another
	_, err = b[0].Ping(other)
	require.ErrorIs(t, err, mesh.ErrNoEcho)
	b[1].Stop()
	_, err = b[0].Ping(peer)
	require.ErrorIs(t, err, mesh.ErrNoEcho)
	other.Address = "nowhere"
	_, err = b[0].Ping(other)
	require.ErrorContains(t, err, "ping somebody else")
	require.NotErrorIs(t, err, mesh.ErrNoEcho)
}
