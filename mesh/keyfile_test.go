package mesh_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/mesh"
)

func TestKeysOfAFile(t *testing.T) {
	t.Parallel()
	key := func(fill byte, size int) []byte { return bytes.Repeat([]byte{fill}, size) }
	short, middle, long := key(0xfb, 16), key(0xff, 24), key(0xfe, 32)
	text := "# the first one encrypts\n\n" + hex.EncodeToString(short) + "\r\n  " + base64.StdEncoding.EncodeToString(middle) + "\n" +
		strings.ToUpper(hex.EncodeToString(long))
	keys, err := mesh.ParseKeys(text)
	require.NoError(t, err)
	require.Equal(t, [][]byte{short, middle, long}, keys)
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		keys, err := mesh.ParseKeys(encoding.EncodeToString(long))
		require.NoError(t, err)
		require.Equal(t, [][]byte{long}, keys)
	}
}

func TestAKeyFileThatCannotBeReadNamesTheLineAndNeverShowsIt(t *testing.T) {
	t.Parallel()
	good := hex.EncodeToString(bytes.Repeat([]byte{1}, 32))
	for says, text := range map[string]string{
		"there is no key in it":                         "\n# nothing\n",
		"line 3: neither hexadecimal digits nor base64": good + "\n\nsecret?!\n",
		"line 1: not 16, 24 or 32 bytes":                "0102030405",
		"line 2: not 16, 24 or 32 bytes":                "# why\n" + base64.StdEncoding.EncodeToString(make([]byte, 33)),
		"a key stands in it twice":                      good + "\n" + strings.ToUpper(good),
	} {
		_, err := mesh.ParseKeys(text)
		require.EqualError(t, err, says)
		require.NotContains(t, err.Error(), "secret")
	}
	hexadecimal, err := mesh.ParseKeys(strings.Repeat("0a", 16))
	require.NoError(t, err)
	require.Len(t, hexadecimal[0], 16, "not 24 bytes of base64")
}

func TestFingerprintsTellKeysApartAndDoNotShowThem(t *testing.T) {
	t.Parallel()
	a, b := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	require.Equal(t, mesh.Fingerprint(a), mesh.Fingerprint(bytes.Clone(a)))
	require.NotEqual(t, mesh.Fingerprint(a), mesh.Fingerprint(b))
	require.Regexp(t, "^[0-9a-f]{16}$", mesh.Fingerprint(a))
	require.NotContains(t, hex.EncodeToString(a), mesh.Fingerprint(a))
}
