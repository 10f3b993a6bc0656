package mesh_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"waggle/mesh"
)

// sizes are how many brokers the meshes have.
func sizes() []int { return []int{3, 10, costlyBrokers} }

// forSizes runs a test on meshes that have found each other.
func forSizes(t *testing.T, sizes []int, test func(t *testing.T, c *cluster)) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			if testing.Short() && n > 10 {
				t.Skip("a few seconds of computing")
			}
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				for i := range n {
					c.start(c.config(fmt.Sprintf("b%02d", i)))
				}
				c.awaitAlive(15 * time.Second)
				time.Sleep(20 * time.Second)
				test(t, c)
			})
		})
	}
}

// until waits, in steps, until something holds and returns how long that took.
func until(t *testing.T, step, atMost time.Duration, what string, holds func() bool) time.Duration {
	begun := time.Now()
	for !holds() {
		require.Less(t, time.Since(begun), atMost, what)
		time.Sleep(step)
	}
	return time.Since(begun)
}

// eachPair calls fn for each broker of the first half with each of the second.
func (c *cluster) eachPair(fn func(a, b *broker)) (first, second []*broker) {
	first, second = c.brokers[:len(c.brokers)/2], c.brokers[len(c.brokers)/2:]
	for _, a := range first {
		for _, b := range second {
			fn(a, b)
		}
	}
	return first, second
}

func unheardBy(brokers []*broker) func() bool {
	return func() bool {
		for _, b := range brokers {
			if b.metric("waggle_mesh_unheard") == 0 {
				return false
			}
		}
		return true
	}
}

func TestASplitIsShownAndHealsByItself(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		cut    func(c *cluster, a, b *broker)
		oneWay bool
	}{
		{"everything", func(c *cluster, a, b *broker) { c.network.Cut(a.address, b.address) }, false},
		{"only packets", func(c *cluster, a, b *broker) { c.network.CutPackets(a.address, b.address) }, false},
		{"one way", func(c *cluster, a, b *broker) { c.network.CutOneWay(a.address, b.address) }, true},
	} {
		for _, lasts := range []time.Duration{20 * time.Second, 100 * time.Second} {
			t.Run(fmt.Sprintf("%s for %v", test.name, lasts), func(t *testing.T) {
				t.Parallel()
				sizes := sizes()
				if lasts > time.Minute && test.name != "everything" {
					sizes = sizes[:2] // the large one takes a while to compute, and shows nothing else here
				}
				forSizes(t, sizes, func(t *testing.T, c *cluster) {
					first, second := c.eachPair(func(a, b *broker) { test.cut(c, a, b) })
					deaf := c.brokers
					if test.oneWay {
						deaf = second // the others hear all that is said
					}
					shown := until(t, 250*time.Millisecond, 10*time.Second, "unheard", unheardBy(deaf))
					time.Sleep(lasts - shown)
					require.True(t, unheardBy(deaf)(), "for as long as it lasts")
					c.forget()
					c.eachPair(func(a, b *broker) { c.network.Heal(a.address, b.address) })
					begun := time.Now()
					c.awaitAlive(45 * time.Second)
					whole := time.Since(begun)
					until(t, 250*time.Millisecond, 5*time.Second, "all heard", func() bool {
						for _, b := range c.brokers {
							if b.metric("waggle_mesh_unheard") != 0 {
								return false
							}
						}
						return true
					})
					t.Logf("shown to all after %v, whole %v after the cut ended", shown, whole)
					for _, b := range deaf {
						require.NotEmpty(t, b.Repairs(), "what was said meanwhile has to be looked up")
					}
					// Whole means that wakes arrive again, both ways.
					c.forget()
					time.Sleep(2 * pacing)
					first[0].SendWake(wake("orders", "first"))
					second[0].SendWake(wake("orders", "second"))
					time.Sleep(time.Second)
					for _, b := range c.brokers {
						if b != first[0] {
							require.Contains(t, b.Wakes(), wake("orders", "first"))
						}
						if b != second[0] {
							require.Contains(t, b.Wakes(), wake("orders", "second"))
						}
					}
				})
			})
		}
	}
}

// seenAs waits until all others see a broker in a state.
func (c *cluster) seenAs(gone *broker, state mesh.State, atMost time.Duration) time.Duration {
	return until(c.t, 10*time.Millisecond, atMost, "seen as "+string(state), func() bool {
		for _, b := range c.brokers {
			if b != gone && b.state(gone) != state {
				return false
			}
		}
		return true
	})
}

