package mesh_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/mesh"
	"waggle/mesh/meshtest"
)

// countingHandler notes how far frames were out of order when they reached it.
type countingHandler struct {
	mu       sync.Mutex // guards the rest
	last     string
	frames   int
	backward int
	repairs  []mesh.RepairReason
}

func (h *countingHandler) Wake(items []mesh.Wake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, item := range items {
		h.frames++
		if item.Partition < h.last {
			h.backward++
		}
		h.last = item.Partition
	}
}
func (h *countingHandler) Invalidate([]mesh.Invalidation) {}
func (h *countingHandler) LeaderHint()                    {}
func (h *countingHandler) Repair(reason mesh.RepairReason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repairs = append(h.repairs, reason)
}

func TestAMillionFramesInTheOrderOfTheLibraryAreNoFalseAlarm(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("half a minute of computing")
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		handler := &countingHandler{}
		cfg := c.config("b1")
		cfg.Handler, cfg.Keys, cfg.Plaintext = handler, nil, true
		b := c.start(cfg)
		stranger := newVirtualInsider(t, c, b, true)
		begun := time.Now()
		const burst = 10
		for n := uint32(0); n < manyFrames; n += burst {
			for i := range uint32(burst) {
				stranger.send(t, stranger.wake(n+i+1, fmt.Sprintf("%08d", n+i)))
			}
			synctest.Wait()
			if n%1000 == 0 {
				time.Sleep(2 * time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		t.Logf("%d frames in %v of virtual time, %d of them behind a later one", handler.frames, time.Since(begun), handler.backward)
		require.Equal(t, manyFrames, handler.frames, "none lost, none taken for a replay")
		require.Greater(t, handler.backward, manyFrames/10, "the library delivers newest first")
		require.Zero(t, b.metric("waggle_mesh_gaps_total"))
		require.Zero(t, b.dropped("replayed")+b.dropped("stale"))
		require.Equal(t, []mesh.RepairReason{mesh.RepairNewPeer}, slices.Compact(handler.repairs), "at the beginning, for the new peer")
	})
}

// consumers runs n brokers with a consumer each on one store.
func consumers(t *testing.T, c *cluster, n int) (*meshtest.Store, []*meshtest.Consumer) {
	store := meshtest.NewStore()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var all []*meshtest.Consumer
	for i := range n {
		consumer := meshtest.NewConsumer(store)
		cfg := c.config(fmt.Sprintf("b%d", i+1))
		cfg.Handler = consumer
		c.start(cfg)
		go consumer.Run(ctx)
		all = append(all, consumer)
	}
	return store, all
}

func TestWakesAreInTimeWhenThirtyPercentOfTheDatagramsAreLost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		brokers int
		every   time.Duration // between two pushes in all
		pushes  int
	}{
		{3, 700 * time.Millisecond, 400},
		{3, 40 * time.Millisecond, 2000},
		{3, 2 * time.Millisecond, 5000},
		{10, 100 * time.Millisecond, 1000},
		{10, 2 * time.Millisecond, 3000},
		{manyBrokers, 50 * time.Millisecond, 400},
	} {
		t.Run(fmt.Sprintf("%d brokers, a push every %v", test.brokers, test.every), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				store, all := consumers(t, c, test.brokers)
				time.Sleep(5 * time.Second)
				c.network.SetLoss(.3)
				c.network.SetJitter(2 * time.Millisecond)
				// Echoes have to be missed first.
				time.Sleep(20 * time.Second)
				random := rand.New(rand.NewPCG(1, 2))
				looks := 0
				for _, consumer := range all {
					looks -= consumer.Looks()
				}
				begun := time.Now()
				for range test.pushes {
					partition := fmt.Sprint("p", random.IntN(100))
					store.Commit(partition)
					at := random.IntN(len(all))
					all[at].Wake([]mesh.Wake{wake("orders", partition)}) // its own pops need no mesh
					c.brokers[at].SendWake(wake("orders", partition))
					time.Sleep(test.every/2 + rand.N(test.every))
				}
				for _, consumer := range all {
					looks += consumer.Looks()
				}
				took := time.Since(begun)
				time.Sleep(5 * time.Second)
				var latencies []time.Duration
				for _, consumer := range all {
					latencies = append(latencies, consumer.Took()...)
				}
				require.Len(t, latencies, test.pushes*test.brokers, "nothing is lost, nothing comes twice")
				slices.Sort(latencies)
				p50, p99 := latencies[len(latencies)/2], latencies[len(latencies)*99/100]
				t.Logf("p50 %v, p99 %v, max %v, %.1f looks per broker and second", p50, p99, latencies[len(latencies)-1],
					float64(looks)/float64(test.brokers)/took.Seconds())
				require.LessOrEqual(t, p99, 250*time.Millisecond)
			})
		})
	}
}
