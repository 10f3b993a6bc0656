package mesh

import (
	"slices"
	"time"
)

// When a missing number counts as lost.
const (
	gapNumbers = 256
	gapTime    = 200 * time.Millisecond
	// seenNumbers is how far back it is known which numbers have come. It is what the library queues at most, so disorder
	// stays within; older numbers were given up, and repaired, long before.
	seenNumbers = 1024
)

// gaps keeps count of the numbers of one stream. Numbers arrive in disorder by design, so one that is missing is only
// a gap when 256 later ones have come or 200 ms have passed. One that comes twice is a packet that the network, or a
// stranger who recorded it, has sent again. It is pure and has one owner.
type gaps struct {
	stream  uint32
	highest uint32
	missing []missing                // ascending by number and by time
	came    [seenNumbers / 64]uint64 // one bit for each of the last numbers, by number modulo seenNumbers
}

type missing struct {
	number uint32
	since  time.Time
}

// seen is what a number told about its stream.
type seen struct {
	// opened: this is the first number of a stream that was not known before.
	opened bool
	// gap: numbers were lost for good.
	gap bool
	// replayed: this number has come before.
	replayed bool
	// stale: too old to tell whether it has come before. What it said was repaired when it was given up, or when the
	// stream after it was opened.
	stale bool
}

// observe notes a number that arrived.
func (g *gaps) observe(number Number, now time.Time) (s seen) {
	stream, count := number.stream(), number.count()
	switch {
	case stream < g.stream:
		return seen{stale: true}
	case stream > g.stream:
		*g = gaps{stream: stream}
		s.opened = true
	}
	if count <= g.highest {
		if g.highest-count >= seenNumbers {
			s.stale = true
			return s
		}
		if !g.mark(count) {
			s.replayed = true
			return s
		}
		if at, found := slices.BinarySearchFunc(g.missing, count, compareMissing); found {
			g.missing = slices.Delete(g.missing, at, at+1)
		}
		return s
	}
	if count-g.highest > gapNumbers {
		// Too many at once to be disorder.
		g.missing = g.missing[:0]
		s.gap = true
	} else {
		for n := g.highest + 1; n < count; n++ {
			g.missing = append(g.missing, missing{number: n, since: now})
		}
	}
	if count-g.highest >= seenNumbers {
		clear(g.came[:])
	} else {
		for n := g.highest + 1; n != count; n++ {
			g.came[n%seenNumbers/64] &^= 1 << (n % 64)
		}
		g.came[count%seenNumbers/64] &^= 1 << (count % 64)
	}
	g.mark(count)
	g.highest = count
	s.gap = g.expire(now) || s.gap
	return s
}

// mark notes that a number has come and is false if it had come before.
func (g *gaps) mark(count uint32) bool {
	word, bit := &g.came[count%seenNumbers/64], uint64(1)<<(count%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func compareMissing(m missing, number uint32) int {
	switch {
	case m.number < number:
		return -1
	case m.number > number:
		return 1
	}
	return 0
}

// expire gives up numbers that are missing for too long and says whether there were any.
func (g *gaps) expire(now time.Time) bool {
	lost := 0
	for _, m := range g.missing {
		if g.highest-m.number < gapNumbers && now.Sub(m.since) < gapTime {
			break
		}
		lost++
	}
	g.missing = slices.Delete(g.missing, 0, lost)
	return lost > 0
}

// due is when expire has to be asked again; it is false when nothing is missing.
func (g *gaps) due() (time.Time, bool) {
	if len(g.missing) == 0 {
		return time.Time{}, false
	}
	return g.missing[0].since.Add(gapTime), true
}
