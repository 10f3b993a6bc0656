package seal

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/broker/segment"
)

var update = flag.Bool("update", false, "write the golden files again")

var testCluster = uuid.MustParse("6f1c1a52-3f5e-4b7a-9d6e-0a1b2c3d4e5f")

func testRing(t testing.TB, keys ...Key) *Keyring {
	t.Helper()
	if len(keys) == 0 {
		keys = []Key{testKey(t, "k1", 1)}
	}
	ring, err := NewKeyring(keys, testCluster)
	require.NoError(t, err)
	return ring
}

// fixed is a cipher whose nonce is not random.
type fixed struct{ *Cipher }

func (f fixed) Lock() ([]byte, error) {
	var nonce [nonceSize]byte
	for i := range nonce {
		nonce[i] = byte(0xa0 + i)
	}
	return f.lock(nonce)
}

// testRecords have every field, none, a payload that is compressed, and an empty one.
func testRecords() []segment.Record {
	id := "order-1"
	return []segment.Record{
		{
			ID: uuid.MustParse("019a7e00-0000-7000-8000-000000000001"), TraceID: uuid.MustParse("7b0e6a0e-7a0b-4a4e-9c55-0f6c4a1f2b77"),
			ProducerSub: "someone", TransactionID: &id, Payload: []byte(`{"n":1}`),
		},
		{Payload: []byte(`{"n":2}`)},
		{TransactionID: &id, Payload: []byte(`"` + strings.Repeat("waggle ", 200) + `"`)},
		{Payload: []byte{}},
	}
}

func build(records []segment.Record) *segment.Builder {
	b := &segment.Builder{}
	for i := range records {
		b.AppendEncoded(segment.AppendRecord(nil, &records[i]), segment.Hash{})
	}
	return b
}

func sealed(t testing.TB, records []segment.Record, s segment.Sealer) []byte {
	t.Helper()
	body, err := new(segment.Packer).Sealed(build(records), s)
	require.NoError(t, err)
	require.True(t, segment.IsSealed(body))
	return body
}

func requireRecords(t require.TestingT, want []segment.Record, body []byte, c *Cipher) {
	got, err := segment.Open(segment.Format, len(want), body, c)
	require.NoError(t, err)
	require.Equal(t, len(want), got.Len())
	for i := range want {
		require.Equal(t, want[i], got.Record(i))
		one, err := segment.OpenOne(segment.MaxFormat, len(want), body, i, c)
		require.NoError(t, err)
		require.Equal(t, want[i], one.Record(0))
	}
}

// What was written once must open for ever. The files were made with -update, by the build that introduced the format.
func TestGoldenBodiesOpen(t *testing.T) {
	t.Parallel()
	ring := testRing(t)
	payload := testRecords()[0].Payload
	if *update {
		letter, err := segment.SealPayload(payload, fixed{ring.DeadLetter(7, 8, 9, "group")})
		require.NoError(t, err)
		for name, body := range map[string][]byte{
			"segment.hex":     sealed(t, testRecords(), fixed{ring.Segment(7, 8)}),
			"dead_letter.hex": letter,
		} {
			require.NoError(t, os.WriteFile("testdata/"+name, []byte(hex.EncodeToString(body)+"\n"), 0o644))
		}
	}
	requireRecords(t, testRecords(), golden(t, "segment.hex"), ring.Segment(7, 8))
	got, err := segment.OpenPayload(golden(t, "dead_letter.hex"), ring.DeadLetter(7, 8, 9, "group"))
	require.NoError(t, err)
	require.Equal(t, payload, got)
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	body, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	return body
}

func TestRecordsComeBackAsTheyWereSealed(t *testing.T) {
	t.Parallel()
	ring := testRing(t)
	rapid.Check(t, func(rt *rapid.T) {
		records := make([]segment.Record, rapid.IntRange(0, 20).Draw(rt, "records"))
		for i := range records {
			r := &records[i]
			if rapid.Bool().Draw(rt, "has transaction") {
				id := rapid.String().Draw(rt, "transaction")
				r.TransactionID = &id
			}
			r.ProducerSub = rapid.String().Draw(rt, "sub")
			r.Payload = bytes.Repeat(rapid.SliceOf(rapid.Byte()).Draw(rt, "payload"), rapid.IntRange(1, 300).Draw(rt, "times"))
			if len(r.Payload) == 0 {
				r.Payload = []byte{}
			}
		}
		body := sealed(t, records, ring.Segment(1, 2))
		requireRecords(rt, records, body, ring.Segment(1, 2))
	})
}

