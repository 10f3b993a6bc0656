package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/codes"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"WG0022", "wg22"} {
		got := run(t, "", "explain", name)
		requireCode(t, ExitDone, got)
		require.Contains(t, got.stdout, "WG0022  the database is older than this build needs")
		require.Contains(t, got.stdout, "Cause:   Steps of the schema are missing")
		require.Contains(t, got.stdout, "To look deeper:\n  waggle migrate status\n")
	}
	require.Contains(t, run(t, "", "explain", "WG0205").stdout, "in psql:\n  select name, last_start")
	var code codes.Code
	require.NoError(t, json.Unmarshal([]byte(run(t, "", "explain", "WG0023", "--output", "json").stdout), &code))
	require.Equal(t, "WG0023", code.ID)

	got := run(t, "", "explain")
	requireCode(t, ExitDone, got)
	require.Equal(t, len(codes.All())+1, strings.Count(got.stdout, "\n"))

	got = run(t, "", "explain", "WG0009")
	requireCode(t, ExitUsage, got)
	require.Contains(t, got.stderr, "near it: WG0008, WG0022")
	require.NotContains(t, got.stderr, "says more", "there is nothing to say of it")
}

// Commands that the table of codes recommends are commands.
func TestCommandsThatAreRecommendedParse(t *testing.T) {
	t.Parallel()
	for _, code := range codes.All() {
		if arguments, found := strings.CutPrefix(code.Look, "waggle "); found {
			command, _ := parse(&Session{Args: strings.Fields(arguments), Stdout: io.Discard, Stderr: io.Discard})
			require.NotNil(t, command, code.ID)
		}
	}
}
