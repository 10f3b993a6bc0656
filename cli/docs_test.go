package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

const operationsGuide = "../docs/operations.md"

var updateDocs = flag.Bool("update-docs", false, "write the table of settings into docs/operations.md")

// The table of settings in the operations guide is made from the command line's own model. Run with -update-docs to write
// it again.
func TestOperationsGuideListsEverySetting(t *testing.T) {
	e := newEnvironment(nil)
	parser, err := kong.New(&CLI{}, kong.PostBuild(e.register))
	require.NoError(t, err)
	text, err := os.ReadFile(operationsGuide)
	require.NoError(t, err)
	guide := string(text)

	table := "| Flag | Variables | Default | Meaning |\n|---|---|---|---|\n"
	for _, f := range serveFlags(t, parser) {
		switch names := e.names[f]; {
		case f.Hidden && names == nil: // what dev tells its brokers
		case f.Hidden:
			for _, name := range names {
				require.Contains(t, guide, "`"+name+"`", "a second name of a setting is missing")
			}
		default:
			table += settingRow(f, names)
		}
	}

	const end = "<!-- settings:end -->"
	head, rest, found := strings.Cut(guide, "<!-- settings:begin")
	require.True(t, found)
	comment, rest, found := strings.Cut(rest, "-->\n")
	require.True(t, found)
	written, tail, found := strings.Cut(rest, end)
	require.True(t, found)
	if *updateDocs {
		guide = head + "<!-- settings:begin" + comment + "-->\n" + table + end + tail
		require.NoError(t, os.WriteFile(operationsGuide, []byte(guide), 0o644))
		return
	}
	require.Equal(t, table, written, "run: go test ./cli -run TestOperationsGuide -update-docs")
}

func serveFlags(t *testing.T, parser *kong.Kong) []*kong.Flag {
	t.Helper()
	for _, command := range parser.Model.Children {
		if command.Name == "serve" {
			return command.Flags
		}
	}
	t.Fatal("there is no command serve")
	return nil
}

func settingRow(f *kong.Flag, names []string) string {
	name := "--" + f.Name
	if f.Tag.Negatable != "" {
		name = "--[no-]" + f.Name
	}
	variables := make([]string, len(names))
	for i, variable := range names {
		variables[i] = "`" + variable + "`"
	}
	value := f.Default
	if f.IsBool() && value == "" {
		value = "false"
	}
	if value != "" {
		value = "`" + value + "`"
	}
	// The environment has put the names of the variables behind the help.
	help, _, _ := strings.Cut(f.Help, " ($")
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, strings.Join(variables, " "), value, help)
}
