package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPausedPopsGetNothingAndGoOnAfterwards(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	tb.push(b, "q", "p", 0, 3)
	b.PausePops(true)
	require.True(t, b.PopsPaused())
	require.Nil(t, tb.pop(b, request("q")), "without waiting the answer is empty at once")

	waiting := request("q")
	waiting.Wait, waiting.Timeout = true, 300*time.Millisecond
	began := time.Now()
	require.Nil(t, tb.pop(b, waiting))
	require.GreaterOrEqual(t, time.Since(began), 290*time.Millisecond, "a waiting pop waits, or its client would ask again at once")

	waiting.Timeout = 20 * time.Second
	parked := tb.park(b, waiting)
	select {
	case <-parked:
		t.Fatal("a paused pop was answered")
	case <-time.After(100 * time.Millisecond):
	}
	b.PausePops(false)
	answer := <-parked
	require.NotNil(t, answer)
	require.Len(t, answer.Parts[0].Messages, 3)
	tb.ackAll(b, "", answer)
}

func TestPauseReachesPopsThatAreParked(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	waiting := request("q")
	waiting.Wait, waiting.Timeout = true, 20*time.Second
	parked := tb.park(b, waiting)
	require.Eventually(t, func() bool { return b.Parked() == 1 }, 30*time.Second, time.Millisecond)
	b.PausePops(true)
	tb.push(b, "q", "p", 0, 2)
	select {
	case answer := <-parked:
		t.Fatalf("a parked pop was served while pops are paused: %v", answer)
	case <-time.After(300 * time.Millisecond):
	}
	b.PausePops(false)
	answer := <-parked
	require.NotNil(t, answer)
	require.Len(t, answer.Parts[0].Messages, 2)
	require.Equal(t, 1, answer.Parts[0].Attempt, "nothing was claimed meanwhile")
}

func TestDrainEndsAPausedPop(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 1)
	b := tb.brokers[0]
	b.PausePops(true)
	waiting := request("q")
	waiting.Wait, waiting.Timeout = true, time.Minute
	parked := tb.park(b, waiting)
	b.Drain(0)
	require.Nil(t, <-parked)
	began := time.Now()
	require.Nil(t, tb.pop(b, waiting))
	require.Less(t, time.Since(began), 10*time.Second, "a draining broker holds nobody for long")
}
