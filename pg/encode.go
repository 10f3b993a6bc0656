package pg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// The flush speaks the binary protocol by hand: its statements carry thousands of values, and what they need is only
// one-dimensional arrays without nulls.

const arrayHeader = 20

func arrayOf(oid uint32, n, width int) []byte {
	dst := make([]byte, arrayHeader, arrayHeader+n*(4+width))
	if n == 0 {
		// An array without elements has no dimensions.
		binary.BigEndian.PutUint32(dst[8:], oid)
		return dst[:12]
	}
	binary.BigEndian.PutUint32(dst, 1)
	binary.BigEndian.PutUint32(dst[8:], oid)
	binary.BigEndian.PutUint32(dst[12:], uint32(n))
	binary.BigEndian.PutUint32(dst[16:], 1)
	return dst
}

func int8s[T any](rows []T, value func(*T) int64) []byte {
	dst := arrayOf(pgtype.Int8OID, len(rows), 8)
	for i := range rows {
		dst = binary.BigEndian.AppendUint32(dst, 8)
		dst = binary.BigEndian.AppendUint64(dst, uint64(value(&rows[i])))
	}
	return dst
}

func int4s[T any](rows []T, value func(*T) int) []byte {
	dst := arrayOf(pgtype.Int4OID, len(rows), 4)
	for i := range rows {
		dst = binary.BigEndian.AppendUint32(dst, 4)
		dst = binary.BigEndian.AppendUint32(dst, uint32(int32(value(&rows[i]))))
	}
	return dst
}

func int2s[T any](rows []T, value func(*T) int16) []byte {
	dst := arrayOf(pgtype.Int2OID, len(rows), 2)
	for i := range rows {
		dst = binary.BigEndian.AppendUint32(dst, 2)
		dst = binary.BigEndian.AppendUint16(dst, uint16(value(&rows[i])))
	}
	return dst
}

func uuids[T any](rows []T, value func(*T) [16]byte) []byte {
	dst := arrayOf(pgtype.UUIDOID, len(rows), 16)
	for i := range rows {
		v := value(&rows[i])
		dst = binary.BigEndian.AppendUint32(dst, 16)
		dst = append(dst, v[:]...)
	}
	return dst
}

func byteas[T any](rows []T, value func(*T) []byte) []byte {
	size := 0
	for i := range rows {
		size += len(value(&rows[i]))
	}
	dst := arrayOf(pgtype.ByteaOID, len(rows), size/max(len(rows), 1)+1)
	for i := range rows {
		v := value(&rows[i])
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
		dst = append(dst, v...)
	}
	return dst
}

func int4Param(v int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(int32(v))) }

func int8Param(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// errShort is a server answer that does not have the shape its statement promises.
var errShort = errors.New("unexpected value from the server")

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// row reads the binary columns of one result row in order; the first misfit is kept in err.
type row struct {
	values [][]byte
	err    error
}

func (r *row) next(width int) []byte {
	if len(r.values) == 0 {
		r.err = fmt.Errorf("%w: column missing", errShort)
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	if v != nil && width >= 0 && len(v) != width {
		r.err = fmt.Errorf("%w: %d bytes where %d belong", errShort, len(v), width)
		return nil
	}
	return v
}

// int64 reads null as -1.
func (r *row) int64() int64 {
	v := r.next(8)
	if v == nil {
		return -1
	}
	return int64(binary.BigEndian.Uint64(v))
}

func (r *row) int() int {
	v := r.next(4)
	if v == nil {
		return -1
	}
	return int(int32(binary.BigEndian.Uint32(v)))
}

func (r *row) int16() int16 {
	v := r.next(2)
	if v == nil {
		return -1
	}
	return int16(binary.BigEndian.Uint16(v))
}

func (r *row) bool() bool {
	v := r.next(1)
	return v != nil && v[0] != 0
}

// time reads null as the zero time.
func (r *row) time() time.Time {
	v := r.next(8)
	if v == nil {
		return time.Time{}
	}
	return time.UnixMicro(int64(binary.BigEndian.Uint64(v)) + epoch).UTC()
}

// bytes copies, because the connection reuses its buffer; null is nil.
func (r *row) bytes() []byte {
	v := r.next(-1)
	if v == nil {
		return nil
	}
	return append(make([]byte, 0, len(v)), v...)
}