func TestNothingOfThePayloadsIsInASealedBody(t *testing.T) {
	t.Parallel()
	body := sealed(t, testRecords(), testRing(t).Segment(1, 2))
	require.NotContains(t, string(body), `{"n":`)
	require.NotContains(t, string(body), "waggle")
	require.Contains(t, string(body), "order-1", "what de-duplication needs stays readable")
}

func TestNoTwoBodiesAndNoTwoPayloadsLookAlike(t *testing.T) {
	t.Parallel()
	ring := testRing(t)
	payload := []byte(`"the very same"`)
	records := []segment.Record{{Payload: payload}, {Payload: payload}}
	c := ring.Segment(1, 2)
	first, second := sealed(t, records, c), sealed(t, records, c)
	n := len(payload) + 1 + 16
	tails := map[string]bool{}
	for _, body := range [][]byte{first, second} {
		tails[string(body[len(body)-n:])] = true
		tails[string(body[len(body)-2*n-2:len(body)-n-2])] = true
	}
	require.Len(t, tails, 4)
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	t.Parallel()
	ring := testRing(t)
	records := testRecords()[:2]
	body := sealed(t, records, ring.Segment(7, 8))
	for i := range body {
		changed := bytes.Clone(body)
		for change := 1; change < 256; change++ {
			changed[i] = body[i] ^ byte(change)
			_, err := segment.Open(segment.Format, len(records), changed, ring.Segment(7, 8))
			require.Error(t, err, "byte %d", i)
		}
	}
	for n := range body {
		_, err := segment.Open(segment.Format, len(records), body[:n], ring.Segment(7, 8))
		require.Error(t, err, "cut after %d bytes", n)
	}
	letter, err := segment.SealPayload(records[0].Payload, ring.DeadLetter(7, 8, 9, "group"))
	require.NoError(t, err)
	for i := range letter {
		changed := bytes.Clone(letter)
		changed[i] ^= 1
		_, err := segment.OpenPayload(changed, ring.DeadLetter(7, 8, 9, "group"))
		require.Error(t, err, "byte %d", i)
	}
}

func TestABodyOpensOnlyInItsPlace(t *testing.T) {
	t.Parallel()
	ring := testRing(t)
	elsewhere, err := NewKeyring([]Key{testKey(t, "k1", 1)}, uuid.New(), uuid.New())
	require.NoError(t, err)
	otherKey := testRing(t, testKey(t, "k1", 9))
	records := testRecords()
	body := sealed(t, records, ring.Segment(7, 8))
	for name, c := range map[string]*Cipher{
		"another queue":                     ring.Segment(6, 8),
		"another partition":                 ring.Segment(7, 9),
		"queue and partition exchanged":     ring.Segment(8, 7),
		"another installation":              elsewhere.Segment(7, 8),
		"another key of that name":          otherKey.Segment(7, 8),
		"a dead letter, not a segment":      ring.DeadLetter(7, 8, 0, ""),
		"a dead letter with a group's name": ring.DeadLetter(7, 8, 0, "g"),
	} {
		_, err := segment.Open(segment.Format, len(records), body, c)
		var tampered *TamperedError
		require.ErrorAs(t, err, &tampered, name)
		require.Equal(t, "k1", tampered.Key, name)
	}
	letter, err := segment.SealPayload([]byte("1"), ring.DeadLetter(7, 8, 9, "ab"))
	require.NoError(t, err)
	for name, c := range map[string]*Cipher{
		"another offset": ring.DeadLetter(7, 8, 10, "ab"),
		"another group":  ring.DeadLetter(7, 8, 9, "ac"),
		"a longer group": ring.DeadLetter(7, 8, 9, "abc"),
		"a segment":      ring.Segment(7, 8),
	} {
		_, err := segment.OpenPayload(letter, c)
		require.Error(t, err, name)
	}
}

