package mesh

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// FrameLimit is the longest frame in bytes. With label, nonce, tag and checksum it still fits one unfragmented
// datagram on every network that carries IPv6.
const FrameLimit = 1100

// nameLimit is the longest queue, partition or group name in bytes (architecture section 5.12).
const nameLimit = 1024

// Kind says what a frame is about. The numbers are part of the wire format: they are only ever appended to.
type Kind uint8

// The kinds of frames. v1 knows the first two.
const (
	KindWake         Kind = 1
	KindInvalidation Kind = 2
	KindLeaderHint   Kind = 3
	KindLeave        Kind = 4
	KindBeacon       Kind = 5
	// KindInterest came later than the others. Builds that do not know it would miss its number, so it has none, and it
	// is sent only to peers that have shown that they know it.
	KindInterest Kind = 6
)

var kinds = []Kind{KindWake, KindInvalidation, KindLeaderHint, KindLeave, KindBeacon, KindInterest}

// String is the label value used in metrics.
func (k Kind) String() string {
	switch k {
	case KindWake:
		return "wake"
	case KindInvalidation:
		return "invalidation"
	case KindLeaderHint:
		return "leader_hint"
	case KindLeave:
		return "leave"
	case KindBeacon:
		return "beacon"
	case KindInterest:
		return "interest"
	}
	return "unknown"
}

// Wake says that a partition, or with QueueWide some partition of a queue, may have something new.
type Wake struct {
	Tenant uuid.UUID
	// TenantKnown is false for an item of a v1 frame: it is meant for every tenant that holds a queue of this name.
	TenantKnown bool
	Queue       string
	// Partition is the partition's name; it is empty when QueueWide.
	Partition string
	QueueWide bool
}

// Invalidation says what about a queue is no longer as a cache may have it. At least one of OptionsChanged, Deleted
// and CursorsMoved is set.
type Invalidation struct {
	Tenant uuid.UUID
	// TenantKnown is false for an item of a v1 frame: it is meant for every tenant that holds a queue of this name.
	TenantKnown bool
	Queue       string
	// OptionsChanged says that the options are now at least at Version. A cache entry of that version or newer may
	// stay, unless Version is 0 (unknown) or Deleted is set.
	OptionsChanged bool
	Version        int64
	// Deleted says that the queue was deleted. One of the same name may exist again, with versions from 1.
	Deleted bool
	// CursorsMoved says that the cursors of Group were moved by something else than consuming (seek, group delete).
	CursorsMoved bool
	// Group is the group whose cursors moved; empty means any group of the queue.
	Group string
}

const (
	flagOptionsChanged = 1 << iota
	flagDeleted
	flagCursorsMoved
)

func (i Invalidation) flags() uint64 {
	var flags uint64
	if i.OptionsChanged {
		flags |= flagOptionsChanged
	}
	if i.Deleted {
		flags |= flagDeleted
	}
	if i.CursorsMoved {
		flags |= flagCursorsMoved
	}
	return flags
}

// Frame is one decoded frame. Which fields are filled depends on Kind and Version.
type Frame struct {
	Version uint8
	Kind    Kind

	// Origin, Destination and Number are absent in v1.
	Origin      uuid.UUID
	Destination uint64
	Number      Number

	Wakes         []Wake
	Invalidations []Invalidation

	// Round and Echo belong to a beacon: an echo carries the round it answers.
	Round uint64
	Echo  bool

	// Generation belongs to a beacon and to an interest frame. In a beacon and with Interest it is that of the origin's
	// own summary; without Interest it is that of the destination's, as the origin has it, 0 for none. A beacon of a
	// broker that has no summary, or knows of none, has generation 0.
	Generation uint64
	// Interest is the summary itself, the bits of an interestSet.
	Interest []byte
}

// Number is the place of a frame in the stream from one origin to one destination.
type Number uint64

// firstNumber is the number before the first of a stream opened at the given unix second.
func firstNumber(opened uint32) Number { return Number(opened) << 32 }

func (n Number) stream() uint32 { return uint32(n >> 32) }

func (n Number) count() uint32 { return uint32(n) }

// destinationMark is the random half of a start id. It keeps a process that inherited an address from counting, or
// answering, what was sent to the process before it.
func destinationMark(start uuid.UUID) uint64 { return binary.BigEndian.Uint64(start[8:]) }
