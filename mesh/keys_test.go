package mesh

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func key(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func TestTheKeyringBecomesExactlyWhatIsSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func() (keys [][]byte) {
			for _, n := range rapid.SliceOfNDistinct(rapid.ByteRange(1, 6), 1, 6, rapid.ID[byte]).Draw(t, "keys") {
				keys = append(keys, key(n))
			}
			return keys
		}
		first := draw()
		ring, err := newKeyring(first)
		require.NoError(t, err)
		for range 4 {
			next := draw()
			before := slices.Clone(ring.ring.GetKeys())
			held := ring.ring.GetKeys()
			changed, err := ring.set(next)
			require.NoError(t, err)
			require.Equal(t, !slices.EqualFunc(before, next, bytes.Equal), changed)
			require.Equal(t, next, ring.ring.GetKeys())
			require.Equal(t, before, held, "keys moved under a reader")
		}
	})
}

func TestTheKeyringCanBeReadWhileItChanges(t *testing.T) {
	t.Parallel()
	ring, err := newKeyring([][]byte{key(1)})
	require.NoError(t, err)
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, k := range ring.ring.GetKeys() {
				_ = k[0]
			}
		}
	})
	for range 200 {
		for _, keys := range [][][]byte{{key(1), key(2)}, {key(2), key(1)}, {key(2)}, {key(2), key(3), key(1)}, {key(1)}} {
			_, err := ring.set(keys)
			require.NoError(t, err)
		}
	}
	close(stop)
	reading.Wait()
}

func TestKeyringsThatAreRefused(t *testing.T) {
	t.Parallel()
	ring, err := newKeyring([][]byte{key(1)})
	require.NoError(t, err)
	_, err = ring.set(nil)
	require.Error(t, err)
	_, err = ring.set([][]byte{key(1), {1, 2, 3}})
	require.Error(t, err)
	require.Equal(t, [][]byte{key(1)}, ring.ring.GetKeys())
	plain, err := newKeyring(nil)
	require.NoError(t, err)
	_, err = plain.set([][]byte{key(1)})
	require.ErrorIs(t, err, errPlaintext)
}
