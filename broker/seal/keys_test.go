package seal

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func testSecret(n byte) []byte {
	secret := make([]byte, KeySize)
	for i := range secret {
		secret[i] = n + byte(i)*7 // no two neighbours alike, and bytes that base64's two alphabets spell differently
	}
	return secret
}

func testKey(t testing.TB, id string, n byte) Key {
	t.Helper()
	keys, err := ParseKeys(id + " " + hex.EncodeToString(testSecret(n)))
	require.NoError(t, err)
	return keys[0]
}

func TestKeysAreReadInEverySpelling(t *testing.T) {
	t.Parallel()
	secret := testSecret(0xf0)
	want, err := ParseKey(hex.EncodeToString(secret))
	require.NoError(t, err)
	require.Len(t, want.ID(), 16)
	for _, text := range []string{
		strings.ToUpper(hex.EncodeToString(secret)), "  " + hex.EncodeToString(secret) + "\n",
		base64.StdEncoding.EncodeToString(secret), base64.RawStdEncoding.EncodeToString(secret),
		base64.URLEncoding.EncodeToString(secret), base64.RawURLEncoding.EncodeToString(secret),
	} {
		key, err := ParseKey(text)
		require.NoError(t, err, text)
		require.Equal(t, want.secret, key.secret)
		require.Equal(t, want.id, key.id)
	}
}

func TestWhatIsNoKeyIsRefusedWithoutBeingShown(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "secret", strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("g", 64),
		base64.StdEncoding.EncodeToString(testSecret(1)[:31]), base64.StdEncoding.EncodeToString(append(testSecret(1), 0)),
		"thirty-two characters of a phrase",
	} {
		_, err := ParseKey(text)
		require.ErrorIs(t, err, ErrMalformedKey, text)
	}
	_, err := ParseKeys("# mine\nnew hunter2\n\n a b c \nol/d " + hex.EncodeToString(testSecret(1)))
	require.EqualError(t, err, "line 2: must be 32 bytes as 64 hexadecimal digits or as base64\n"+
		"line 4: must be `id key` or a key alone\n"+
		"line 5: the key's id must be 1 to 64 of A-Z, a-z, 0-9, dot, underscore and dash")
	_, err = ParseKeys("# nothing\n\n")
	require.EqualError(t, err, "holds no key")
}

func TestAListNamesKeysOrLeavesItToThem(t *testing.T) {
	t.Parallel()
	bare := hex.EncodeToString(testSecret(2))
	keys, err := ParseKeys("# newest first\r\n2031 " + base64.StdEncoding.EncodeToString(testSecret(1)) + "\r\n\t" + bare + "\n")
	require.NoError(t, err)
	require.Len(t, keys, 2)
	require.Equal(t, "2031", keys[0].ID())
	require.Equal(t, testSecret(1), keys[0].secret[:])
	alone, err := ParseKey(bare)
	require.NoError(t, err)
	require.Equal(t, alone, keys[1])
}

func TestOneNameStandsForOneKey(t *testing.T) {
	t.Parallel()
	a, b := testKey(t, "a", 1), testKey(t, "a", 2)
	require.ErrorContains(t, CheckKeys([]Key{a, b}), "two different keys have the id a")
	require.NoError(t, CheckKeys([]Key{a, testKey(t, "b", 1), a}), "two names for one key")
	impostor := testKey(t, a.derivedID(), 2)
	require.Error(t, CheckKeys([]Key{a, impostor}), "the name that a key has by itself is taken")
	_, err := NewKeyring([]Key{a, b}, uuid.New())
	require.Error(t, err)
}

func TestAKeyPrintsAsItsName(t *testing.T) {
	t.Parallel()
	key := testKey(t, "k", 1)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		require.Equal(t, "k", fmt.Sprintf(verb, key), verb)
		require.NotContains(t, fmt.Sprintf(verb, []Key{key}), "8", verb)
	}
}

func TestWithoutKeysThereIsNoKeyring(t *testing.T) {
	t.Parallel()
	ring, err := NewKeyring(nil, uuid.New())
	require.NoError(t, err)
	require.False(t, ring.CanSeal())
	require.Empty(t, ring.Current())
	_, err = ring.Segment(1, 2).Lock()
	require.EqualError(t, err, "this broker has no encryption key")
	head, err := testRing(t).Segment(1, 2).Lock()
	require.NoError(t, err)
	var missing *KeyError
	require.ErrorAs(t, ring.Segment(1, 2).Unlock(head), &missing)
	require.Equal(t, "k1", missing.ID)
}
