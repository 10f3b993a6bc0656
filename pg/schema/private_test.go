package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPoolerBetween(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ours   []int32
		theirs int32
		pooler bool
	}{
		"a backend each, and ours stays":   {ours: []int32{1, 1, 1, 1}, theirs: 2},
		"both meet on one backend":         {ours: []int32{1, 1, 1, 1}, theirs: 1, pooler: true},
		"ours moves away from the other's": {ours: []int32{1, 1, 2, 2}, theirs: 1, pooler: true},
		"ours moves onto the other's":      {ours: []int32{1, 1, 2, 2}, theirs: 2, pooler: true},
		"ours moves to a third":            {ours: []int32{1, 1, 3, 3}, theirs: 2, pooler: true},
		"ours goes round":                  {ours: []int32{1, 3, 1, 3}, theirs: 2, pooler: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.pooler, poolerBetween(test.ours, test.theirs))
		})
	}
}
