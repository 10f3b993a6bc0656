package codes_test

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/codes"
	"waggle/pg/pgtest"
)

var update = flag.Bool("update", false, "write docs/codes.md anew")

const page = "../docs/codes.md"

func TestDocument(t *testing.T) {
	t.Parallel()
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(codes.Document()), 0o644))
	}
	written, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, codes.Document(), string(written), "go test ./codes -run TestDocument -update writes it anew")
}

func TestTheTableIsInOrderAndComplete(t *testing.T) {
	t.Parallel()
	before := ""
	for _, c := range codes.All() {
		require.Regexp(t, regexp.MustCompile(`^WG\d{4}$`), c.ID)
		require.Greater(t, c.ID, before, "in order, and each once")
		before = c.ID
		for _, text := range []string{c.Text, c.Meaning, c.Remedy} {
			require.NotEmpty(t, text, c.ID)
			require.NotContains(t, text, "|", c.ID)
		}
		require.True(t, strings.HasSuffix(c.Remedy, "."), "%s: %q is a sentence", c.ID, c.Remedy)
		require.True(t, strings.HasSuffix(c.Meaning, ".") || strings.HasSuffix(c.Meaning, ")."), "%s: %q is a sentence", c.ID, c.Meaning)
	}
}

func TestFindUnderstandsShortForms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"WG0022", "wg0022", "WG22", "22", " 0022 "} {
		found, ok := codes.Find(name)
		require.True(t, ok, name)
		require.Equal(t, "WG0022", found.ID)
	}
	for _, name := range []string{"", "WG", "WG9999", "12345", "twenty"} {
		_, ok := codes.Find(name)
		require.False(t, ok, name)
		require.NotEmpty(t, codes.Near(name))
	}
	require.Equal(t, "WG0008", codes.Near("WG0009")[0].ID)
}

// Every query of the table runs on the schema of this build, as an ordinary role.
func TestQueriesRun(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t).URL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	for _, c := range codes.All() {
		if c.Look == "" || strings.HasPrefix(c.Look, "waggle ") {
			continue
		}
		_, err := conn.Exec(t.Context(), c.Look)
		require.NoError(t, err, c.ID)
	}
}
