package admin

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"waggle/broker/seal"
	"waggle/broker/segment"
	"waggle/pg"
)

func keyring(t *testing.T) *seal.Keyring {
	t.Helper()
	keys, err := seal.ParseKeys("k1 1111111111111111111111111111111111111111111111111111111111111111")
	require.NoError(t, err)
	ring, err := seal.NewKeyring(keys, uuid.MustParse("6f1c1a52-3f5e-4b7a-9d6e-0a1b2c3d4e5f"))
	require.NoError(t, err)
	return ring
}

// A dead letter whose key is not here is listed all the same, without what it held.
func TestSealedDeadLettersAreOpened(t *testing.T) {
	b := setup(t)
	ring := keyring(t)
	queue := b.queue("bills")
	partition := b.partition(queue, "acme")
	payload, err := segment.SealPayload([]byte(`{"n":1}`), ring.DeadLetter(queue, partition, 7, "ledger"))
	require.NoError(t, err)
	b.exec(`insert into waggle.dead_letter (queue_id, partition_id, group_name, record_offset, message_id, transaction_id, payload,
		error, retry_count, sealed, failed_at) values ($1, $2, 'ledger', 7, $3, 't-1', $4, '', 0, true, '2100-01-01')`, queue, partition, uuid.New(), payload)
	b.letter(queue, partition, "ledger", "t-2", `{"n":2}`, past)
	list := func(r *Reader) []DeadLetter {
		letters, err := r.DeadLetters(t.Context(), b.tenant, DeadLetterFilter{Limit: 10})
		require.NoError(t, err)
		require.Len(t, letters, 2)
		require.True(t, letters[0].IsEncrypted)
		require.False(t, letters[1].IsEncrypted)
		require.Equal(t, `{"n":2}`, string(letters[1].Payload))
		return letters
	}
	core, logs := observer.New(zap.WarnLevel)
	require.Equal(t, `{"n":1}`, string(list(b.reader.WithKeys(ring, zap.New(core)))[0].Payload))
	require.Zero(t, logs.Len())
	require.Equal(t, "null", string(list(b.reader.WithKeys(nil, zap.New(core)))[0].Payload))
	require.Equal(t, 1, logs.Len())
	b.exec(`update waggle.dead_letter set record_offset = 8 where sealed`)
	require.Equal(t, "null", string(list(b.reader.WithKeys(ring, zap.New(core)))[0].Payload), "it is not what was sealed there")
}

func TestSegmentsAreOpenedWhereTheyWereSealed(t *testing.T) {
	t.Parallel()
	ring := keyring(t)
	r := NewReader(nil, nil, nil).WithKeys(ring, nil)
	b := &segment.Builder{}
	b.AppendEncoded(segment.AppendRecord(nil, &segment.Record{Payload: []byte("1")}), segment.Hash{})
	body, err := new(segment.Packer).Sealed(b, ring.Segment(3, 4))
	require.NoError(t, err)
	for _, stored := range [][]byte{body, new(segment.Packer).Body(b, segment.Format)} {
		got, err := r.openSegment(3, 4, &pg.Segment{Format: segment.Format, Count: 1, Body: stored})
		require.NoError(t, err)
		require.Equal(t, "1", string(got.Record(0).Payload))
	}
	_, err = r.openSegment(3, 5, &pg.Segment{Format: segment.Format, Count: 1, Body: body})
	require.Error(t, err)
}
