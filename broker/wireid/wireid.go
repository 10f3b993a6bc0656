// Package wireid turns the numbers that storage uses into the identifiers that clients see, and back. It is pure.
//
// Message ids are UUIDv7 made of a record's place: they cost nothing to mint, rise as text within a partition and
// lead back to the record. Partition and queue ids are UUIDv8 of the row id under a keyed permutation with a MAC:
// they can neither be counted nor guessed. Lease ids are UUIDv7 whose free bits name the cursor.
package wireid

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Ranges beyond which an id cannot name its place any more.
const (
	MaxOffset    = 1<<40 - 1
	MaxPartition = 1<<34 - 1
	MaxCursor    = 1<<40 - 1
	maxMillis    = 1<<48 - 1
)

// ErrOutOfRange says that a number does not fit the bits an id has for it.
var ErrOutOfRange = errors.New("wireid: number out of range")

// layout of a UUIDv7: 48 bits of milliseconds, version, 12 bits, variant, 62 bits.
func pack(millis uint64, high12 uint16, low62 uint64) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], millis<<16|0x7000|uint64(high12))
	binary.BigEndian.PutUint64(id[8:], 1<<63|low62)
	return id
}

func unpack(id uuid.UUID) (millis uint64, high12 uint16, low62 uint64, ok bool) {
	front, back := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	if front>>12&0xf != 7 || back>>62 != 2 {
		return 0, 0, 0, false
	}
	return front >> 16, uint16(front & 0xfff), back & (1<<62 - 1), true
}

// Message is the id of the record at offset of partition, stored at createdAt. It rises with the offset because
// created times never fall within a partition.
func Message(createdAt time.Time, offset, partition int64) (uuid.UUID, error) {
	millis := createdAt.UnixMilli()
	if millis < 0 || millis > maxMillis || offset < 0 || offset > MaxOffset || partition < 0 || partition > MaxPartition {
		return uuid.Nil, fmt.Errorf("%w: message at %d of partition %d", ErrOutOfRange, offset, partition)
	}
	return pack(uint64(millis), uint16(offset>>28), uint64(offset&(1<<28-1))<<34|uint64(partition)), nil
}

// Place is where a message id points.
type Place struct {
	Millis    int64
	Offset    int64
	Partition int64
}

// ParseMessage reads an id made by Message. Any UUIDv7 reads as some place; whether a record is there, and carries
// no id of its own, only storage can tell.
func ParseMessage(id uuid.UUID) (Place, bool) {
	millis, high, low, ok := unpack(id)
	if !ok {
		return Place{}, false
	}
	return Place{
		Millis:    int64(millis),
		Offset:    int64(high)<<28 | int64(low>>34),
		Partition: int64(low & MaxPartition),
	}, true
}

// Lease mints a lease id that names cursor, or no cursor when it is 0 (the lease of a multi-partition pop).
func Lease(now time.Time, cursor int64) (uuid.UUID, error) {
	if cursor < 0 || cursor > MaxCursor {
		return uuid.Nil, fmt.Errorf("%w: cursor %d", ErrOutOfRange, cursor)
	}
	var salt [8]byte
	rand.Read(salt[:]) // never fails
	low := binary.BigEndian.Uint64(salt[:]) & (1<<34 - 1)
	return pack(uint64(now.UnixMilli())&maxMillis, uint16(cursor>>28), uint64(cursor&(1<<28-1))<<34|low), nil
}

// ParseLease reads the cursor out of a lease id; 0 means the lease covers several.
func ParseLease(id uuid.UUID) (cursor int64, ok bool) {
	_, high, low, ok := unpack(id)
	return int64(high)<<28 | int64(low>>34), ok
}

type kind byte

const (
	kindPartition kind = 1
	kindQueue     kind = 2
)

const rounds = 6

// Codec seals row ids under one installation's key. It is safe for concurrent use.
type Codec struct {
	permutation cipher.Block
	mac         cipher.Block
}

// NewCodec derives its keys from the installation's id key, which must not be empty.
func NewCodec(key []byte) (*Codec, error) {
	if len(key) == 0 {
		return nil, errors.New("wireid: empty id key")
	}
	derive := func(info string) (cipher.Block, error) {
		k, err := hkdf.Key(sha256.New, key, nil, info, 16)
		if err != nil {
			return nil, err
		}
		return aes.NewCipher(k)
	}
	permutation, err := derive("waggle id permutation")
	if err != nil {
		return nil, fmt.Errorf("derive permutation key: %w", err)
	}
	mac, err := derive("waggle id mac")
	if err != nil {
		return nil, fmt.Errorf("derive mac key: %w", err)
	}
	return &Codec{permutation: permutation, mac: mac}, nil
}

// Partition is the wire id of a partition row.
func (c *Codec) Partition(id int64) uuid.UUID { return c.seal(kindPartition, id) }

// Queue is the wire id of a queue row.
func (c *Codec) Queue(id int64) uuid.UUID { return c.seal(kindQueue, id) }

// OpenPartition reads a wire id; false means that this installation never issued it for a partition.
func (c *Codec) OpenPartition(id uuid.UUID) (int64, bool) { return c.open(kindPartition, id) }

// OpenQueue reads a wire id; false means that this installation never issued it for a queue.
func (c *Codec) OpenQueue(id uuid.UUID) (int64, bool) { return c.open(kindQueue, id) }

func (c *Codec) round(k kind, i int, half uint32) uint32 {
	var block [16]byte
	block[0], block[1] = byte(k), byte(i)
	binary.BigEndian.PutUint32(block[2:], half)
	c.permutation.Encrypt(block[:], block[:])
	return binary.BigEndian.Uint32(block[:])
}

func (c *Codec) tag(k kind, id uint64) uint64 {
	var block [16]byte
	block[0] = byte(k)
	binary.BigEndian.PutUint64(block[8:], id)
	c.mac.Encrypt(block[:], block[:])
	return binary.BigEndian.Uint64(block[:]) >> 6 // 58 bits
}

// layout of a UUIDv8 here: 64 permuted bits and 58 bits of MAC, cut around version and variant.
func (c *Codec) seal(k kind, id int64) (out uuid.UUID) {
	left, right := uint32(uint64(id)>>32), uint32(id)
	for i := range rounds {
		left, right = right, left^c.round(k, i, right)
	}
	value, tag := uint64(left)<<32|uint64(right), c.tag(k, uint64(id))
	// front: value's top 48, version 8, value's next 12; back: variant, value's low 4, the tag.
	binary.BigEndian.PutUint64(out[:8], value>>16<<16|0x8000|value>>4&0xfff)
	binary.BigEndian.PutUint64(out[8:], 1<<63|(value&0xf)<<58|tag)
	return out
}

func (c *Codec) open(k kind, id uuid.UUID) (int64, bool) {
	front, back := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	if front>>12&0xf != 8 || back>>62 != 2 {
		return 0, false
	}
	value := front>>16<<16 | front&0xfff<<4 | back>>58&0xf
	left, right := uint32(value>>32), uint32(value)
	for i := rounds - 1; i >= 0; i-- {
		left, right = right^c.round(k, i, left), left
	}
	number := uint64(left)<<32 | uint64(right)
	if c.tag(k, number) != back&(1<<58-1) {
		return 0, false
	}
	return int64(number), true
}
