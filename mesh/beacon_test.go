package mesh

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestBeaconRounds(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	peers := []uuid.UUID{originA, targetA}
	t.Run("a round lasts until the last echo", func(t *testing.T) {
		t.Parallel()
		var b beacons
		n, _ := b.start(at(0), peers)
		require.Greater(t, n, uint64(helloRound))
		_, done := b.heard(echo{originA, n, at(9)})
		require.False(t, done)
		_, done = b.heard(echo{originA, n, at(10)})
		require.False(t, done, "twice from one is once")
		took, done := b.heard(echo{targetA, n, at(5)})
		require.True(t, done)
		require.Equal(t, 9*time.Millisecond, took, "echoes are stamped where they arrive")
	})
	t.Run("nobody waits for a peer that is gone", func(t *testing.T) {
		t.Parallel()
		var b beacons
		n, _ := b.start(at(0), peers)
		b.heard(echo{originA, n, at(3)})
		require.Equal(t, []time.Duration{3 * time.Millisecond}, b.lost(targetA))
		require.Empty(t, b.open)
	})
	t.Run("a lost echo shows as the age of its round", func(t *testing.T) {
		t.Parallel()
		var b beacons
		for i := range openRounds {
			_, overdue := b.start(at(i*1000), peers)
			require.Empty(t, overdue)
		}
		_, overdue := b.start(at(3000), peers)
		require.Equal(t, []time.Duration{3 * time.Second}, overdue)
	})
	t.Run("alone there is nothing to measure", func(t *testing.T) {
		t.Parallel()
		var b beacons
		for i := range 5 {
			_, overdue := b.start(at(i*1000), nil)
			require.Empty(t, overdue)
		}
	})
	require.Equal(t, time.Second, beaconEvery(19))
	require.Equal(t, 2*time.Second, beaconEvery(20))
}
