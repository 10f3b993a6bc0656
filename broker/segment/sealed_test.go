package segment

import (
	"bytes"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// glass is a cipher that hides nothing and lets everything pass: the codec behind it is on its own.
type glass struct{}

func (glass) Lock() ([]byte, error)                      { return []byte("head"), nil }
func (glass) Unlock([]byte) error                        { return nil }
func (glass) Skip(int)                                   {}
func (glass) Seal(dst, plain, _ []byte) []byte           { return append(dst, plain...) }
func (glass) Open(dst, sealed, _ []byte) ([]byte, error) { return append(dst, sealed...), nil }

func sealedBody(t testing.TB) []byte {
	t.Helper()
	var b Builder
	id := "t"
	b.AppendEncoded(AppendRecord(nil, &Record{ID: uuid.New(), TransactionID: &id, Payload: []byte(`{}`)}), HashOf(id))
	b.AppendEncoded(AppendRecord(nil, &Record{Payload: bytes.Repeat([]byte("waggle"), 1000)}), Hash{})
	body, err := new(Packer).Sealed(&b, glass{})
	require.NoError(t, err)
	return body
}

func TestPayloadsAreCompressedBeforeTheyAreSealed(t *testing.T) {
	t.Parallel()
	body := sealedBody(t)
	require.Less(t, len(body), 500)
	got, err := Open(Format, 2, body, glass{})
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte("waggle"), 1000), got.Record(1).Payload)

	_, err = Decode(Format, 2, body)
	require.ErrorIs(t, err, ErrSealed)
	_, err = Open(MaxFormat+1, 2, body, glass{})
	require.ErrorIs(t, err, ErrUnknownFormat)
}

func TestOpenTakesWhatIsNotSealed(t *testing.T) {
	t.Parallel()
	got, err := Open(Format, 1, []byte{encodingPlain, 0, 1, '7'}, nil)
	require.NoError(t, err)
	require.Equal(t, "7", string(got.Record(0).Payload))
}

func TestSealedBodiesThatNobodyWroteAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		count int
		body  []byte
		want  error
	}{
		"head cut short":            {0, []byte{2, 9, 1}, ErrCorrupt},
		"fewer records":             {2, []byte{2, 0, 0, 1, 0}, ErrCorrupt},
		"more records":              {0, []byte{2, 0, 0, 1, 0}, ErrCorrupt},
		"count beyond the bytes":    {1 << 30, []byte{2, 0, 0, 1, 0}, ErrCorrupt},
		"unknown flag":              {1, []byte{2, 0, 0x80, 1, 0}, ErrUnknownFormat},
		"payload without encoding":  {1, []byte{2, 0, 0, 0}, ErrCorrupt},
		"unknown payload encoding":  {1, []byte{2, 0, 0, 1, 7}, ErrUnknownFormat},
		"payload of a huge claim":   {1, []byte{2, 0, 0, 6, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}, ErrCorrupt},
		"payload that is cut short": {1, []byte{2, 0, 0, 9, 0}, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(Format, c.count, c.body, glass{})
			require.ErrorIs(t, err, c.want)
		})
	}
	_, err := OpenPayload([]byte(`{"n":1}`), glass{})
	require.ErrorIs(t, err, ErrCorrupt)
}

func FuzzOpenNeverPanics(f *testing.F) {
	f.Add(2, sealedBody(f))
	f.Add(1, []byte{2, 0, 0, 6, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, count int, body []byte) {
		_, _ = OpenPayload(body, glass{})
		s, err := Open(Format, count, body, glass{})
		if err != nil {
			return
		}
		for i := range s.Len() {
			s.Record(i)
		}
	})
}
