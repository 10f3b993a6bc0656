package pg

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestLeaderLockKey(t *testing.T) {
	t.Parallel()
	one, other := uuid.New(), uuid.New()
	class, instance := LeaderLockKey(one)
	require.EqualValues(t, 0x77616767, class)
	_, again := LeaderLockKey(one)
	require.Equal(t, instance, again)
	_, different := LeaderLockKey(other)
	require.NotEqual(t, instance, different)
}
