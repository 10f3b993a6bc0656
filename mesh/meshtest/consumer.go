package meshtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"waggle/mesh"
)

// How a broker looks at the database for its parked pops, whatever it is told and however often (package broker).
const (
	lookEvery = 800 * time.Millisecond
	lookPause = 100 * time.Millisecond
)

// Store stands in for the segments of one queue in Postgres: what is committed, and when.
type Store struct {
	mu      sync.Mutex // guards commits
	commits map[string][]time.Time
}

// NewStore makes an empty store.
func NewStore() *Store { return &Store{commits: make(map[string][]time.Time)} }

// Commit adds a message to a partition.
func (s *Store) Commit(partition string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits[partition] = append(s.commits[partition], time.Now())
}

// Consumer is a mesh.Handler with pops of one group parked at every partition of a store. A wake that names a partition
// reads that; one of the whole queue, or a repair, brings a look at all of them, as does the clock, which is what is
// left when every packet is lost.
type Consumer struct {
	store *Store
	soon  chan struct{}

	mu    sync.Mutex // guards the rest
	taken map[string]int
	took  []time.Duration
	looks int
}

var _ mesh.Handler = (*Consumer)(nil)

// NewConsumer parks at a store; Run makes its looks.
func NewConsumer(store *Store) *Consumer {
	return &Consumer{store: store, soon: make(chan struct{}, 1), taken: make(map[string]int)}
}

// Wake reads what it names.
func (c *Consumer) Wake(items []mesh.Wake) {
	for _, item := range items {
		if item.QueueWide {
			c.lookSoon()
			continue
		}
		c.store.mu.Lock()
		c.take(item.Partition)
		c.store.mu.Unlock()
	}
}

// Invalidate does nothing: a store has no options.
func (c *Consumer) Invalidate([]mesh.Invalidation) {}

// Repair brings a look.
func (c *Consumer) Repair(mesh.RepairReason) { c.lookSoon() }

// LeaderHint does nothing.
func (c *Consumer) LeaderHint() {}

func (c *Consumer) lookSoon() {
	select {
	case c.soon <- struct{}{}:
	default:
	}
}

// Run looks at everything by the clock, and sooner when asked to, until ctx ends.
func (c *Consumer) Run(ctx context.Context) {
	for {
		began := time.Now()
		c.look()
		select {
		case <-ctx.Done():
			return
		case <-c.soon:
		case <-time.After(lookEvery):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(began.Add(lookPause))):
		}
	}
}

func (c *Consumer) look() {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	for partition := range c.store.commits {
		c.take(partition)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
}

// take reads a partition to its end. The caller holds the store's lock.
func (c *Consumer) take(partition string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	commits := c.store.commits[partition]
	for _, at := range commits[c.taken[partition]:] {
		c.took = append(c.took, time.Since(at))
	}
	c.taken[partition] = len(commits)
}

// Took is how long each message took from its commit, in ascending order.
func (c *Consumer) Took() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := slices.Clone(c.took)
	slices.Sort(took)
	return took
}

// Looks is how many looks there were.
func (c *Consumer) Looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}
