package mesh

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestQuantilesOfAHistogram(t *testing.T) {
	t.Parallel()
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Help: "h", Buckets: []float64{.001, .01, .1}})
	require.Equal(t, BeaconStats{}, beaconStats(h), "without an observation")
	for range 98 {
		h.Observe(.0005)
	}
	h.Observe(.05)
	h.Observe(.05)
	stats := beaconStats(h)
	require.EqualValues(t, 100, stats.Count)
	require.InDelta(t, time.Second*50/98/1000, stats.P50, float64(time.Microsecond))
	require.InDelta(t, 55*time.Millisecond, stats.P99, float64(time.Microsecond), "the middle of the bucket")
	for range 1000 {
		h.Observe(7)
	}
	require.Equal(t, 100*time.Millisecond, beaconStats(h).P99, "no more is known than the last bound")
}
