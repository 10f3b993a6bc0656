package node

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASmallHeapMayGrowByTheHeadroomAndALargeOneDoubles(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 3200, 4 << 20: 3200, 32 << 20: 400, 128 << 20: 100, 1 << 30: 100} {
		require.Equal(t, want, headroomPercent(live), "%d live bytes", live)
	}
}
