package broker

import (
	"container/list"
	"math"
	"slices"
	"sync"
	"time"

	"waggle/broker/segment"
)

// tailCache holds decoded segments that this broker wrote or read, so that a pop need not fetch and unpack what is
// in memory anyway. A segment enters only after its commit is known, and is named by its created time too: a place
// that another history filled differently is never mistaken for it.
type tailCache struct {
	mu     sync.Mutex // guards everything below
	budget int
	bytes  int
	logs   map[int64][]*tailSegment // by base
	used   *list.List               // newest use first
	hits   uint64
	misses uint64
}

type tailSegment struct {
	partition int64
	base      int64
	createdAt time.Time
	segment   segment.Segment
	ids       []byte
	element   *list.Element
}

func (s *tailSegment) end() int64 { return s.base + int64(s.segment.Len()) }

func (s *tailSegment) cost() int { return s.segment.Size() + len(s.ids) + 160 }

func newTailCache(budget int) *tailCache {
	c := &tailCache{budget: budget}
	c.forget()
	return c
}

func (c *tailCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs, c.used, c.bytes = map[int64][]*tailSegment{}, list.New(), 0
}

func position(segments []*tailSegment, base int64) (int, bool) {
	return slices.BinarySearchFunc(segments, base, func(s *tailSegment, base int64) int {
		switch {
		case s.base < base:
			return -1
		case s.base > base:
			return 1
		default:
			return 0
		}
	})
}

func (c *tailCache) add(partition, base int64, createdAt time.Time, s segment.Segment, ids []byte) {
	entry := &tailSegment{partition: partition, base: base, createdAt: createdAt, segment: s, ids: ids}
	if entry.cost() > c.budget/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, found := position(c.logs[partition], base)
	if found {
		c.remove(c.logs[partition][at])
	}
	c.logs[partition] = slices.Insert(c.logs[partition], at, entry)
	entry.element = c.used.PushFront(entry)
	c.bytes += entry.cost()
	for c.bytes > c.budget {
		c.remove(c.used.Back().Value.(*tailSegment))
	}
}

func (c *tailCache) remove(s *tailSegment) {
	segments := c.logs[s.partition]
	if at, found := position(segments, s.base); found {
		segments = slices.Delete(segments, at, at+1)
	}
	if len(segments) == 0 {
		delete(c.logs, s.partition)
	} else {
		c.logs[s.partition] = segments
	}
	c.used.Remove(s.element)
	c.bytes -= s.cost()
}

// get returns the segment at base if it is the one created then.
func (c *tailCache) get(partition, base int64, createdAt time.Time) (*tailSegment, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	segments := c.logs[partition]
	at, found := position(segments, base)
	if !found || !segments[at].createdAt.Equal(createdAt) {
		c.misses++
		return nil, false
	}
	c.hits++
	c.used.MoveToFront(segments[at].element)
	return segments[at], true
}

// maxRun bounds how far back run looks for the beginning of what is newest.
const maxRun = 1024

// run returns the bases between which segments need not be sent to a claim of so many records that will begin at
// offset next, or whose beginning is not known (next < 0): then what is newest counts.
func (c *tailCache) run(partition, next int64, records int) (from, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	segments := c.logs[partition]
	if len(segments) == 0 {
		return math.MaxInt64, math.MaxInt64
	}
	if next < 0 {
		i := len(segments) - 1
		for i > 0 && segments[i-1].end() == segments[i].base && len(segments)-i < maxRun {
			i--
		}
		return segments[i].base, segments[len(segments)-1].end()
	}
	i, found := position(segments, next)
	if !found {
		i--
	}
	if i < 0 || next >= segments[i].end() {
		return math.MaxInt64, math.MaxInt64
	}
	j := i
	for j+1 < len(segments) && segments[j].end() == segments[j+1].base && segments[j].end() < next+int64(records) {
		j++
	}
	return segments[i].base, segments[j].end()
}

func (c *tailCache) stats() (bytes, segments int, hits, misses uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, c.used.Len(), c.hits, c.misses
}
