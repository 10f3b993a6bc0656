package broker

import (
	"encoding/binary"
	"time"

	"waggle/broker/segment"
)

// window is what a lane remembers of one partition's transaction ids, to narrow the comparison that the append
// statement makes. It belongs to the partition's lane and is not safe for concurrent use.
//
// Newest records are held exactly. Older ones move into filters that answer "surely not" or "look between these
// offsets". Below covered nothing is known and the database must be asked.
type window struct {
	// head is the offset that the next record will get, as far as is known.
	head    int64
	covered int64
	exact   map[segment.Hash]place
	// recent holds the records of exact, oldest first.
	recent  []remembered
	entries int
	filters []*filter
	epoch   int64
	used    time.Time
}

// place is where a record stands. Micros is its created time.
type place struct {
	offset int64
	micros int64
}

type remembered struct {
	base   int64
	micros int64
	ids    []byte
}

const (
	// maxExact entries of a partition are held exactly; then the older half moves into filters.
	maxExact = 8 << 10
	// bytes that one exact entry costs: its id, its map slot and the slack of both.
	exactCost   = 96
	windowCost  = 256
	filterBits  = 32
	filterProbe = 8
	blockWords  = 8
	minFilter   = 16 << 10
	maxFilter   = 1 << 20
	// An entry is kept a little longer than the window, because the clocks are not one.
	windowSlack = 5 * time.Second
)

func newWindow(head int64) *window {
	return &window{head: head, covered: head, exact: map[segment.Hash]place{}}
}

func (w *window) bytes() int {
	n := windowCost + w.entries*exactCost
	for _, f := range w.filters {
		n += len(f.bits) * 8
	}
	return n
}

// add appends a segment at its base; a gap before it makes everything older unknown.
func (w *window) add(base, micros int64, ids []byte) {
	if base != w.head {
		epoch, used := w.epoch, w.used
		*w = *newWindow(base)
		w.epoch, w.used = epoch, used
	}
	count := len(ids) / segment.HashSize
	w.head = base + int64(count)
	found := false
	for i := range count {
		if h := segment.Hash(ids[i*segment.HashSize:]); h != (segment.Hash{}) {
			w.exact[h] = place{offset: base + int64(i), micros: micros}
			found = true
		}
	}
	if !found {
		// Ids that follow from their place need no entry.
		return
	}
	w.recent = append(w.recent, remembered{base: base, micros: micros, ids: ids})
	w.entries += count
	if w.entries > maxExact {
		w.seal(maxExact / 2)
	}
}

// seal moves the oldest records into filters until at most keep are exact.
func (w *window) seal(keep int) {
	for w.entries > keep && len(w.recent) > 1 {
		old := w.recent[0]
		w.recent[0] = remembered{}
		w.recent = w.recent[1:]
		count := len(old.ids) / segment.HashSize
		w.entries -= count
		f := w.filterFor(count)
		f.high, f.newest = old.base+int64(count)-1, old.micros
		for i := range count {
			h := segment.Hash(old.ids[i*segment.HashSize:])
			if h == (segment.Hash{}) {
				continue
			}
			f.put(h)
			if at, ok := w.exact[h]; ok && at.offset == old.base+int64(i) {
				delete(w.exact, h)
			}
		}
		if f.low < 0 {
			f.low = old.base
		}
	}
}

func (w *window) filterFor(count int) *filter {
	size := minFilter
	if n := len(w.filters); n > 0 {
		last := w.filters[n-1]
		if last.count+count <= last.capacity {
			last.count += count
			return last
		}
		size = min(2*last.capacity, maxFilter)
	}
	f := newFilter(max(size, count))
	f.count = count
	w.filters = append(w.filters, f)
	return f
}

// expire drops what is older than the given time: it counts as not there, not as unknown.
func (w *window) expire(before int64) {
	for len(w.filters) > 0 && w.filters[0].newest < before {
		w.filters = w.filters[1:]
	}
	if len(w.filters) > 0 {
		return
	}
	for len(w.recent) > 0 && w.recent[0].micros < before {
		old := w.recent[0]
		w.recent[0] = remembered{}
		w.recent = w.recent[1:]
		w.entries -= len(old.ids) / segment.HashSize
		for i := 0; i < len(old.ids); i += segment.HashSize {
			h := segment.Hash(old.ids[i:])
			if at, ok := w.exact[h]; ok && at.offset >= old.base && at.offset < old.base+int64(len(old.ids)/segment.HashSize) {
				delete(w.exact, h)
			}
		}
	}
}

// find returns the record's place if it is known exactly; otherwise the offsets, if any, between which only the
// database can tell. Nothing below since is of interest.
func (w *window) find(h segment.Hash, since int64) (at place, exact bool, low, high int64) {
	if at, ok := w.exact[h]; ok {
		return at, true, 0, -1
	}
	low, high = w.unsure(h, since)
	return place{}, false, low, high
}

// unsure returns the offsets, if any, between which the hash may stand without being known exactly.
func (w *window) unsure(h segment.Hash, since int64) (low, high int64) {
	low, high = 0, -1
	if w.covered > since {
		low, high = since, w.covered-1
	}
	for _, f := range w.filters {
		if f.high < since || !f.has(h) {
			continue
		}
		if high < low {
			low = f.low
		}
		high = f.high
	}
	return low, high
}

// filter is a Bloom filter over the hashes of a range of offsets.
type filter struct {
	low, high int64
	newest    int64
	count     int
	capacity  int
	bits      []uint64
}

func newFilter(capacity int) *filter {
	return &filter{low: -1, capacity: capacity, bits: make([]uint64, capacity*filterBits/64)}
}

// Each hash has its bits in one block of a cache line's size: a hash that is not there costs one miss. The hash is
// uniform already: its first half chooses the block and one bit, pieces of the second the other bits. A false positive,
// about one in 100,000, costs a look into every id of the filter's range: with half the bits a fast partition spent a
// third of PostgreSQL's time on such looks.
func (f *filter) block(h segment.Hash) (block []uint64, first uint64) {
	n := uint64(len(f.bits) / blockWords)
	a := binary.LittleEndian.Uint64(h[:])
	at := a % n * blockWords
	return f.bits[at : at+blockWords : at+blockWords], a >> 55
}

func (f *filter) put(h segment.Hash) {
	block, bit := f.block(h)
	pieces := binary.LittleEndian.Uint64(h[8:])
	for range filterProbe {
		block[bit>>6%blockWords] |= 1 << (bit % 64)
		bit = pieces
		pieces >>= 9
	}
}

func (f *filter) has(h segment.Hash) bool {
	block, bit := f.block(h)
	pieces := binary.LittleEndian.Uint64(h[8:])
	for range filterProbe {
		if block[bit>>6%blockWords]&(1<<(bit%64)) == 0 {
			return false
		}
		bit = pieces
		pieces >>= 9
	}
	return true
}
