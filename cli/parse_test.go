package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryBadValueIsReported(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args    []string
		environ []string
		want    []string
	}{
		"on the command line": {
			[]string{"serve", "--pool", "many", "--lanes=few", "--mesh", "maybe"},
			nil,
			[]string{"--pool (WAGGLE_POOL)", `"many"`, "--lanes (WAGGLE_LANES)", `"few"`, "--mesh (WAGGLE_MESH)", `"maybe"`},
		},
		"in variables": {[]string{"serve"}, []string{"WAGGLE_POOL=many", "WAGGLE_LANES=few"}, []string{"WAGGLE_POOL", "WAGGLE_LANES"}},
		"in both":      {[]string{"serve", "--pool", "many"}, []string{"WAGGLE_LANES=few"}, []string{"--pool", "WAGGLE_LANES"}},
		"twice":        {[]string{"serve", "--pool", "many", "--pool=more"}, nil, []string{"--pool"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			code := Run(t.Context(), &Session{Args: row.args, Environ: row.environ, Stdout: &out, Stderr: &out})
			require.Equal(t, ExitUsage, code)
			for _, want := range row.want {
				require.Contains(t, out.String(), want)
			}
			require.Equal(t, strings.Count(out.String(), "\n"), strings.Count(out.String(), "waggle: "))
		})
	}
}

func TestWithoutFlag(t *testing.T) {
	t.Parallel()
	for _, row := range [][3][]string{
		{{"a", "--x", "1", "b"}, {"--x"}, {"a", "b"}},
		{{"--x=1", "--xy", "2", "--x"}, {"--x"}, {"--xy", "2"}},
		{{"--y", "--", "--x", "1"}, {"--x"}, {"--y", "--", "--x", "1"}},
		{{"--x", "1"}, {""}, {"--x", "1"}},
	} {
		require.Equal(t, row[2], withoutFlag(row[0], row[1][0]))
	}
}
