package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// Fifty brokers on one database have one leader, and all of their campaigning together costs about one small statement a
// second for each.
func TestFiftyBrokersCampaign(t *testing.T) {
	t.Parallel()
	const count = 50
	server := pgtest.NewServer(t, map[string]string{"max_connections": "200"})
	c := newCluster(t)
	c.url = pgtest.New(t, pgtest.On(server)).URL
	brokers := make([]*broker, count)
	for i := range brokers {
		brokers[i] = c.start(fmt.Sprint("broker-", i), c.url, nil, nil)
	}
	leading := func() (epoch int64) {
		leaders := 0
		for _, b := range brokers {
			if s := b.Status(); s.IsLeader {
				leaders++
				epoch = s.Epoch
			}
		}
		require.LessOrEqual(t, leaders, 1)
		return epoch
	}
	await := func(epoch int64) {
		t.Helper()
		require.Eventually(t, func() bool { return leading() == epoch }, 3*patience, 10*time.Millisecond, "epoch %d", epoch)
	}
	sessions := func() (n int64) {
		return c.number("select count(*) from pg_stat_activity where datname = current_database() and application_name like 'waggle leader%'")
	}
	await(1)
	require.Eventually(t, func() bool { return sessions() == count }, 3*patience, 50*time.Millisecond, "each has a session, and one only")

	transactions := func() int64 {
		return c.number("select xact_commit + xact_rollback from pg_stat_database where datname = current_database()")
	}
	// Sessions report late what they did while they were opened, so that the first windows may show more.
	require.Eventually(t, func() bool {
		before, began := transactions(), time.Now()
		require.Never(t, func() bool { return leading() != 1 }, 3*time.Second, 100*time.Millisecond)
		rate := float64(transactions()-before) / time.Since(began).Seconds() / count
		t.Logf("%.2f transactions a second for each broker", rate)
		require.Positive(t, rate)
		return rate < 1.3
	}, 4*patience, time.Millisecond, "a try a second, give or take a fifth")

	// All of them are told at once that the leader has left: still one succeeds.
	for _, b := range brokers {
		if b.Status().IsLeader {
			require.NoError(t, b.Resign(t.Context()))
		}
	}
	for _, b := range brokers {
		b.Hint()
	}
	await(2)
	require.Never(t, func() bool { return leading() != 2 }, time.Second, 20*time.Millisecond)
}
