package broker

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// windowCheck is what a lane says of a bundle's group: which of its records are stored below a head.
type windowCheck struct {
	// known is that head; -1 when nothing needs to be compared, because the queue does not de-duplicate.
	known      int64
	epoch      int64 // of the window
	duplicates map[*pushRecord][16]byte
}

// errUnchecked says that a lane could not compare.
var errUnchecked = errors.New("transaction ids not compared")

// answerChecks answers the groups that only came for a look at the window, and takes them out of the part. Everything
// that had to be looked up for them has been.
func (p *part) answerChecks(l *lane) {
	p.groups = slices.DeleteFunc(p.groups, func(g *pushGroup) bool {
		if g.check == nil {
			return false
		}
		g.check.compare(l, p, g)
		g.done()
		return true
	})
}

func (c *windowCheck) compare(l *lane, p *part, g *pushGroup) {
	c.known, c.duplicates = -1, map[*pushRecord][16]byte{}
	w := l.windowOf(p.partition)
	if w == nil || !p.dedups() {
		return
	}
	c.known, c.epoch = w.head, w.epoch
	oldest := p.oldest(l)
	for _, r := range g.records {
		if id, found := p.stands(w, g, r, oldest); found {
			c.duplicates[r] = id
		}
	}
}

// checkWindows sends the groups through their lanes and waits for what those know.
func (b *Broker) checkWindows(ctx context.Context, groups []*pushGroup) error {
	var pending sync.WaitGroup
	pending.Add(len(groups))
	for _, g := range groups {
		g.check = &windowCheck{}
		g.done = pending.Done
		g.partition.lane.push(g)
	}
	pending.Wait()
	for _, g := range groups {
		// A group that failed in the lane has not been compared.
		if g.check.duplicates == nil {
			return errUnchecked
		}
	}
	return ctx.Err()
}