// split cuts a sealed body of two records of equal length in its head and the records.
func split(t *testing.T, body []byte, id string, payload int) (head, first, second []byte) {
	t.Helper()
	n := 1 + 1 + len(id) + 1 + payload + 1 + 16 // flags, id, length, packed payload, tag
	head = body[:len(body)-2*n]
	return head, body[len(head) : len(head)+n], body[len(head)+n:]
}

func TestRecordsOfASegmentCannotBeExchanged(t *testing.T) {
	t.Parallel()
	ring := testRing(t)
	a, b := "txn-a", "txn-b"
	records := []segment.Record{{TransactionID: &a, Payload: []byte("11")}, {TransactionID: &b, Payload: []byte("22")}}
	one, other := sealed(t, records, ring.Segment(7, 8)), sealed(t, records, ring.Segment(7, 8))
	head, first, second := split(t, one, a, 2)
	_, foreign, _ := split(t, other, a, 2)
	cut := len(a) + 2
	for name, body := range map[string][]byte{
		"order of the records": joined(head, second, first),
		"a record twice":       joined(head, first, first),
		"transaction ids":      joined(head, second[:cut], first[cut:], first[:cut], second[cut:]),
		"another segment's":    joined(head, foreign, second),
	} {
		_, err := segment.Open(segment.Format, 2, body, ring.Segment(7, 8))
		var tampered *TamperedError
		require.ErrorAs(t, err, &tampered, name)
	}
	requireRecords(t, records, joined(head, first, second), ring.Segment(7, 8))
}

func joined(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	bare, err := ParseKey(hex.EncodeToString(testSecret(1)))
	require.NoError(t, err)
	named, next := testKey(t, "2030", 1), testKey(t, "2031", 2)
	// One key; the next is made readable; the next is written with, and the old one has got a name; the old one goes.
	stages := []*Keyring{testRing(t, bare), testRing(t, bare, next), testRing(t, next, named), testRing(t, next)}
	records := testRecords()
	for i, writer := range stages {
		require.Equal(t, []string{bare.ID(), bare.ID(), "2031", "2031"}[i], writer.Current())
		body := sealed(t, records, writer.Segment(1, 2))
		for j, reader := range stages {
			_, err := segment.Open(segment.Format, len(records), body, reader.Segment(1, 2))
			switch {
			case i < 2 && j == 3: // the key is lost
				require.EqualError(t, err, fmt.Sprintf("this broker does not have the encryption key %q", bare.ID()))
			case i >= 2 && j == 0: // the step between was left out
				require.EqualError(t, err, `this broker does not have the encryption key "2031"`)
			default:
				require.NoError(t, err, "written in stage %d, read in stage %d", i, j)
			}
		}
	}
}

func TestARestoredInstallationReadsWhatItWasAndWritesWhatItIs(t *testing.T) {
	t.Parallel()
	key := testKey(t, "k1", 1)
	original, grandchild := uuid.New(), uuid.New()
	before, err := NewKeyring([]Key{key}, original)
	require.NoError(t, err)
	after, err := NewKeyring([]Key{key}, grandchild, original, uuid.New())
	require.NoError(t, err)
	records := testRecords()
	old, fresh := sealed(t, records, before.Segment(1, 2)), sealed(t, records, after.Segment(1, 2))
	requireRecords(t, records, old, after.Segment(1, 2))
	requireRecords(t, records, fresh, after.Segment(1, 2))
	_, err = segment.Open(segment.Format, len(records), fresh, before.Segment(1, 2))
	require.Error(t, err, "the original does not read what the copy wrote")
}

func FuzzOpenGivesNothingButWhatWasSealed(f *testing.F) {
	ring := testRing(f)
	records := testRecords()
	body := sealed(f, records, fixed{ring.Segment(7, 8)})
	f.Add(len(records), body)
	f.Add(1, []byte{2, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, count int, changed []byte) {
		got, err := segment.Open(segment.Format, count, changed, ring.Segment(7, 8))
		if err != nil || !segment.IsSealed(changed) {
			return
		}
		// A shorter log of the same records is for the row's count to notice.
		for i := range got.Len() {
			require.Equal(t, records[i], got.Record(i))
		}
	})
}
