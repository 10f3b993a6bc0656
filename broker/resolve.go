package broker

import (
	"context"
	"math"
	"slices"
	"time"

	"waggle/broker/segment"
	"waggle/pg"
)

// idLog gives access to the ids of consecutive records, wherever they were read.
type idLog []idSpan

type idSpan struct {
	base   int64
	millis int64 // of the created time; 0 when it is not known
	ids    []byte
}

func spansOf(segments []pg.Segment) idLog {
	l := make(idLog, len(segments))
	for i, s := range segments {
		l[i] = idSpan{base: s.Base, millis: s.CreatedAt.UnixMilli(), ids: s.IDs}
	}
	return l
}

func (s idSpan) end() int64 { return s.base + int64(len(s.ids)/segment.HashSize) }

func (s idSpan) hash(offset int64) segment.Hash {
	return segment.Hash(s.ids[(offset-s.base)*segment.HashSize:])
}

// unnamed tells whether the record at offset has no id of its own and, where the time is known, was created then.
func (l idLog) unnamed(offset, millis int64) bool {
	for _, s := range l {
		if offset >= s.base && offset < s.end() {
			return s.hash(offset) == (segment.Hash{}) && (s.millis == 0 || s.millis == millis)
		}
	}
	return false
}

// wantedIDs are the transaction ids of a set, and where they were found. The k-th occurrence of an id in a set means
// its k-th lowest offset, and the highest when there are fewer.
type wantedIDs struct {
	hashes []segment.Hash
	nth    []int
	places map[segment.Hash]*foundAt
	open   int // occurrences still sought
}

type foundAt struct {
	sought  int
	offsets []int64
}

func newWantedIDs(s *ackSet, items []AckItem) *wantedIDs {
	n := len(s.indexes)
	w := &wantedIDs{hashes: make([]segment.Hash, n), nth: make([]int, n), places: make(map[segment.Hash]*foundAt, n), open: n}
	for k, i := range s.indexes {
		h := segment.HashOf(items[i].TransactionID)
		at := w.places[h]
		if at == nil {
			at = &foundAt{}
			w.places[h] = at
		}
		w.hashes[k], w.nth[k] = h, at.sought
		at.sought++
	}
	return w
}

// drop stops the search for the k-th item.
func (w *wantedIDs) drop(k int) {
	if at := w.places[w.hashes[k]]; len(at.offsets) < at.sought {
		at.sought--
		w.open--
	}
}

// scan looks through the part of a span that lies in (low, high]; spans come in order.
func (w *wantedIDs) scan(s idSpan, low, high int64) {
	for at := max(s.base, low+1); at < s.end() && at <= high && w.open > 0; at++ {
		if found := w.places[s.hash(at)]; found != nil && len(found.offsets) < found.sought {
			found.offsets = append(found.offsets, at)
			w.open--
		}
	}
}

// offset of the k-th item, -1 for not found.
func (w *wantedIDs) offset(k int) int64 {
	at := w.places[w.hashes[k]]
	if len(at.offsets) == 0 {
		return -1
	}
	return at.offsets[min(w.nth[k], len(at.offsets)-1)]
}

// resolve turns the set's transaction ids into offsets in (low, high], -1 where there is none: by recorded hash, or as
// the message id of a record without one.
func (l idLog) resolve(s *ackSet, items []AckItem, low, high int64) []int64 {
	wanted := newWantedIDs(s, items)
	for _, span := range l {
		wanted.scan(span, low, high)
	}
	offsets := make([]int64, len(s.indexes))
	for k, i := range s.indexes {
		if offsets[k] = wanted.offset(k); offsets[k] >= 0 {
			continue
		}
		if at := derivedFrom(items[i].TransactionID); at != nil && at.Partition == s.partition.id && at.Offset > low &&
			at.Offset <= high && l.unnamed(at.Offset, at.Millis) {
			offsets[k] = at.Offset
		}
	}
	return offsets
}

// idReader reads ids from the log: the pool, or the connection that holds the cursor's lock.
type idReader interface {
	IDsAfter(ctx context.Context, partition, low int64, limit int) ([]pg.Segment, error)
	FindIDs(ctx context.Context, queries []pg.IDQuery, window time.Duration) ([]pg.Found, error)
}

