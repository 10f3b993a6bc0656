package bench

import (
	"fmt"
	"math/bits"
	"sync"
)

// audit knows which messages were acknowledged to their pusher and which have been delivered. A stream is what one
// connection pushed to one partition; its messages have to arrive once each, in order.
type audit struct {
	prefix     string
	partitions int
	streams    []stream
}

// stream is guarded by its own lock: pushing and draining one partition overlap in the live rows.
type stream struct {
	mu      sync.Mutex
	pushed  bitset
	seen    bitset
	highest int64
	tally   Tally
}

// Tally is what an audit found.
type Tally struct {
	Pushed     int64 `json:"pushed"`
	Delivered  int64 `json:"delivered"`
	Lost       int64 `json:"lost"`
	Duplicates int64 `json:"duplicates"`
	Disordered int64 `json:"disordered"`
	// Foreign messages belong to nobody here, or differ from their own payload.
	Foreign int64 `json:"foreign"`
}

func (t *Tally) add(o Tally) {
	t.Pushed += o.Pushed
	t.Delivered += o.Delivered
	t.Lost += o.Lost
	t.Duplicates += o.Duplicates
	t.Disordered += o.Disordered
	t.Foreign += o.Foreign
}

// clean tells whether every promise was kept.
func (t *Tally) clean() bool {
	return t.Lost == 0 && t.Duplicates == 0 && t.Disordered == 0 && t.Foreign == 0
}

func (t *Tally) String() string {
	return fmt.Sprintf("%d pushed, %d delivered, %d lost, %d twice, %d out of order, %d foreign",
		t.Pushed, t.Delivered, t.Lost, t.Duplicates, t.Disordered, t.Foreign)
}

func newAudit(prefix string, writers, partitions int) *audit {
	a := &audit{prefix: prefix, partitions: partitions, streams: make([]stream, writers*partitions)}
	for i := range a.streams {
		a.streams[i].highest = -1
	}
	return a
}

// acknowledged notes that count messages from first on were answered as stored.
func (a *audit) acknowledged(writer, partition int, first uint32, count int) {
	s := &a.streams[writer*a.partitions+partition]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range count {
		s.pushed.set(int(first) + i)
	}
	s.tally.Pushed += int64(count)
}

// delivered notes a message by its mark; false means that it is none of ours.
func (a *audit) delivered(mark []byte) bool {
	if len(mark) != markBytes || string(mark[:markPrefix]) != a.prefix {
		return false
	}
	writer, ok1 := parseHex(mark[writerAt:partitionAt])
	partition, ok2 := parseHex(mark[partitionAt:sequenceAt])
	sequence, ok3 := parseHex(mark[sequenceAt:])
	index := int(writer)*a.partitions + int(partition)
	if !ok1 || !ok2 || !ok3 || int(partition) >= a.partitions || index >= len(a.streams) {
		return false
	}
	s := &a.streams[index]
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.seen.set(int(sequence)):
		s.tally.Duplicates++
		return true
	case int64(sequence) < s.highest:
		s.tally.Disordered++
	default:
		s.highest = int64(sequence)
	}
	s.tally.Delivered++
	return true
}

// result sums up; what was acknowledged and never delivered is lost.
func (a *audit) result() Tally {
	var sum Tally
	for i := range a.streams {
		s := &a.streams[i]
		s.mu.Lock()
		t := s.tally
		t.Lost = s.pushed.without(&s.seen)
		s.mu.Unlock()
		sum.add(t)
	}
	return sum
}

// bitset grows as it is set.
type bitset struct {
	words []uint64
}

// set returns false when the bit was set already.
func (b *bitset) set(i int) bool {
	for len(b.words) <= i/64 {
		b.words = append(b.words, 0)
	}
	mask := uint64(1) << (i % 64)
	if b.words[i/64]&mask != 0 {
		return false
	}
	b.words[i/64] |= mask
	return true
}

// without counts the bits that are not in o.
func (b *bitset) without(o *bitset) (n int64) {
	for i, word := range b.words {
		if i < len(o.words) {
			word &^= o.words[i]
		}
		n += int64(bits.OnesCount64(word))
	}
	return n
}
