package mesh

import (
	"bytes"

	"github.com/google/uuid"
	"github.com/vmihailenco/msgpack/v5"
)

// Bytes that surround the items of a v2 frame at most: version, array, kind, origin (2+16), destination (1+8), number
// (1+8), and the header of up to 65,535 items.
const (
	v2Envelope  = 1 + 1 + 1 + 18 + 9 + 9
	v2ItemsHead = 3
)

// encoder writes frames into one buffer that it reuses. It has one owner.
type encoder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

func newEncoder() *encoder {
	e := &encoder{}
	e.enc = msgpack.NewEncoder(&e.buf)
	return e
}

// Encode writes a frame; the bytes are the caller's until the next call. It checks nothing: what fits a frame is
// decided by who fills it. Writing to a bytes.Buffer cannot fail, so neither can this.
func (e *encoder) Encode(f *Frame) []byte {
	e.buf.Reset()
	e.buf.WriteByte(f.Version)
	if f.Version == 1 {
		e.encodeV1(f)
	} else {
		e.encodeV2(f)
	}
	return e.buf.Bytes()
}

func (e *encoder) encodeV1(f *Frame) {
	queue, partition, wide := "", "", true
	switch {
	case len(f.Wakes) > 0:
		queue, partition, wide = f.Wakes[0].Queue, f.Wakes[0].Partition, f.Wakes[0].QueueWide
	case len(f.Invalidations) > 0:
		queue = f.Invalidations[0].Queue
	}
	if wide {
		e.array(2)
	} else {
		e.array(3)
	}
	e.uint(uint64(f.Kind))
	e.string(queue)
	if !wide {
		e.string(partition)
	}
}

func (e *encoder) encodeV2(f *Frame) {
	e.array(5)
	e.uint(uint64(f.Kind))
	e.uuid(f.Origin)
	_ = e.enc.EncodeUint64(f.Destination)
	_ = e.enc.EncodeUint64(uint64(f.Number))
	switch f.Kind {
	case KindWake:
		e.wakes(f.Wakes)
	case KindInvalidation:
		e.array(len(f.Invalidations))
		for i := range f.Invalidations {
			e.invalidation(&f.Invalidations[i])
		}
	case KindBeacon:
		if f.Generation == 0 {
			e.array(2)
		} else {
			e.array(3)
		}
		e.uint(f.Round)
		_ = e.enc.EncodeBool(f.Echo)
		if f.Generation != 0 {
			e.uint(f.Generation)
		}
	case KindInterest:
		e.array(2)
		e.uint(f.Generation)
		_ = e.enc.EncodeBytes(f.Interest) // nil for none
	default:
		e.null()
	}
}

// wakes writes neighbours of the same tenant and queue as one item.
func (e *encoder) wakes(wakes []Wake) {
	groups := 0
	for i := range wakes {
		if !sameItem(wakes, i) {
			groups++
		}
	}
	e.array(groups)
	for start := 0; start < len(wakes); {
		end := start + 1
		for end < len(wakes) && sameItem(wakes, end) {
			end++
		}
		first := &wakes[start]
		e.array(3)
		e.tenant(first.Tenant, first.TenantKnown)
		e.string(first.Queue)
		if first.QueueWide {
			e.null()
		} else {
			e.array(end - start)
			for _, wake := range wakes[start:end] {
				e.string(wake.Partition)
			}
		}
		start = end
	}
}

// sameItem says whether wake i goes into the item of the wake before it.
func sameItem(wakes []Wake, i int) bool {
	if i == 0 {
		return false
	}
	a, b := &wakes[i-1], &wakes[i]
	return !a.QueueWide && !b.QueueWide && a.Tenant == b.Tenant && a.TenantKnown == b.TenantKnown && a.Queue == b.Queue
}

func (e *encoder) invalidation(i *Invalidation) {
	e.array(5)
	e.tenant(i.Tenant, i.TenantKnown)
	e.string(i.Queue)
	e.uint(uint64(i.Version))
	e.uint(i.flags())
	if i.Group == "" {
		e.null()
	} else {
		e.string(i.Group)
	}
}

func (e *encoder) array(n int) { _ = e.enc.EncodeArrayLen(n) }

func (e *encoder) uint(n uint64) { _ = e.enc.EncodeUint(n) }

func (e *encoder) string(s string) { _ = e.enc.EncodeString(s) }

func (e *encoder) null() { _ = e.enc.EncodeNil() }

func (e *encoder) uuid(id uuid.UUID) { _ = e.enc.EncodeBytes(id[:]) }

func (e *encoder) tenant(id uuid.UUID, known bool) {
	if !known {
		e.null()
		return
	}
	e.uuid(id)
}

// Sizes of what the encoder writes, so that a frame is filled without encoding twice.

func stringSize(s string) int {
	switch {
	case len(s) < 32:
		return 1 + len(s)
	case len(s) < 256:
		return 2 + len(s)
	}
	return 3 + len(s)
}

func tenantSize(known bool) int {
	if known {
		return 18
	}
	return 1
}

func invalidationSize(i *Invalidation) int {
	return 1 + tenantSize(i.TenantKnown) + stringSize(i.Queue) + 9 + 1 + stringSize(i.Group)
}
