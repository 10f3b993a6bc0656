package mesh

import (
	"bytes"
	"math/bits"

	"github.com/google/uuid"
)

// The shape of an interest set. A reader takes any size that is a power of two; this is what we write. With 1,000 queues
// one queue in 45 is taken for one of them, with 3,000 one in three; where there are many more, all are.
const (
	interestBytes = 1024
	// interestProbes is how many bits stand for a queue. With the hash it is part of the wire format.
	interestProbes = 4
)

// interestSet is a set of queues that may say yes to one that is not in it, and never says no to one that is: a Bloom
// filter. It is what a broker tells its peers of the queues whose wakes do something to it.
type interestSet [interestBytes]byte

func newInterestSet() *interestSet { return new(interestSet) }

// interestHash is the hash of a queue: 64-bit FNV-1a of the tenant's 16 bytes and the name, mixed so that every bit
// depends on every byte. It is part of the wire format.
func interestHash(tenant uuid.UUID, queue string) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for _, b := range tenant {
		hash = (hash ^ uint64(b)) * 0x100000001b3
	}
	for i := range len(queue) {
		hash = (hash ^ uint64(queue[i])) * 0x100000001b3
	}
	hash = (hash ^ hash>>33) * 0xff51afd7ed558ccd
	hash = (hash ^ hash>>33) * 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

// interestBit is the place of a hash's n-th bit among those of so many bytes, which are a power of two.
func interestBit(hash uint64, n, size int) (at int, mask byte) {
	place := (uint32(hash) + uint32(n)*uint32(hash>>32|1)) & uint32(8*size-1)
	return int(place / 8), 1 << (place % 8)
}

// add takes a queue up and reports whether that changed anything.
func (s *interestSet) add(hash uint64) (changed bool) {
	for n := range interestProbes {
		at, mask := interestBit(hash, n, len(s))
		changed = changed || s[at]&mask == 0
		s[at] |= mask
	}
	return changed
}

func (s *interestSet) encoded() []byte { return bytes.Clone(s[:]) }

// interested tells whether the bits of a set may hold a queue.
func interested(set []byte, hash uint64) bool {
	for n := range interestProbes {
		if at, mask := interestBit(hash, n, len(set)); set[at]&mask == 0 {
			return false
		}
	}
	return true
}

// interestFill is the part of the bits that are set. Above a half, most queues are taken for ones of the set.
func interestFill(set []byte) float64 {
	ones := 0
	for _, b := range set {
		ones += bits.OnesCount8(b)
	}
	return float64(ones) / float64(8*len(set))
}
