package segment

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/klauspost/compress/zstd"
)

const (
	// Indexed is the format whose compressed bodies are cut into blocks, so that one record is read without unpacking all.
	Indexed int16 = 2
	// MaxFormat is the highest format that this build reads and writes.
	MaxFormat = Indexed

	encodingBlocks byte = 3

	// blockSize is how many bytes of records make a block full. Smaller ones pack worse, larger ones take longer to read from.
	blockSize = 32 << 10
	// maxBlocks bounds what an index may claim: each block holds a record at least.
	maxBlocks = MaxRecords
)

// block is one entry of the index.
type block struct {
	records int
	// plain and stored are lengths in bytes; the block is compressed when they differ.
	plain, stored int
}

// blocks is the stored form of a body that is cut into blocks, and false when it is not worth it. It appends to nothing
// that is shared.
func (p *Packer) blocks(b *Builder) ([]byte, bool) {
	if len(b.plain) <= blockSize || p.rests() {
		return nil, false
	}
	var index []block
	packed := make([]byte, 0, len(b.plain)/2)
	encoder := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(encoder)
	for first := 0; first < len(b.starts); {
		next := first + 1
		for next < len(b.starts) && b.end(next)-int(b.starts[first]) <= blockSize {
			next++
		}
		plain := b.plain[b.starts[first]:b.end(next-1)]
		before := len(packed)
		packed = encoder.EncodeAll(plain, packed)
		if len(packed)-before >= len(plain) {
			packed = append(packed[:before], plain...)
		}
		index = append(index, block{next - first, len(plain), len(packed) - before})
		first = next
	}
	body := make([]byte, 0, 1+3*3*len(index)+len(packed))
	body = binary.AppendUvarint(append(body, encodingBlocks), uint64(len(index)))
	for _, e := range index {
		body = binary.AppendUvarint(body, uint64(e.records))
		body = binary.AppendUvarint(body, uint64(e.plain))
		body = binary.AppendUvarint(body, uint64(e.stored))
	}
	body = append(body, packed...)
	return body, p.judge(len(body), len(b.plain))
}

// end is where the i-th record ends.
func (b *Builder) end(i int) int {
	if i+1 < len(b.starts) {
		return int(b.starts[i+1])
	}
	return len(b.plain)
}

// readIndex returns the blocks of a body of count records and what is stored of them.
func readIndex(count int, rest []byte) (index []block, stored []byte, err error) {
	take := func() int {
		n, width := binary.Uvarint(rest)
		if err == nil && (width <= 0 || n > MaxPlain) {
			err = fmt.Errorf("%w: index", ErrCorrupt)
		}
		if err != nil {
			return 0
		}
		rest = rest[width:]
		return int(n)
	}
	blocks := take()
	if err == nil && (blocks > maxBlocks || blocks > count) {
		err = fmt.Errorf("%w: %d blocks of %d records", ErrCorrupt, blocks, count)
	}
	records, plain, length := 0, 0, 0
	for range blocks {
		e := block{take(), take(), take()}
		if err != nil {
			return nil, nil, err
		}
		if e.records == 0 || e.stored > e.plain || e.records > e.plain/2+1 {
			return nil, nil, fmt.Errorf("%w: index entry", ErrCorrupt)
		}
		index = append(index, e)
		records, plain, length = records+e.records, plain+e.plain, length+e.stored
	}
	if err != nil {
		return nil, nil, err
	}
	if records != count || plain > MaxPlain || plain > math.MaxUint32 || length != len(rest) {
		return nil, nil, fmt.Errorf("%w: the index has %d records of %d, %d bytes of %d", ErrCorrupt, records, count, length, len(rest))
	}
	return index, rest, nil
}

// unpack appends the records of a block.
func (e block) unpack(dst, stored []byte) ([]byte, error) {
	if e.stored == e.plain {
		return append(dst, stored...), nil
	}
	decoder := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(decoder)
	begin := len(dst)
	dst, err := decoder.DecodeAll(stored, dst)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(dst)-begin != e.plain {
		return nil, fmt.Errorf("%w: %d bytes unpacked of %d", ErrCorrupt, len(dst)-begin, e.plain)
	}
	return dst, nil
}

func decodeBlocks(count int, body []byte) (Segment, error) {
	index, stored, err := readIndex(count, body)
	if err != nil {
		return Segment{}, err
	}
	size := 0
	for _, e := range index {
		size += e.plain
	}
	// The claimed length only sizes the buffer when the packed bytes can plausibly hold it.
	plain := make([]byte, 0, min(size, len(stored)*64))
	starts := make([]uint32, 0, count)
	for _, e := range index {
		begin := len(plain)
		if plain, err = e.unpack(plain, stored[:e.stored]); err != nil {
			return Segment{}, err
		}
		stored = stored[e.stored:]
		if starts, err = appendStarts(starts, e.records, plain[begin:], begin); err != nil {
			return Segment{}, err
		}
	}
	return Segment{plain: plain, starts: starts}, nil
}

