package node_test

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// The times between two leaders, 20 of each kind, against what the documents promise. It takes minutes and an otherwise
// idle machine, so it runs by `make test-leader` only.
func TestHandOverTimes(t *testing.T) {
	if os.Getenv("WAGGLE_TEST_LEADER") == "" {
		t.Skip("numbers take minutes and an idle machine: make test-leader")
	}
	const rounds = 20
	c := startCluster(t, pgtest.New(t).URL, 3)
	c.awaitMesh(t)
	leader, epoch, _ := c.awaitLeader(t, c[0], 0)
	for _, end := range []struct {
		name   string
		signal syscall.Signal
		limit  time.Duration
	}{
		{"told to stop (SIGTERM)", syscall.SIGTERM, time.Second},
		{"killed (SIGKILL)", syscall.SIGKILL, 2500 * time.Millisecond},
		{"frozen (SIGSTOP)", syscall.SIGSTOP, 11500 * time.Millisecond},
	} {
		var times []time.Duration
		for range rounds {
			gone, rest := leader, c.others(leader)
			gone.signal(end.signal)
			var took time.Duration
			leader, epoch, took = rest.awaitLeader(t, rest[0], epoch)
			times = append(times, took)
			if end.signal == syscall.SIGSTOP {
				gone.signal(syscall.SIGCONT)
				gone.log.await(t, `"code":"WG0204"`)
			} else {
				<-gone.done
				gone.restart(t)
			}
			c.awaitMesh(t)
		}
		slices.Sort(times)
		t.Logf("%-22s p50 %7v  max %7v  of %d, limit %v", end.name, times[rounds/2].Round(time.Millisecond),
			times[rounds-1].Round(time.Millisecond), rounds, end.limit)
		require.Less(t, times[rounds-1], end.limit, end.name)
	}
}
