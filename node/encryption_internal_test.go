package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEncryptionKeysAreReadOrRefused(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "keys")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for name, c := range map[string]struct {
		key, file string
		ids       []string // "" for one that the key has by itself
		refused   string
	}{
		"none":                       {},
		"one key":                    {key: a, ids: []string{""}},
		"a file, its first to write": {file: file("new " + b + "\nold " + a), ids: []string{"new", "old"}},
		"both":                       {file: file("new " + b), key: a, ids: []string{"new", ""}},
		"a bad key":                  {key: "hunter2", refused: `--encryption-key (WAGGLE_ENCRYPTION_KEY) "...": must be 32 bytes`},
		"a bad line":                 {file: file("new hunter2"), refused: "(WAGGLE_ENCRYPTION_KEYS_FILE)"},
		"no file":                    {file: "/nonexistent/keys", refused: "no such file"},
		"an empty file":              {file: file("# soon\n"), refused: "holds no key"},
		"two keys of one name":       {file: file("k " + a + "\nk " + b), refused: "two different keys have the id k"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := DefaultConfig("1.2.3")
			config.DatabaseURL = "postgres://localhost/waggle"
			config.EncryptionKey, config.EncryptionKeysFile = c.key, c.file
			err := config.Validate()
			if c.refused != "" {
				var refused *ConfigError
				require.ErrorAs(t, err, &refused)
				require.ErrorContains(t, err, c.refused)
				require.NotContains(t, err.Error(), "hunter2")
				return
			}
			require.NoError(t, err)
			require.NoError(t, config.Validate(), "it may be asked twice")
			require.Len(t, config.encryptionKeys, len(c.ids))
			for i, id := range c.ids {
				if id == "" {
					require.Len(t, config.encryptionKeys[i].ID(), 16)
					continue
				}
				require.Equal(t, id, config.encryptionKeys[i].ID())
			}
		})
	}
}
