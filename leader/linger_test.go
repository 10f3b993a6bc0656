package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLingers(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	for name, test := range map[string]struct {
		holding Holding
		lingers bool
	}{
		"alive to both":                             {Holding{false, time.Second}, false},
		"the mesh alone says dead":                  {Holding{true, time.Second}, false},
		"the mesh says dead, one heartbeat is late": {Holding{true, lease / 2}, false},
		"the mesh says dead, just at the limit":     {Holding{true, 6 * time.Second}, false},
		"the database alone has not heard of it":    {Holding{false, time.Hour}, false},
		"a stamp from the future":                   {Holding{true, -time.Hour}, false},
		"both say so":                               {Holding{true, 6*time.Second + 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.lingers, test.holding.Lingers(lease))
		})
	}
}
