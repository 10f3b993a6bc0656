package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Format is the first record format, which every build reads.
const Format int16 = 1

// A segment takes records until it has MaxRecords or MaxBytes of them; one larger record stands alone.
const (
	MaxRecords = 1024
	MaxBytes   = 1 << 20
)

// HashSize is the length of one entry of a segment's ids.
const HashSize = 16

// Hash identifies a caller's transaction id within a partition: SHA-256, cut. The zero hash means that the caller
// gave none.
type Hash [HashSize]byte

// HashOf never returns the zero hash.
func HashOf(transactionID string) Hash {
	sum := sha256.Sum256([]byte(transactionID))
	h := Hash(sum[:HashSize])
	if h == (Hash{}) {
		h[0] = 1
	}
	return h
}

// Record is one message as it is stored. A nil TransactionID means that the message id stands for it; the zero ID
// means that the id follows from the record's place.
type Record struct {
	ID            uuid.UUID
	TraceID       uuid.UUID
	ProducerSub   string
	TransactionID *string
	Payload       []byte
}

const (
	flagID = 1 << iota
	flagTrace
	flagSub
	flagTransaction
	knownFlags = flagID | flagTrace | flagSub | flagTransaction
)

// AppendRecord appends the stored form of r to dst.
func AppendRecord(dst []byte, r *Record) []byte {
	var flags byte
	if r.ID != uuid.Nil {
		flags |= flagID
	}
	if r.TraceID != uuid.Nil {
		flags |= flagTrace
	}
	if r.ProducerSub != "" {
		flags |= flagSub
	}
	if r.TransactionID != nil {
		flags |= flagTransaction
	}
	dst = append(dst, flags)
	if flags&flagID != 0 {
		dst = append(dst, r.ID[:]...)
	}
	if flags&flagTrace != 0 {
		dst = append(dst, r.TraceID[:]...)
	}
	if flags&flagSub != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(r.ProducerSub)))
		dst = append(dst, r.ProducerSub...)
	}
	if flags&flagTransaction != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(*r.TransactionID)))
		dst = append(dst, *r.TransactionID...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Payload)))
	return append(dst, r.Payload...)
}

// CodeUnknownFormat is the operator's code of ErrUnknownFormat.
const CodeUnknownFormat = "WG0070"

// Errors of reading a segment. ErrUnknownFormat means that a newer build wrote it, ErrCorrupt that nobody did.
var (
	ErrUnknownFormat = errors.New(CodeUnknownFormat + " segment: format not known to this build")
	ErrCorrupt       = errors.New("segment: corrupt")
	// ErrSealed says that only Open reads the body.
	ErrSealed = errors.New("segment: sealed")
)

// spans of one record within the plain bytes; every offset has been checked.
func readRecord(raw []byte) (r Record, rest []byte, err error) {
	if len(raw) == 0 {
		return r, nil, fmt.Errorf("%w: record missing", ErrCorrupt)
	}
	flags := raw[0]
	raw = raw[1:]
	if flags&^knownFlags != 0 {
		return r, nil, fmt.Errorf("%w: record flags %#x", ErrUnknownFormat, flags)
	}
	if flags&flagID != 0 {
		if raw, err = takeUUID(raw, &r.ID); err != nil {
			return r, nil, err
		}
	}
	if flags&flagTrace != 0 {
		if raw, err = takeUUID(raw, &r.TraceID); err != nil {
			return r, nil, err
		}
	}
	var field []byte
	if flags&flagSub != 0 {
		if field, raw, err = takeField(raw); err != nil {
			return r, nil, err
		}
		r.ProducerSub = string(field)
	}
	if flags&flagTransaction != 0 {
		if field, raw, err = takeField(raw); err != nil {
			return r, nil, err
		}
		id := string(field)
		r.TransactionID = &id
	}
	r.Payload, rest, err = takeField(raw)
	return r, rest, err
}

// splitRecord is readRecord without the copies: the bytes before the payload's length, the payload, and what follows.
func splitRecord(raw []byte) (head, payload, rest []byte, err error) {
	if len(raw) == 0 {
		return nil, nil, nil, fmt.Errorf("%w: record missing", ErrCorrupt)
	}
	flags := raw[0]
	rest = raw[1:]
	if flags&^knownFlags != 0 {
		return nil, nil, nil, fmt.Errorf("%w: record flags %#x", ErrUnknownFormat, flags)
	}
	var id uuid.UUID
	for _, flag := range []byte{flagID, flagTrace} {
		if flags&flag != 0 {
			if rest, err = takeUUID(rest, &id); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	for _, flag := range []byte{flagSub, flagTransaction} {
		if flags&flag != 0 {
			if _, rest, err = takeField(rest); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	head = raw[:len(raw)-len(rest)]
	payload, rest, err = takeField(rest)
	return head, payload, rest, err
}

func takeUUID(raw []byte, id *uuid.UUID) ([]byte, error) {
	if len(raw) < len(id) {
		return nil, fmt.Errorf("%w: id cut short", ErrCorrupt)
	}
	copy(id[:], raw)
	return raw[len(id):], nil
}

func takeField(raw []byte) (field, rest []byte, err error) {
	n, width := binary.Uvarint(raw)
	if width <= 0 || n > uint64(len(raw)-width) {
		return nil, nil, fmt.Errorf("%w: field cut short", ErrCorrupt)
	}
	end := width + int(n)
	return raw[width:end:end], raw[end:], nil
}
