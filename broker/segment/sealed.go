package segment

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Sealer encrypts the payloads of one body, in order.
type Sealer interface {
	// Lock begins a new body and returns what an Opener needs to read it. It may be called again for another body.
	Lock() (head []byte, err error)
	// Seal appends the sealed form of the next payload, which opens only together with extra.
	Seal(dst, plain, extra []byte) []byte
}

// Opener decrypts what a Sealer sealed.
type Opener interface {
	// Unlock begins to read the body of the head.
	Unlock(head []byte) error
	// Skip passes so many payloads of the body.
	Skip(payloads int)
	// Open appends the next payload. It fails unless everything is as it was sealed.
	Open(dst, sealed, extra []byte) ([]byte, error)
}

// IsSealed tells whether a stored body is encrypted.
func IsSealed(body []byte) bool { return len(body) > 0 && body[0] == encodingSealed }

// Sealed is the stored form of what b gathered, with every payload encrypted. What de-duplication and acks need of a
// record stays readable, but is bound to its payload.
func (p *Packer) Sealed(b *Builder, s Sealer) ([]byte, error) {
	head, err := s.Lock()
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, 1+2+len(head)+len(b.plain)+len(b.starts)*sealedOverhead)
	body = append(body, encodingSealed)
	body = appendField(body, head)
	var sealed, scratch []byte
	for rest := b.plain; len(rest) > 0; {
		var record, payload []byte
		if record, payload, rest, err = splitRecord(rest); err != nil {
			return nil, err
		}
		scratch = p.appendPacked(scratch[:0], payload)
		sealed = s.Seal(sealed[:0], scratch, record)
		body = append(body, record...)
		body = appendField(body, sealed)
	}
	return body, nil
}

// sealedOverhead is about what a payload grows by: the packing byte, the tag, and a longer length.
const sealedOverhead = 18

// Open reads a stored body of count records, sealed or not. It asks the opener only for one that is sealed, and answers
// the opener's errors as they are. A body that is not sealed must not be reused, as with Decode.
func Open(format int16, count int, body []byte, opener Opener) (Segment, error) {
	if !IsSealed(body) {
		return Decode(format, count, body)
	}
	if err := checkFormat(format); err != nil {
		return Segment{}, err
	}
	records, err := unlock(count, body[1:], opener)
	if err != nil {
		return Segment{}, err
	}
	plain, starts := make([]byte, 0, len(records)), make([]uint32, 0, count)
	var scratch []byte
	for rest := records; len(rest) > 0; {
		if len(starts) == count {
			return Segment{}, fmt.Errorf("%w: bytes after the last record", ErrCorrupt)
		}
		var record, sealed []byte
		if record, sealed, rest, err = splitRecord(rest); err != nil {
			return Segment{}, err
		}
		if scratch, err = opener.Open(scratch[:0], sealed, record); err != nil {
			return Segment{}, err
		}
		payload, err := unpacked(scratch)
		if err != nil {
			return Segment{}, err
		}
		if len(plain)+len(record)+len(payload) > math.MaxUint32-binary.MaxVarintLen64 {
			return Segment{}, fmt.Errorf("%w: more than a segment can hold", ErrCorrupt)
		}
		starts = append(starts, uint32(len(plain)))
		plain = append(plain, record...)
		plain = appendField(plain, payload)
	}
	if len(starts) != count {
		return Segment{}, fmt.Errorf("%w: %d records of %d", ErrCorrupt, len(starts), count)
	}
	return Segment{plain: plain, starts: starts}, nil
}

// unlock reads the head of a sealed body and returns the records behind it.
func unlock(count int, body []byte, opener Opener) (records []byte, err error) {
	head, records, err := takeField(body)
	if err != nil {
		return nil, err
	}
	if err := checkCount(count, records); err != nil {
		return nil, err
	}
	return records, opener.Unlock(head)
}

// SealPayload is the sealed form of one payload that stands alone, as that of a dead letter does.
func SealPayload(payload []byte, s Sealer) ([]byte, error) {
	head, err := s.Lock()
	if err != nil {
		return nil, err
	}
	packed := new(Packer).appendPacked(nil, payload)
	dst := make([]byte, 0, 2+len(head)+len(packed)+sealedOverhead)
	dst = append(dst, encodingSealed)
	return s.Seal(appendField(dst, head), packed, nil), nil
}

// OpenPayload reads what SealPayload made.
func OpenPayload(sealed []byte, opener Opener) ([]byte, error) {
	if !IsSealed(sealed) {
		return nil, fmt.Errorf("%w: payload is not sealed", ErrCorrupt)
	}
	head, sealed, err := takeField(sealed[1:])
	if err != nil {
		return nil, err
	}
	if err := opener.Unlock(head); err != nil {
		return nil, err
	}
	packed, err := opener.Open(nil, sealed, nil)
	if err != nil {
		return nil, err
	}
	return unpacked(packed)
}

func appendField(dst, field []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

// appendPacked appends a payload as it is sealed: an encoding byte, then the payload, compressed where that pays.
// Encrypted bytes do not compress, so that it must be done before.
func (p *Packer) appendPacked(dst, payload []byte) []byte {
	if packed := p.pack(dst, payload); packed != nil {
		return packed
	}
	return append(append(dst, encodingPlain), payload...)
}

// unpacked shares the bytes of what was not compressed.
func unpacked(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, fmt.Errorf("%w: empty payload", ErrCorrupt)
	}
	switch packed[0] {
	case encodingPlain:
		return packed[1:], nil
	case encodingZstd:
		return inflate(packed[1:])
	default:
		return nil, fmt.Errorf("%w: payload encoding %d", ErrUnknownFormat, packed[0])
	}
}
