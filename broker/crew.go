package broker

import "sync"

// crew counts the goroutines of a broker, so that Close can wait for all of them, those included that others of them
// start meanwhile. Once it has ended nobody can be added.
type crew struct {
	mu    sync.Mutex // guards everything below
	quiet *sync.Cond
	n     int
	ended bool
}

func newCrew() *crew {
	c := &crew{}
	c.quiet = sync.NewCond(&c.mu)
	return c
}

// spawn runs work on a goroutine; false when the crew has ended. It never refuses one of its own.
func (c *crew) spawn(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.n++
	go func() {
		defer c.leave()
		work()
	}()
	return true
}

func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 {
		c.quiet.Broadcast()
	}
}

// end waits until nobody runs and lets nobody in any more.
func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.n > 0 {
		c.quiet.Wait()
	}
	c.ended = true
}