// appendStarts appends where each of exactly count records begins; the first byte of plain is at begin.
func appendStarts(starts []uint32, count int, plain []byte, begin int) ([]uint32, error) {
	found := 0
	for rest := plain; len(rest) > 0; found++ {
		if found == count {
			return nil, fmt.Errorf("%w: bytes after the last record", ErrCorrupt)
		}
		starts = append(starts, uint32(begin+len(plain)-len(rest)))
		var err error
		if _, _, rest, err = splitRecord(rest); err != nil {
			return nil, err
		}
	}
	if found != count {
		return nil, fmt.Errorf("%w: %d records of %d", ErrCorrupt, found, count)
	}
	return starts, nil
}

// OpenOne reads the i-th record of a stored body of count records, sealed or not, as a segment of one. It unpacks and
// decrypts no more of the body than it must, so that what is wrong with the rest may go unnoticed.
func OpenOne(format int16, count int, body []byte, i int, opener Opener) (Segment, error) {
	if i < 0 || i >= count {
		return Segment{}, fmt.Errorf("%w: record %d of %d", ErrCorrupt, i, count)
	}
	if err := checkFormat(format); err != nil {
		return Segment{}, err
	}
	if len(body) > 0 {
		switch {
		case body[0] == encodingSealed:
			return openOneSealed(count, body[1:], i, opener)
		case body[0] == encodingBlocks && format >= Indexed:
			return oneOfBlocks(count, body[1:], i)
		case body[0] == encodingPlain:
			if err := checkCount(count, body[1:]); err != nil {
				return Segment{}, err
			}
			return oneOf(body[1:], i)
		}
	}
	s, err := Decode(format, count, body)
	if err != nil {
		return Segment{}, err
	}
	return Segment{plain: s.plain, starts: s.starts[i : i+1]}, nil
}

func oneOfBlocks(count int, body []byte, i int) (Segment, error) {
	index, stored, err := readIndex(count, body)
	if err != nil {
		return Segment{}, err
	}
	for _, e := range index {
		if i < e.records {
			plain, err := e.unpack(make([]byte, 0, min(e.plain, len(stored)*64)), stored[:e.stored])
			if err != nil {
				return Segment{}, err
			}
			return oneOf(plain, i)
		}
		i -= e.records
		stored = stored[e.stored:]
	}
	return Segment{}, fmt.Errorf("%w: record missing", ErrCorrupt) // readIndex has counted them
}

// oneOf walks to the i-th record.
func oneOf(plain []byte, i int) (Segment, error) {
	rest := plain
	for {
		begin := len(plain) - len(rest)
		var err error
		if _, _, rest, err = splitRecord(rest); err != nil {
			return Segment{}, err
		}
		if i == 0 {
			return Segment{plain: plain[:len(plain)-len(rest)], starts: []uint32{uint32(begin)}}, nil
		}
		i--
	}
}

// openOneSealed decrypts one payload; what stands before the others is readable and only passed.
func openOneSealed(count int, body []byte, i int, opener Opener) (Segment, error) {
	records, err := unlock(count, body, opener)
	if err != nil {
		return Segment{}, err
	}
	opener.Skip(i)
	for {
		record, sealed, rest, err := splitRecord(records)
		if err != nil {
			return Segment{}, err
		}
		if i > 0 {
			i, records = i-1, rest
			continue
		}
		packed, err := opener.Open(nil, sealed, record)
		if err != nil {
			return Segment{}, err
		}
		payload, err := unpacked(packed)
		if err != nil {
			return Segment{}, err
		}
		plain := append(make([]byte, 0, len(record)+len(payload)+binary.MaxVarintLen64), record...)
		return Segment{plain: appendField(plain, payload), starts: []uint32{0}}, nil
	}
}

// Reformat is the stored form of a body in another format, with the same records. A sealed body is the same in all of
// them and needs no key.
func Reformat(from, to int16, count int, body []byte) ([]byte, error) {
	if err := checkFormat(to); err != nil {
		return nil, err
	}
	if IsSealed(body) {
		return body, checkFormat(from)
	}
	s, err := Decode(from, count, body)
	if err != nil {
		return nil, err
	}
	return new(Packer).Body(&Builder{plain: s.plain, starts: s.starts}, to), nil
}

func checkFormat(format int16) error {
	if format < Format || format > MaxFormat {
		return fmt.Errorf("%w: %d, this build reads up to %d", ErrUnknownFormat, format, MaxFormat)
	}
	return nil
}