const (
	scanPage = 256
	// maxScanned bounds the records that are looked through for acks without a lease.
	maxScanned = 2 << 20
	// maxDerivedSpan is how far apart message ids of one set may lie to be looked up together.
	maxDerivedSpan = 16 << 10
)

// resolveInLog finds each item's offset, -1 for none: first where it may count, then at or below the cursor, within
// the time for which ids are kept.
func resolveInLog(ctx context.Context, log idReader, s *ackSet, items []AckItem, c cursorState) ([]resolved, error) {
	high := int64(math.MaxInt64 - 1)
	if c.live {
		high = c.batchEnd
	}
	list := make([]resolved, len(s.indexes))
	for k, i := range s.indexes {
		list[k] = resolved{offset: -1, status: items[i].Status, err: items[i].Error}
	}
	wanted := newWantedIDs(s, items)
	if err := resolveHanded(ctx, log, s, items, c, list); err != nil {
		return nil, err
	}
	if err := resolveDerived(ctx, log, s, items, high, list); err != nil {
		return nil, err
	}
	for k := range list {
		if list[k].offset >= 0 {
			wanted.drop(k)
		}
	}
	if err := scanLog(ctx, log, s.partition.id, wanted, c.committed, high); err != nil {
		return nil, err
	}
	var late []pg.IDQuery
	var lateAt []int
	for k := range list {
		if list[k].offset >= 0 {
			continue
		}
		if list[k].offset = wanted.offset(k); list[k].offset < 0 && c.committed >= 0 {
			late = append(late, pg.IDQuery{Partition: s.partition.id, Low: 0, High: c.committed, Hash: wanted.hashes[k][:]})
			lateAt = append(lateAt, k)
		}
	}
	if len(late) == 0 {
		return list, nil
	}
	found, err := log.FindIDs(ctx, late, s.queue.options.lookupWindow())
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		list[lateAt[f.Query]].offset = f.Offset
	}
	return list, nil
}

// scanLog looks for the wanted ids in (low, high], from below, until it has all of them.
func scanLog(ctx context.Context, log idReader, partition int64, wanted *wantedIDs, low, high int64) error {
	from := low
	for scanned := 0; wanted.open > 0 && from < high && scanned < maxScanned; {
		page, err := log.IDsAfter(ctx, partition, from, scanPage)
		if err != nil {
			return err
		}
		for _, span := range spansOf(page) {
			wanted.scan(span, low, high)
			from = span.end() - 1
			scanned += len(span.ids) / segment.HashSize
		}
		if len(page) < scanPage {
			return nil
		}
	}
	return nil
}

// resolveDerived serves the items whose transaction id is the message id of a record without one.
func resolveDerived(ctx context.Context, log idReader, s *ackSet, items []AckItem, high int64, list []resolved) error {
	type candidate struct {
		k              int
		offset, millis int64
	}
	var all []candidate
	for k, i := range s.indexes {
		if at := derivedFrom(items[i].TransactionID); at != nil && at.Partition == s.partition.id && at.Offset <= high {
			all = append(all, candidate{k, at.Offset, at.Millis})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return int(min(max(a.offset-b.offset, -1), 1)) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].offset-all[0].offset < maxDerivedSpan {
			n++
		}
		spans, err := readSpans(ctx, log, s.partition.id, all[0].offset-1, all[n-1].offset)
		if err != nil {
			return err
		}
		for _, c := range all[:n] {
			if spans.unnamed(c.offset, c.millis) {
				list[c.k].offset = c.offset
			}
		}
		all = all[n:]
	}
	return nil
}

// readSpans reads the ids of (low, high].
func readSpans(ctx context.Context, log idReader, partition, low, high int64) (idLog, error) {
	var out idLog
	for low < high {
		page, err := log.IDsAfter(ctx, partition, low, scanPage)
		if err != nil {
			return nil, err
		}
		for _, span := range spansOf(page) {
			out = append(out, span)
			low = span.end() - 1
		}
		if len(page) < scanPage {
			break
		}
	}
	return out, nil
}