// drop takes a broker that has ended out of the cluster and its row out of the registry.
func (c *cluster) drop(gone *broker) {
	for i, b := range c.brokers {
		if b == gone {
			c.brokers = append(c.brokers[:i:i], c.brokers[i+1:]...)
			break
		}
	}
	c.registry.Remove(gone.start)
}

func TestLeavesAndKillsAreSeenInTime(t *testing.T) {
	t.Parallel()
	forSizes(t, sizes(), func(t *testing.T, c *cluster) {
		n := len(c.brokers)
		leaveLimit, killLimit, rounds := time.Second, 6500*time.Millisecond, 10
		// In a small mesh the library waits longer for a second opinion while it still counts the dead of the last 30 s.
		settle := 40 * time.Second
		if n > 10 {
			leaveLimit, killLimit, rounds, settle = 1500*time.Millisecond, 9*time.Second, 3, 0
		}
		var leaves, kills, freezes time.Duration
		replace := func(gone *broker) {
			c.drop(gone)
			c.start(c.config(gone.View().Self().Name))
			c.awaitAlive(45 * time.Second)
			time.Sleep(settle + rand.N(3*time.Second))
		}
		for range rounds {
			victim := c.brokers[rand.N(n)]
			go victim.Stop()
			kills = max(kills, c.seenAs(victim, mesh.StateDead, killLimit))
			replace(victim)

			victim = c.brokers[rand.N(n)]
			left := make(chan struct{})
			go func() {
				defer close(left)
				victim.leave(t)
			}()
			leaves = max(leaves, c.seenAs(victim, mesh.StateLeft, leaveLimit))
			<-left
			replace(victim)

			victim = c.brokers[rand.N(n)]
			c.network.Freeze(victim.address)
			freezes = max(freezes, c.seenAs(victim, mesh.StateDead, 2*killLimit))
			victim.Stop()
			replace(victim)
		}
		t.Logf("of %d each: a leave is seen by all after at most %v, a kill after %v, a broker that is stopped after %v",
			rounds, leaves, kills, freezes)
	})
}

// conflictCore counts what the library says about two nodes of one name.
type conflictCore struct {
	zapcore.LevelEnabler
	count *atomic.Int64
}

func (c conflictCore) With([]zapcore.Field) zapcore.Core { return c }
func (c conflictCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return to.AddCore(e, c)
}

func (c conflictCore) Write(_ zapcore.Entry, fields []zapcore.Field) error {
	for _, field := range fields {
		if line, ok := field.Interface.([]byte); ok && bytes.Contains(bytes.ToLower(line), []byte("conflict")) {
			c.count.Add(1)
		}
	}
	return nil
}
func (c conflictCore) Sync() error { return nil }

func TestARollingRestartWithNewAddressesLeavesNothingStale(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		name := "they leave"
		if kill {
			name = "they are killed"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forSizes(t, sizes(), func(t *testing.T, c *cluster) {
				var conflicts atomic.Int64
				old := append([]*broker(nil), c.brokers...)
				apart := 2 * time.Second
				if len(old) > 10 {
					apart /= 4 // half a minute in all
				}
				for _, b := range old {
					if kill {
						b.Stop()
					} else {
						c.registry.MarkLeft(b.start)
						b.leave(t)
					}
					c.drop(b)
					cfg := c.config(b.View().Self().Name)
					cfg.Logger = zap.New(conflictCore{zapcore.DebugLevel, &conflicts})
					c.start(cfg)
					time.Sleep(apart)
				}
				begun := time.Now()
				stale := func() bool {
					for _, b := range c.brokers {
						view := b.View()
						if view.Count(mesh.StateAlive) != len(c.brokers) || view.Count(mesh.StateSuspect) != 0 ||
							b.metric("waggle_mesh_unheard") != 0 {
							return true
						}
					}
					return false
				}
				clean := until(t, 250*time.Millisecond, 30*time.Second, "clean", func() bool { return !stale() })
				time.Sleep(30*time.Second - time.Since(begun))
				require.False(t, stale(), "and it stays so")
				for _, b := range c.brokers {
					for _, gone := range old {
						require.NotContains(t, []mesh.State{mesh.StateAlive, mesh.StateSuspect}, b.state(gone))
					}
				}
				require.Zero(t, conflicts.Load())
				c.forget()
				c.brokers[0].SendWake(wake("orders", "eu"))
				time.Sleep(time.Second)
				for _, b := range c.brokers[1:] {
					require.Equal(t, []mesh.Wake{wake("orders", "eu")}, b.Wakes())
				}
				time.Sleep(45 * time.Second)
				for _, b := range c.brokers {
					require.Len(t, b.View().Members, len(c.brokers), "those that are gone are forgotten")
				}
				t.Logf("no stale member %v after the last restart", clean)
			})
		})
	}
}
