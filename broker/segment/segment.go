package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	encodingPlain  byte = 0
	encodingZstd   byte = 1
	encodingSealed byte = 2

	// Below this size zstd's frame costs more than it saves.
	compressFrom = 1 << 10
	// A body that zstd shrinks by less than two fifths is stored plain: packing it and reading it back cost more than the
	// bytes saved.
	worthKeeping = 0.6
	// MaxPlain bounds what a body may claim to unpack to; a record is at most one request body.
	MaxPlain = 256 << 20
)

// Segment gives access to the records of a decoded body. It is immutable and shares its bytes with what it returns.
type Segment struct {
	plain  []byte
	starts []uint32
}

// Len is the number of records.
func (s Segment) Len() int { return len(s.starts) }

// Size is the memory that the segment holds, in bytes.
func (s Segment) Size() int { return cap(s.plain) + 4*cap(s.starts) }

// Record reads the i-th record.
func (s Segment) Record(i int) Record {
	r, _, err := readRecord(s.plain[s.starts[i]:])
	if err != nil {
		// Decode and Builder check every record before they hand out a Segment.
		panic(err)
	}
	return r
}

// Decode reads a stored body of count records that is not sealed. The body may be reused afterwards only if it was
// compressed; callers that reuse buffers must copy.
func Decode(format int16, count int, body []byte) (Segment, error) {
	if err := checkFormat(format); err != nil {
		return Segment{}, err
	}
	if len(body) == 0 {
		return Segment{}, fmt.Errorf("%w: empty body", ErrCorrupt)
	}
	plain := body[1:]
	switch body[0] {
	case encodingPlain:
	case encodingZstd:
		var err error
		if plain, err = inflate(plain); err != nil {
			return Segment{}, err
		}
	case encodingSealed:
		return Segment{}, ErrSealed
	case encodingBlocks:
		if format < Indexed {
			return Segment{}, fmt.Errorf("%w: encoding %d", ErrUnknownFormat, body[0])
		}
		return decodeBlocks(count, plain)
	default:
		return Segment{}, fmt.Errorf("%w: encoding %d", ErrUnknownFormat, body[0])
	}
	if err := checkCount(count, plain); err != nil {
		return Segment{}, err
	}
	starts, err := appendStarts(make([]uint32, 0, count), count, plain, 0)
	if err != nil {
		return Segment{}, err
	}
	return Segment{plain: plain, starts: starts}, nil
}

// checkCount refuses a count that would make us allocate more than the bytes are worth: each record takes two at least.
func checkCount(count int, records []byte) error {
	if count < 0 || count > len(records)/2+1 || len(records) > math.MaxUint32 {
		return fmt.Errorf("%w: %d records in %d bytes", ErrCorrupt, count, len(records))
	}
	return nil
}

func inflate(packed []byte) ([]byte, error) {
	n, width := binary.Uvarint(packed)
	if width <= 0 || n > MaxPlain {
		return nil, fmt.Errorf("%w: claimed length", ErrCorrupt)
	}
	decoder := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(decoder)
	// The claimed length only sizes the buffer when the packed bytes can plausibly hold it.
	plain, err := decoder.DecodeAll(packed[width:], make([]byte, 0, min(n, uint64(len(packed))*64)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if uint64(len(plain)) != n {
		return nil, fmt.Errorf("%w: %d bytes unpacked of %d", ErrCorrupt, len(plain), n)
	}
	return plain, nil
}

// Builder gathers records for one segment. The zero value is ready.
type Builder struct {
	plain  []byte
	starts []uint32
	ids    []byte
}

// Len is the number of records gathered.
func (b *Builder) Len() int { return len(b.starts) }

// Size is that of the records gathered, in bytes before compression.
func (b *Builder) Size() int { return len(b.plain) }

// Fits tells whether size more bytes of records may join; the first always may.
func (b *Builder) Fits(size int) bool {
	return len(b.starts) == 0 || len(b.starts) < MaxRecords && len(b.plain)+size <= MaxBytes
}

// AppendEncoded adds a record in the form AppendRecord made, with its hash.
func (b *Builder) AppendEncoded(record []byte, hash Hash) {
	b.starts = append(b.starts, uint32(len(b.plain)))
	b.plain = append(b.plain, record...)
	b.ids = append(b.ids, hash[:]...)
}

// Grow makes room for records and bytes to come.
func (b *Builder) Grow(records, size int) {
	if b.plain == nil {
		b.plain = make([]byte, 0, size)
		b.starts = make([]uint32, 0, records)
		b.ids = make([]byte, 0, records*HashSize)
	}
}

// IDs holds one hash a record, in order.
func (b *Builder) IDs() []byte { return b.ids }

// Segment is what Decode would return for its Body.
func (b *Builder) Segment() Segment { return Segment{plain: b.plain, starts: b.starts} }

// Packer decides which bodies are worth compressing: after one that was not, it leaves some of the next ones plain, up
// to maxPlainRun of them. The zero value tries every body. It is not safe for concurrent use.
type Packer struct {
	plainRun int
	left     int
}

const maxPlainRun = 256

// Body is the stored form of what b gathered, in a format that this build knows.
func (p *Packer) Body(b *Builder, format int16) []byte {
	if format >= Indexed && len(b.plain) > blockSize {
		if body, worth := p.blocks(b); worth {
			return body
		}
		return plainBody(b)
	}
	if packed := p.pack(nil, b.plain); packed != nil {
		return packed
	}
	return plainBody(b)
}

func plainBody(b *Builder) []byte {
	body := make([]byte, 0, 1+len(b.plain))
	return append(append(body, encodingPlain), b.plain...)
}

// pack appends the encoding, plain's length and its compressed form, if that is tried and worth it; nil otherwise.
func (p *Packer) pack(dst, plain []byte) []byte {
	if len(plain) < compressFrom || len(plain) > MaxPlain || p.rests() {
		return nil
	}
	encoder := encoders.Get().(*zstd.Encoder)
	packed := encoder.EncodeAll(plain, binary.AppendUvarint(append(dst, encodingZstd), uint64(len(plain))))
	encoders.Put(encoder)
	if p.judge(len(packed)-len(dst), len(plain)) {
		return packed
	}
	return nil
}

// judge tells whether packing was worth it, and decides from that what to try next.
func (p *Packer) judge(packed, plain int) bool {
	if float64(packed) < float64(plain)*worthKeeping {
		p.plainRun = 0
		return true
	}
	p.plainRun = min(max(2*p.plainRun, 1), maxPlainRun)
	p.left = p.plainRun
	return false
}

func (p *Packer) rests() bool {
	if p.left == 0 {
		return false
	}
	p.left--
	return true
}

// One encoder or decoder serves one call at a time; the pools keep as many as calls overlap.
var (
	encoders = sync.Pool{New: func() any {
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
		if err != nil {
			panic(err) // the options are constant
		}
		return encoder
	}}
	decoders = sync.Pool{New: func() any {
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPlain))
		if err != nil {
			panic(err)
		}
		return decoder
	}}
)
