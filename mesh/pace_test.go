package mesh

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFramesKeepTheirPaceHoweverManyPeersThereAre(t *testing.T) {
	t.Parallel()
	for _, peers := range []int{1, 2, 9, 49, 200} {
		var p pace
		start := time.Unix(1000, 0)
		now, sent := start, 0
		for ; now.Sub(start) < 10*time.Second; sent++ {
			pause := p.pause(peers, now)
			require.GreaterOrEqual(t, pause, sendInterval)
			if sent < sendBurst/2 {
				require.Equal(t, sendInterval, pause, "a few at once are no flood")
			}
			now = now.Add(pause)
		}
		require.LessOrEqual(t, sent*peers, 8000+sendBurst*peers+peers, "%d peers", peers)
		require.GreaterOrEqual(t, sent*peers, min(7900, 5000*peers), "%d peers", peers)
		require.Equal(t, sendInterval, p.pause(peers, now.Add(time.Minute)), "after silence there is room again")
	}
}
