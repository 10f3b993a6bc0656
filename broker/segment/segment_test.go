package segment

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawRecord(t *rapid.T) Record {
	var r Record
	if rapid.Bool().Draw(t, "has id") {
		r.ID = uuid.New()
	}
	if rapid.Bool().Draw(t, "has trace") {
		r.TraceID = uuid.New()
	}
	r.ProducerSub = rapid.String().Draw(t, "sub")
	if rapid.Bool().Draw(t, "has transaction") {
		id := rapid.String().Draw(t, "transaction")
		r.TransactionID = &id
	}
	r.Payload = []byte(strings.Repeat(rapid.String().Draw(t, "payload"), rapid.IntRange(1, 200).Draw(t, "times")))
	return r
}

func TestRecordsComeBackAsTheyWent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b Builder
		records := make([]Record, rapid.IntRange(0, 50).Draw(t, "records"))
		for i := range records {
			records[i] = drawRecord(t)
			hash := Hash{}
			if records[i].TransactionID != nil {
				hash = HashOf(*records[i].TransactionID)
			}
			b.AppendEncoded(AppendRecord(nil, &records[i]), hash)
		}
		got, err := Decode(Format, len(records), new(Packer).Body(&b, Format))
		require.NoError(t, err)
		require.Equal(t, len(records), got.Len())
		for i := range records {
			want := records[i]
			if len(want.Payload) == 0 {
				want.Payload = []byte{}
			}
			require.Equal(t, want, got.Record(i))
			require.Equal(t, want, b.Segment().Record(i))
		}
		require.Len(t, b.IDs(), len(records)*HashSize)
	})
}

func TestRepetitiveBodiesShrinkAndRandomOnesStayPlain(t *testing.T) {
	t.Parallel()
	var b Builder
	b.AppendEncoded(AppendRecord(nil, &Record{Payload: bytes.Repeat([]byte("waggle"), 1000)}), Hash{})
	require.Less(t, len(new(Packer).Body(&b, Format)), 500)

	noise := make([]byte, 6000)
	state := uint64(1)
	for i := range noise {
		state = state*6364136223846793005 + 1442695040888963407
		noise[i] = byte(state >> 56)
	}
	var n Builder
	n.AppendEncoded(AppendRecord(nil, &Record{Payload: noise}), Hash{})
	require.Equal(t, encodingPlain, new(Packer).Body(&n, Format)[0])
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format int16
		count  int
		body   []byte
		want   error
	}{
		"newer format":           {MaxFormat + 1, 0, []byte{0}, ErrUnknownFormat},
		"empty body":             {Format, 0, nil, ErrCorrupt},
		"unknown encoding":       {Format, 0, []byte{9}, ErrUnknownFormat},
		"unknown flag":           {Format, 1, []byte{0, 0x80, 0}, ErrUnknownFormat},
		"fewer records":          {Format, 2, []byte{0, 0, 0}, ErrCorrupt},
		"more records":           {Format, 0, []byte{0, 0, 0}, ErrCorrupt},
		"count beyond the bytes": {Format, 1 << 30, []byte{0, 0, 0}, ErrCorrupt},
		"payload cut short":      {Format, 1, []byte{0, 0, 9, 1}, ErrCorrupt},
		"zstd of huge claim":     {Format, 1, append([]byte{1}, binary.AppendUvarint(nil, 1<<40)...), ErrCorrupt},
		"zstd of noise":          {Format, 1, []byte{1, 4, 1, 2, 3, 4}, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode(c.format, c.count, c.body)
			require.ErrorIs(t, err, c.want)
		})
	}
}

func FuzzDecodeNeverPanics(f *testing.F) {
	var b Builder
	id := "t"
	b.AppendEncoded(AppendRecord(nil, &Record{ID: uuid.New(), TransactionID: &id, Payload: []byte(`{}`)}), HashOf(id))
	f.Add(1, new(Packer).Body(&b, Format))
	f.Add(1, []byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, count int, body []byte) {
		s, err := Decode(Format, count, body)
		if err != nil {
			return
		}
		for i := range s.Len() {
			s.Record(i)
		}
	})
}

func TestABuilderTakesOneLargeRecordButNotASecond(t *testing.T) {
	t.Parallel()
	var b Builder
	large := AppendRecord(nil, &Record{Payload: make([]byte, MaxBytes)})
	require.True(t, b.Fits(len(large)))
	b.AppendEncoded(large, Hash{})
	require.False(t, b.Fits(1))
}

func TestTheZeroHashIsNobodys(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, Hash{}, HashOf(""))
	require.NotEqual(t, HashOf("a"), HashOf("b"))
}

func TestAPackerRestsAfterBodiesThatDoNotShrink(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 6000)
	state := uint64(1)
	for i := range noise {
		state = state*6364136223846793005 + 1442695040888963407
		noise[i] = byte(state >> 56)
	}
	var hard, easy Builder
	hard.AppendEncoded(AppendRecord(nil, &Record{Payload: noise}), Hash{})
	easy.AppendEncoded(AppendRecord(nil, &Record{Payload: bytes.Repeat([]byte("waggle"), 1000)}), Hash{})
	var p Packer
	for range 12 {
		p.Body(&hard, Format)
	}
	tries := 0
	for p.Body(&easy, Format)[0] == encodingPlain {
		tries++
	}
	require.Greater(t, tries, 0)
	require.Less(t, tries, maxPlainRun)
	require.Equal(t, encodingZstd, p.Body(&easy, Format)[0], "what shrinks is packed again at once")
}
