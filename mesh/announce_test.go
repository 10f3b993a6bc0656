package mesh_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/mesh"
)

// interests are the queues of one tenant that a broker in a test waits at.
type interests struct {
	mu        sync.Mutex
	queues    map[string]bool
	announced []time.Time
	look      func()
}

func (i *interests) Each(yield func(uuid.UUID, string)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for queue := range i.queues {
		yield(tenant, queue)
	}
}

func (i *interests) Announced() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.announced = append(i.announced, time.Now())
	if i.look != nil {
		i.look()
	}
}

func (i *interests) looks() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.announced)
}

// choosy is a broker that tells its interest.
type choosy struct {
	*broker
	*interests
}

func (c *choosy) wants(queue string) {
	c.interests.mu.Lock()
	c.queues[queue] = true
	c.interests.mu.Unlock()
	c.Interested(tenant, queue)
}

func (c *choosy) ignores(queue string) {
	c.interests.mu.Lock()
	defer c.interests.mu.Unlock()
	delete(c.queues, queue)
}

// startChoosy runs n brokers that tell their interest and waits until each has heard of the others'.
func (c *cluster) startChoosy(n int, on bool) (brokers []*choosy) {
	for range n {
		i := &interests{queues: map[string]bool{}}
		cfg := c.config(fmt.Sprintf("b%d", len(c.brokers)+1))
		if on {
			cfg.Interests = i
		}
		brokers = append(brokers, &choosy{c.start(cfg), i})
	}
	time.Sleep(10*time.Second + 333*time.Millisecond)
	c.forget()
	return brokers
}

// woken says which brokers have been woken since the last call.
func (c *cluster) woken() (who []string) {
	time.Sleep(10 * time.Millisecond)
	for _, b := range c.brokers {
		if len(b.Wakes()) > 0 {
			who = append(who, b.View().Self().Name)
		}
	}
	c.forget()
	return who
}

func (b *broker) wakesOut() float64 {
	return b.metric("waggle_mesh_frames_out_total", "kind", "wake", "version", "2")
}

func TestOnlyThoseInterestedAreWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startChoosy(3, true)
		b[0].SendWake(wake("orders", "p"))
		require.Empty(t, c.woken())
		require.Equal(t, 2.0, b[0].metric("waggle_mesh_wakes_withheld_total"))

		b[1].wants("orders")
		time.Sleep(time.Millisecond)
		b[0].SendWake(wake("orders", "p"))
		require.Equal(t, []string{"b2"}, c.woken(), "told at once")
		b[0].SendWake(wake("mail", "p"), wake("orders", "p"), wake("log", "p"))
		time.Sleep(time.Millisecond)
		require.Equal(t, []mesh.Wake{wake("orders", "p")}, b[1].Wakes())
		require.Equal(t, []string{"b2"}, c.woken())
		b[0].SendWake(mesh.Wake{Queue: "orders", Partition: "p"})
		require.Equal(t, []string{"b2", "b3"}, c.woken(), "whose queue it is, is not known")
		b[0].SendInvalidation(mesh.Invalidation{Tenant: tenant, TenantKnown: true, Queue: "orders", Deleted: true})
		time.Sleep(time.Millisecond)
		require.Len(t, b[2].Invalidations(), 1, "invalidations go to all")

		b[1].ignores("orders")
		time.Sleep(40 * time.Second)
		b[0].SendWake(wake("orders", "p"))
		require.Empty(t, c.woken(), "interest ends by itself")
	})
}

func TestInterestThatStaysIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startChoosy(2, true)
		out := func(b *choosy) float64 {
			return b.metric("waggle_mesh_frames_out_total", "kind", "interest", "version", "2")
		}
		summaries, answers := out(b[1]), out(b[0])
		b[1].wants("orders")
		for range 20 {
			time.Sleep(7 * time.Second)
			b[0].SendWake(wake("orders", "p"))
			require.Equal(t, []string{"b2"}, c.woken())
		}
		require.Equal(t, summaries+1, out(b[1]), "one summary more was all that it took")
		require.Equal(t, answers+1, out(b[0]))
	})
}

func TestPeersWithoutInterestAreWokenAndWakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startChoosy(2, true)
		all := c.startChoosy(1, false)[0]
		cfg := c.config("old")
		cfg.FrameMax = 1
		old := c.start(cfg)
		time.Sleep(5 * time.Second)
		c.forget()
		b[0].SendWake(wake("orders", "p"))
		require.Equal(t, []string{"b3", "old"}, c.woken())
		all.SendWake(wake("orders", "p"))
		require.Equal(t, []string{"b1", "b2", "old"}, c.woken())
		old.SendWake(wake("orders", "p"))
		require.Equal(t, []string{"b1", "b2", "b3"}, c.woken())
		require.Zero(t, all.metric("waggle_mesh_frames_in_total", "kind", "interest", "version", "2"),
			"who has shown no knowledge of interest is sent none")
		require.Zero(t, old.dropped("unknown_kind")+old.dropped("unknown_version"))
	})
}

func TestAnnouncementsThatAreLostComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startChoosy(3, true)
		c.network.CutPackets(b[0].address, b[1].address)
		b[1].wants("orders")
		time.Sleep(50 * time.Millisecond)
		require.Zero(t, b[1].looks(), "not all have been told")
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 1, b[1].looks(), "that takes too long to be waited for")
		b[0].SendWake(wake("orders", "p"))
		require.Empty(t, c.woken())
		time.Sleep(time.Second)
		c.network.Heal(b[0].address, b[1].address)
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, 2, b[1].looks(), "now all have")
		b[0].SendWake(wake("orders", "p"))
		require.Equal(t, []string{"b2"}, c.woken())
	})
}

func TestSummariesGetThroughALossyNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startChoosy(8, true)
		c.network.SetLoss(.3)
		c.network.SetJitter(5 * time.Millisecond)
		for round := range 10 {
			generations := map[string]uint64{}
			for _, x := range b {
				x.wants(fmt.Sprint(x.View().Self().Name, " ", round))
			}
			time.Sleep(3500 * time.Millisecond)
			for _, x := range b {
				generations[x.View().Self().Name] = x.Stats().Interest.Generation
			}
			// By then a peer has the summary, or knows from one of three beacons that it lacks it and sends every wake.
			late := 0
			for _, x := range b {
				for _, p := range x.Stats().Peers {
					if p.Interest.Generation != generations[p.Name] {
						late++
						require.False(t, p.Interest.Held, "%s of %s", x.View().Self().Name, p.Name)
					}
				}
			}
			require.LessOrEqual(t, late, 2, "of 56")
		}
		c.network.SetLoss(0)
	})
}

func TestAPeerThatForgotASummaryIsSentItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		b := c.startChoosy(2, true)
		b[1].wants("orders")
		time.Sleep(time.Second)
		// Long enough to be given up, so that the way to it is opened anew.
		c.network.Cut(b[0].address, b[1].address)
		time.Sleep(30 * time.Second)
		require.NotEqual(t, mesh.StateAlive, b[0].state(b[1].broker))
		c.network.Heal(b[0].address, b[1].address)
		time.Sleep(60 * time.Second)
		require.Equal(t, mesh.StateAlive, b[0].state(b[1].broker))
		c.forget()
		b[0].SendWake(wake("mail", "p"))
		require.Empty(t, c.woken())
		b[0].SendWake(wake("orders", "p"))
		require.Equal(t, []string{"b2"}, c.woken())
	})
}

// pushes sends wakes for random queues out of so many, from random brokers, so many a second, for so long.
func pushes(brokers []*choosy, queues, rate int, length time.Duration) {
	random := rand.New(rand.NewPCG(7, 7))
	for range int(length / time.Millisecond) {
		for range rate / 1000 {
			brokers[random.IntN(len(brokers))].SendWake(wake(fmt.Sprintf("q%d", random.IntN(queues)), "p"))
		}
		time.Sleep(time.Millisecond)
	}
}

