package schema_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"waggle/pg/schema"
)

func texts(statements []schema.Statement) []string {
	result := make([]string, 0, len(statements))
	for _, statement := range statements {
		result = append(result, statement.Text)
	}
	return result
}

func TestSplitCutsOnlyWhereAStatementEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string
		want   []string
	}{
		"nothing":                       {"", []string{}},
		"comments alone":                {"-- a; b\n/* c; d */ ;; \n", []string{}},
		"two":                           {"select 1; select 2;", []string{"select 1", "select 2"}},
		"no semicolon at the end":       {"select 1", []string{"select 1"}},
		"string":                        {"select ';'; b", []string{"select ';'", "b"}},
		"doubled quote":                 {"select 'it''s;'; b", []string{"select 'it''s;'", "b"}},
		"backslash is plain":            {`select '\'; b`, []string{`select '\'`, "b"}},
		"E string":                      {`select E'\';'; b`, []string{`select E'\';'`, "b"}},
		"e string":                      {`select e'\\'; b`, []string{`select e'\\'`, "b"}},
		"E string, doubled quote":       {`select E'a''\';'; b`, []string{`select E'a''\';'`, "b"}},
		"word that ends with e":         {`select like'\'; b`, []string{`select like'\'`, "b"}},
		"identifier":                    {`select 1 as "a;""b;"; b`, []string{`select 1 as "a;""b;"`, "b"}},
		"dollar quote":                  {"do $$ begin; end; $$; b", []string{"do $$ begin; end; $$", "b"}},
		"tagged dollar quote":           {"do $a$ $$;$b$; $a$; b", []string{"do $a$ $$;$b$; $a$", "b"}},
		"tag with digits and umlauts":   {"do $ü1$;$ü1$; b", []string{"do $ü1$;$ü1$", "b"}},
		"parameter is no dollar quote":  {"select $1; select $1", []string{"select $1", "select $1"}},
		"dollar in identifier":          {"select a$b; c$b", []string{"select a$b", "c$b"}},
		"line comment":                  {"select 1 -- ;'\n+ 1; b", []string{"select 1 -- ;'\n+ 1", "b"}},
		"line comment at the end":       {"select 1; b -- end", []string{"select 1", "b"}},
		"block comment":                 {"select /* ;' */ 1; b", []string{"select /* ;' */ 1", "b"}},
		"nested block comment":          {"select /* a /* ; */ ; */ 1; b", []string{"select /* a /* ; */ ; */ 1", "b"}},
		"overlapping comment marks":     {"select /*/ ; */ 1; b", []string{"select /*/ ; */ 1", "b"}},
		"comment in string":             {"select '--'; b", []string{"select '--'", "b"}},
		"comments before and after":     {"/* x */ -- y\n select 1 /* z */;", []string{"select 1"}},
		"minus and slash are operators": {"select 1 - -1 / 2; b", []string{"select 1 - -1 / 2", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := schema.Split(test.script)
			require.NoError(t, err)
			require.Equal(t, test.want, texts(got))
		})
	}
}

func TestSplitRefusesWhatIsNotClosedAndSaysWhere(t *testing.T) {
	t.Parallel()
	for _, open := range []string{"'a", `"a`, "$$ a", "$t$ a $$", "/* a /* b */", `E'a\'`} {
		_, err := schema.Split("select 1;\n\nselect " + open)
		require.ErrorContains(t, err, "line 3", open)
	}
}

func TestSplitKnowsTheLineOfEachStatement(t *testing.T) {
	t.Parallel()
	got, err := schema.Split("-- one\n\nselect '\n\n';\n/*\n*/ select 2;")
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []int{3, 7}, []int{got[0].Line, got[1].Line})
}

// Whatever stands between two semicolons comes back as it was written, however it is quoted.
func TestSplitGivesBackWhatWasJoined(t *testing.T) {
	t.Parallel()
	inside := rapid.StringOf(rapid.SampledFrom([]rune("a;'\"$-/*\\\n é")))
	token := rapid.Custom(func(t *rapid.T) string {
		text := inside.Draw(t, "inside")
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			return "'" + strings.ReplaceAll(text, "'", "''") + "'"
		case 1:
			return "E'" + strings.NewReplacer("'", `\'`, `\`, `\\`).Replace(text) + "'"
		case 2:
			return `"x` + strings.ReplaceAll(text, `"`, `""`) + `"`
		case 3:
			return "$q$" + strings.ReplaceAll(text, "$", "") + "$q$"
		case 4:
			return "/*" + strings.NewReplacer("/", "", "*", "").Replace(text) + "*/"
		case 5:
			return "--" + strings.ReplaceAll(text, "\n", "") + "\n"
		default:
			return rapid.SampledFrom([]string{"select", "$1", "a$b", "1", ",", "-", "/"}).Draw(t, "plain")
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		var script strings.Builder
		var want []string
		for range rapid.IntRange(0, 5).Draw(t, "statements") {
			// A statement begins and ends with a word: comments around it are not part of it.
			text := "begin " + strings.Join(rapid.SliceOf(token).Draw(t, "tokens"), " ") + " finish"
			want = append(want, text)
			script.WriteString(text + ";\n")
		}
		got, err := schema.Split(script.String())
		if err != nil {
			t.Fatalf("split %q: %v", script.String(), err)
		}
		if strings.Join(texts(got), "\x00") != strings.Join(want, "\x00") {
			t.Fatalf("got %q, want %q", texts(got), want)
		}
	})
}
