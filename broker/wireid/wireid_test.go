package wireid

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMessageIDsLeadBackToTheirPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(0, maxMillis).Draw(t, "millis"))
		offset := rapid.Int64Range(0, MaxOffset).Draw(t, "offset")
		partition := rapid.Int64Range(0, MaxPartition).Draw(t, "partition")
		id, err := Message(at, offset, partition)
		require.NoError(t, err)
		require.EqualValues(t, 7, id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		place, ok := ParseMessage(id)
		require.True(t, ok)
		require.Equal(t, Place{Millis: at.UnixMilli(), Offset: offset, Partition: partition}, place)
	})
}

func TestMessageIDsRiseAsTextWithinAPartition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		partition := rapid.Int64Range(0, MaxPartition).Draw(t, "partition")
		offset := rapid.Int64Range(0, MaxOffset-1).Draw(t, "offset")
		later := rapid.Int64Range(offset+1, MaxOffset).Draw(t, "later offset")
		millis := rapid.Int64Range(0, maxMillis).Draw(t, "millis")
		laterMillis := rapid.Int64Range(millis, maxMillis).Draw(t, "later millis")
		a, err := Message(time.UnixMilli(millis), offset, partition)
		require.NoError(t, err)
		b, err := Message(time.UnixMilli(laterMillis), later, partition)
		require.NoError(t, err)
		require.Less(t, a.String(), b.String())
	})
}

func TestNumbersBeyondTheirBitsAreRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, place := range []Place{
		{Offset: MaxOffset + 1},
		{Offset: -1},
		{Partition: MaxPartition + 1},
		{Partition: -1},
	} {
		_, err := Message(now, place.Offset, place.Partition)
		require.ErrorIs(t, err, ErrOutOfRange)
	}
	_, err := Lease(now, MaxCursor+1)
	require.ErrorIs(t, err, ErrOutOfRange)
}

func TestLeaseIDsNameTheirCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cursor := rapid.Int64Range(0, MaxCursor).Draw(t, "cursor")
		a, err := Lease(time.Now(), cursor)
		require.NoError(t, err)
		b, err := Lease(time.Now(), cursor)
		require.NoError(t, err)
		require.NotEqual(t, a, b)
		got, ok := ParseLease(a)
		require.True(t, ok)
		require.Equal(t, cursor, got)
	})
	_, ok := ParseLease(uuid.New())
	require.False(t, ok, "a UUIDv4 is no lease id")
}

func TestSealedIDsOpenOnlyUnderTheirKeyAndKind(t *testing.T) {
	t.Parallel()
	codec, err := NewCodec([]byte("one installation"))
	require.NoError(t, err)
	other, err := NewCodec([]byte("another installation"))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Int64Range(0, 1<<62).Draw(t, "number")
		id := codec.Partition(number)
		require.EqualValues(t, 8, id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		got, ok := codec.OpenPartition(id)
		require.True(t, ok)
		require.Equal(t, number, got)

		_, ok = codec.OpenQueue(id)
		require.False(t, ok, "a partition id must not open as a queue id")
		_, ok = other.OpenPartition(id)
		require.False(t, ok, "another key must not open it")

		bit := rapid.IntRange(0, 127).Draw(t, "bit")
		id[bit/8] ^= 1 << (bit % 8)
		_, ok = codec.OpenPartition(id)
		require.False(t, ok, "no bit may be changed")
	})
}

func TestNeighbouringRowsHaveUnrelatedIDs(t *testing.T) {
	t.Parallel()
	codec, err := NewCodec([]byte("k"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for i := range int64(1000) {
		seen[codec.Queue(i).String()[:8]] = true
	}
	require.Greater(t, len(seen), 990)
}
