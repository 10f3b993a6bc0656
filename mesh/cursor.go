package mesh

import (
	"bytes"
	"fmt"

	"github.com/google/uuid"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// cursor reads msgpack primitives. No length it meets is believed beyond the bytes that are left.
type cursor struct{ rest []byte }

func (c *cursor) take(n int) ([]byte, error) {
	if n < 0 || n > len(c.rest) {
		return nil, errTruncated
	}
	taken := c.rest[:n]
	c.rest = c.rest[n:]
	return taken, nil
}

func (c *cursor) byte() (byte, error) {
	taken, err := c.take(1)
	if err != nil {
		return 0, err
	}
	return taken[0], nil
}

// big reads a big-endian number of n bytes, n <= 8.
func (c *cursor) big(n int) (uint64, error) {
	taken, err := c.take(n)
	if err != nil {
		return 0, err
	}
	var value uint64
	for _, b := range taken {
		value = value<<8 | uint64(b)
	}
	return value, nil
}

// length reads a length of n bytes that counts things of at least one byte each.
func (c *cursor) length(n int) (int, error) {
	value, err := c.big(n)
	if err != nil {
		return 0, err
	}
	if value > uint64(len(c.rest)) {
		return 0, errTruncated
	}
	return int(value), nil
}

func (c *cursor) array() (int, error) {
	code, err := c.byte()
	if err != nil {
		return 0, err
	}
	switch {
	case msgpcode.IsFixedArray(code):
		n := int(code & msgpcode.FixedArrayMask)
		if n > len(c.rest) {
			return 0, errTruncated
		}
		return n, nil
	case code == msgpcode.Array16:
		return c.length(2)
	case code == msgpcode.Array32:
		return c.length(4)
	}
	return 0, errType
}

// fields reads the head of an array that stands for a record of at least n required fields.
func (c *cursor) fields(n int) (int, error) {
	fields, err := c.array()
	if err == nil && fields < n {
		err = errMissing
	}
	return fields, err
}

func (c *cursor) uint() (uint64, error) {
	code, err := c.byte()
	if err != nil {
		return 0, err
	}
	switch {
	case code <= msgpcode.PosFixedNumHigh:
		return uint64(code), nil
	case code == msgpcode.Uint8:
		return c.big(1)
	case code == msgpcode.Uint16:
		return c.big(2)
	case code == msgpcode.Uint32:
		return c.big(4)
	case code == msgpcode.Uint64:
		return c.big(8)
	}
	return 0, errType
}

func (c *cursor) bool() (bool, error) {
	code, err := c.byte()
	if err != nil {
		return false, err
	}
	switch code {
	case msgpcode.True:
		return true, nil
	case msgpcode.False:
		return false, nil
	}
	return false, errType
}

// kind reads a frame kind up to the highest that the frame's version has.
func (c *cursor) kind(highest Kind) (Kind, error) {
	value, err := c.uint()
	if err != nil {
		return 0, err
	}
	if value == 0 || value > uint64(highest) {
		return 0, fmt.Errorf("%w: %d", ErrUnknownKind, value)
	}
	return Kind(value), nil
}

func (c *cursor) text() (string, error) {
	code, err := c.byte()
	if err != nil {
		return "", err
	}
	var n int
	switch {
	case msgpcode.IsFixedString(code):
		n = int(code & msgpcode.FixedStrMask)
	case code == msgpcode.Str8:
		n, err = c.length(1)
	case code == msgpcode.Str16:
		n, err = c.length(2)
	case code == msgpcode.Str32:
		n, err = c.length(4)
	default:
		return "", errType
	}
	if err != nil {
		return "", err
	}
	if n > nameLimit {
		return "", errName
	}
	taken, err := c.take(n)
	return string(taken), err
}

// name is a text that must not be empty.
func (c *cursor) name() (string, error) {
	text, err := c.text()
	if err == nil && text == "" {
		err = errName
	}
	return text, err
}

func (c *cursor) uuid() (id uuid.UUID, err error) {
	code, err := c.byte()
	if err != nil {
		return id, err
	}
	if code != msgpcode.Bin8 {
		return id, errType
	}
	n, err := c.length(1)
	if err != nil {
		return id, err
	}
	if n != len(id) {
		return id, errType
	}
	taken, err := c.take(n)
	copy(id[:], taken)
	return id, err
}

// bits reads the bits of an interest set.
func (c *cursor) bits() ([]byte, error) {
	code, err := c.byte()
	if err != nil {
		return nil, err
	}
	var n int
	switch code {
	case msgpcode.Bin8:
		n, err = c.length(1)
	case msgpcode.Bin16:
		n, err = c.length(2)
	default:
		return nil, errType
	}
	if err != nil {
		return nil, err
	}
	if n == 0 || n&(n-1) != 0 {
		return nil, errType
	}
	taken, err := c.take(n)
	return bytes.Clone(taken), err
}

func (c *cursor) tenant() (id uuid.UUID, known bool, err error) {
	if c.null() {
		return id, false, nil
	}
	id, err = c.uuid()
	return id, err == nil, err
}

// null takes a nil if that is what comes next.
func (c *cursor) null() bool {
	if len(c.rest) > 0 && c.rest[0] == msgpcode.Nil {
		c.rest = c.rest[1:]
		return true
	}
	return false
}

// skip passes over n values of any type. It does not recurse: nesting only adds to the values still to be skipped,
// and each of them costs at least a byte.
func (c *cursor) skip(n int) error {
	for ; n > 0; n-- {
		code, err := c.byte()
		if err != nil {
			return err
		}
		inner, size, err := c.extent(code)
		if err != nil {
			return err
		}
		if _, err := c.take(size); err != nil {
			return err
		}
		n += inner
	}
	return nil
}

// extent is how many values and how many bytes belong to a value that starts with code.
func (c *cursor) extent(code byte) (values, size int, err error) {
	switch {
	case msgpcode.IsFixedNum(code), code == msgpcode.Nil, code == msgpcode.False, code == msgpcode.True:
		return 0, 0, nil
	case msgpcode.IsFixedString(code):
		return 0, int(code & msgpcode.FixedStrMask), nil
	case msgpcode.IsFixedArray(code):
		return int(code & msgpcode.FixedArrayMask), 0, nil
	case msgpcode.IsFixedMap(code):
		return 2 * int(code&msgpcode.FixedMapMask), 0, nil
	case msgpcode.IsFixedExt(code):
		return 0, 1 + 1<<(code-msgpcode.FixExt1), nil
	}
	switch code {
	case msgpcode.Uint8, msgpcode.Int8:
		return 0, 1, nil
	case msgpcode.Uint16, msgpcode.Int16:
		return 0, 2, nil
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		return 0, 4, nil
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		return 0, 8, nil
	case msgpcode.Str8, msgpcode.Bin8:
		size, err = c.length(1)
	case msgpcode.Str16, msgpcode.Bin16:
		size, err = c.length(2)
	case msgpcode.Str32, msgpcode.Bin32:
		size, err = c.length(4)
	case msgpcode.Ext8:
		size, err = c.length(1)
		size++
	case msgpcode.Ext16:
		size, err = c.length(2)
		size++
	case msgpcode.Ext32:
		size, err = c.length(4)
		size++
	case msgpcode.Array16:
		values, err = c.length(2)
	case msgpcode.Array32:
		values, err = c.length(4)
	case msgpcode.Map16:
		values, err = c.length(2)
		values *= 2
	case msgpcode.Map32:
		values, err = c.length(4)
		values *= 2
	default:
		err = errType
	}
	return values, size, err
}