func TestInterestSavesMostDatagrams(t *testing.T) {
	const brokers, queues, length = busyBrokers, 100, busyFor
	run := func(on bool) (wakes, others int) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			b := c.startChoosy(brokers, on)
			for i := range queues { // each queue is consumed on two brokers
				b[i%brokers].wants(fmt.Sprintf("q%d", i))
				b[(i+7)%brokers].wants(fmt.Sprintf("q%d", i))
			}
			time.Sleep(time.Second)
			before, beforeAll := 0.0, 0.0
			for _, x := range b {
				before += x.wakesOut()
				beforeAll += float64(x.Counts().Sent)
			}
			pushes(b, queues, 1000, length)
			after, afterAll := 0.0, 0.0
			for _, x := range b {
				after += x.wakesOut()
				afterAll += float64(x.Counts().Sent)
			}
			wakes, others = int(after-before), int(afterAll-beforeAll-after+before)
		})
		return wakes, others
	}
	with, withOthers := run(true)
	without, withoutOthers := run(false)
	t.Logf("1,000 pushes/s for %s among %d brokers, each queue consumed on two: %d wake frames and %d others instead of %d and %d",
		length, brokers, with, withOthers, without, withoutOthers)
	require.Less(t, with, without*3/(brokers-1), "two of %d, and some more for collisions", brokers-1)
	require.LessOrEqual(t, withOthers, withoutOthers+brokers*brokers)
}

func TestABusyBrokerSendsHundredsOfFramesASecond(t *testing.T) {
	const brokers, rate = busyBrokers, 50_000
	run := func(on bool) (frames int) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			b := c.startChoosy(brokers, on)
			b[1].wants("q0")
			time.Sleep(time.Second)
			before := b[0].Counts().Sent
			pushes(b[:1], 1, rate, busyFor)
			frames = int(float64(b[0].Counts().Sent-before) / busyFor.Seconds())
		})
		return frames
	}
	with, without := run(true), run(false)
	t.Logf("%d pushes/s on one of %d brokers, consumed on another: %d frames a second instead of %d", rate, brokers, with, without)
	require.Less(t, with, 1000)
	require.Less(t, without, brokers*600, "without interest, too, a peer gets one frame per 2 ms at most")
}

// TestInterestDoesNotSlowWakesDown lets brokers begin to wait at a queue that a wake is sent for at about the same
// time, and measures until the wake, or what makes up for it, is there.
func TestInterestDoesNotSlowWakesDown(t *testing.T) {
	const floor = 800 * time.Millisecond // of a parked pop
	run := func(on bool, loss float64) (took []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			b := c.startChoosy(5, on)
			c.network.SetJitter(2 * time.Millisecond)
			c.network.SetLoss(loss)
			random := rand.New(rand.NewPCG(3, 3))
			for i := range busyRounds {
				// Each queue is waited at four times: the first time is the one that must be announced.
				queue := fmt.Sprintf("q%d", i/4)
				from, to := b[i/4%5], b[(i/4+1)%5]
				told := make(chan struct{}, 1)
				wakeUp := func() {
					select {
					case told <- struct{}{}:
					default:
					}
				}
				to.OnCall(wakeUp)
				to.interests.mu.Lock()
				to.look = func() { time.AfterFunc(5*time.Millisecond, wakeUp) } // the look at the database
				to.interests.mu.Unlock()
				to.wants(queue)
				time.Sleep(time.Duration(random.Int64N(int64(5 * time.Millisecond))))
				select {
				case <-told: // of something before
				default:
				}
				sent := time.Now()
				from.SendWake(wake(queue, "p"))
				select {
				case <-told:
				case <-time.After(floor):
				}
				took = append(took, time.Since(sent))
				to.OnCall(nil)
				time.Sleep(50 * time.Millisecond)
			}
		})
		slices.Sort(took)
		return took
	}
	for _, loss := range []float64{0, .3} {
		with, without := run(true, loss), run(false, loss)
		p := func(took []time.Duration, part float64) time.Duration { return took[int(part*float64(len(took)-1))] }
		t.Logf("%.0f %% loss: p50 %s p90 %s p99 %s with interest, p50 %s p90 %s p99 %s without", 100*loss,
			p(with, .5), p(with, .9), p(with, .99), p(without, .5), p(without, .9), p(without, .99))
		require.LessOrEqual(t, p(with, .5), p(without, .5)+time.Millisecond)
		if loss > 0 {
			require.LessOrEqual(t, p(with, .9), 100*time.Millisecond)
			require.LessOrEqual(t, p(with, .97), 250*time.Millisecond)
		} else {
			require.LessOrEqual(t, p(with, .99), 15*time.Millisecond)
		}
	}
}
