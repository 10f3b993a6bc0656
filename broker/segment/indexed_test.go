package segment

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// builderOf gathers records whose payloads look like orders.
func builderOf(records, size int) *Builder {
	b := &Builder{}
	random := rand.New(rand.NewPCG(1, uint64(records)))
	for i := range records {
		id := fmt.Sprintf("order-%d", i)
		payload := fmt.Appendf(nil, `{"order":%d,"customer":"c-%d","total":%d,"note":"`, i, random.IntN(500), random.IntN(100_000))
		for len(payload) < size-2 {
			payload = append(payload, "abcdefghijklmnop"[random.IntN(16)])
		}
		b.AppendEncoded(AppendRecord(nil, &Record{TransactionID: &id, Payload: append(payload, `"}`...)}), HashOf(id))
	}
	return b
}

func requireSame(t testing.TB, want, got Segment) {
	t.Helper()
	require.Equal(t, want.Len(), got.Len())
	for i := range want.Len() {
		require.Equal(t, want.Record(i), got.Record(i))
	}
}

// Whatever is gathered comes back from either format, whole and one by one, and from one rewritten in the other.
func TestBothFormatsHoldTheSameRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &Builder{}
		for range rapid.IntRange(1, 60).Draw(t, "records") {
			payload := bytes.Repeat([]byte(rapid.StringN(1, 20, 40).Draw(t, "text")), rapid.IntRange(1, 2000).Draw(t, "times"))
			b.AppendEncoded(AppendRecord(nil, &Record{Payload: payload}), Hash{})
		}
		for _, format := range []int16{Format, Indexed} {
			body := new(Packer).Body(b, format)
			whole, err := Decode(format, b.Len(), body)
			if err != nil {
				t.Fatal(err)
			}
			other := Format + Indexed - format
			rewritten, err := Reformat(format, other, b.Len(), body)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Decode(other, b.Len(), rewritten)
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Len() {
				one, err := OpenOne(format, b.Len(), body, i, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := b.Segment().Record(i)
				for _, got := range []Record{whole.Record(i), one.Record(0), again.Record(i)} {
					if !bytes.Equal(want.Payload, got.Payload) {
						t.Fatalf("record %d in format %d", i, format)
					}
				}
			}
		}
	})
}

func TestSmallBodiesAreTheSameInBothFormats(t *testing.T) {
	t.Parallel()
	for _, records := range []int{1, 10, 100} {
		b := builderOf(records, 256)
		require.Equal(t, new(Packer).Body(b, Format), new(Packer).Body(b, Indexed))
	}
	noise := &Builder{}
	payload := make([]byte, 200_000)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(payload)
	noise.AppendEncoded(AppendRecord(nil, &Record{Payload: payload}), Hash{})
	require.Equal(t, encodingPlain, new(Packer).Body(noise, Indexed)[0], "what does not shrink stays plain")
}

func TestABodyOfBlocksIsHardlyLarger(t *testing.T) {
	t.Parallel()
	b := builderOf(1000, 256)
	body := new(Packer).Body(b, Indexed)
	require.Equal(t, encodingBlocks, body[0])
	require.Less(t, float64(len(body)), 1.03*float64(len(new(Packer).Body(b, Format))))
	_, err := Decode(Format, b.Len(), body)
	require.ErrorIs(t, err, ErrUnknownFormat, "a build that knows format 1 only does not guess")
}

// One record is read although every other block is ruined.
func TestOneRecordNeedsItsOwnBlockOnly(t *testing.T) {
	t.Parallel()
	b := builderOf(1000, 256)
	body := new(Packer).Body(b, Indexed)
	index, stored, err := readIndex(b.Len(), body[1:])
	require.NoError(t, err)
	require.Greater(t, len(index), 3)
	for i := index[0].stored; i < len(stored); i++ {
		stored[i] ^= 0xff
	}
	one, err := OpenOne(Indexed, b.Len(), body, 3, nil)
	require.NoError(t, err)
	require.Equal(t, b.Segment().Record(3), one.Record(0))
	_, err = OpenOne(Indexed, b.Len(), body, index[0].records, nil)
	require.ErrorIs(t, err, ErrCorrupt)
	for _, i := range []int{-1, b.Len()} {
		_, err = OpenOne(Indexed, b.Len(), body, i, nil)
		require.ErrorIs(t, err, ErrCorrupt)
	}
}

func TestIndexesThatNobodyWroteAreRefused(t *testing.T) {
	t.Parallel()
	index := func(numbers ...uint64) []byte {
		body := []byte{encodingBlocks}
		for _, n := range numbers {
			body = binary.AppendUvarint(body, n)
		}
		return body
	}
	for name, body := range map[string][]byte{
		"no index":                 index(),
		"index cut short":          index(2, 1, 2, 2),
		"more blocks than records": index(5, 1, 2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 2),
		"more records than bytes":  index(1, 2, 1, 1),
		"a block of no records":    index(2, 0, 2, 2, 2, 2, 2),
		"huge claims":              index(1, 2, 1<<62, 2),
		"stored grows":             index(1, 2, 4, 8),
		"bytes behind":             append(index(1, 2, 4, 4), 0, 0, 0, 0, 9),
		"bytes missing":            append(index(1, 2, 4, 4), 0, 0, 0),
	} {
		for i := range 2 {
			_, err := OpenOne(Indexed, 2, body, i, nil)
			require.ErrorIs(t, err, ErrCorrupt, name)
		}
		_, err := Decode(Indexed, 2, body)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
}

func FuzzOpenOneNeverPanics(f *testing.F) {
	b := builderOf(300, 256)
	f.Add(b.Len(), 7, new(Packer).Body(b, Indexed))
	f.Add(2, 1, []byte{encodingBlocks, 1, 2, 4, 4, 0, 1, 0, 1})
	f.Add(2, 1, []byte{encodingSealed, 0, 0, 1, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, count, i int, body []byte) {
		one, err := OpenOne(Indexed, count, body, i, glass{})
		whole, wholeErr := Open(Indexed, count, body, glass{})
		if wholeErr == nil && i >= 0 && i < count {
			require.NoError(t, err)
			require.Equal(t, whole.Record(i), one.Record(0))
		}
	})
}

// What was stored once is read for ever.
func TestStoredBodiesStayReadable(t *testing.T) {
	t.Parallel()
	b := builderOf(200, 256)
	for _, format := range []int16{Format, Indexed} {
		path := fmt.Sprintf("testdata/format%d.hex", format)
		if os.Getenv("WAGGLE_WRITE_GOLDEN") != "" {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, []byte(hex.EncodeToString(new(Packer).Body(b, format))+"\n"), 0o644))
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		body, err := hex.DecodeString(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		got, err := Decode(format, b.Len(), body)
		require.NoError(t, err)
		requireSame(t, b.Segment(), got)
	}
}

func BenchmarkFormats(b *testing.B) {
	for _, records := range []int{1, 100, 1000} {
		built := builderOf(records, 256)
		for _, format := range []int16{Format, Indexed} {
			body := new(Packer).Body(built, format)
			b.Run(fmt.Sprintf("write/records=%d/format=%d", records, format), func(b *testing.B) {
				b.ReportMetric(float64(len(body)), "stored-bytes")
				for b.Loop() {
					new(Packer).Body(built, format)
				}
			})
			b.Run(fmt.Sprintf("read-all/records=%d/format=%d", records, format), func(b *testing.B) {
				for b.Loop() {
					if _, err := Decode(format, records, body); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("read-one/records=%d/format=%d", records, format), func(b *testing.B) {
				for b.Loop() {
					if _, err := OpenOne(format, records, body, records/2, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
