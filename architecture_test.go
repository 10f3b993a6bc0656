package main_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayImport is the order of the house: for each package, which others of ours it may import. What stands here for a folder
// holds for the packages below it that have no line of their own, and a folder's packages may import each other. Tests
// may import more; they are not part of the program.
var mayImport = map[string][]string{
	".":   {"cli"},
	"cli": {"node", "bench", "client", "codes", "pg"},
	// bench also runs the HTTP layer with nothing behind it: the yardstick of a push that is not stored.
	"bench": {"node", "client", "pg", "api", "admin", "broker"},
	"node":  {"api", "api/auth", "admin", "broker", "broker/seal", "broker/segment", "broker/wireid", "mesh", "leader", "pg"},
	// api speaks HTTP and knows no SQL; of leader and mesh it gets what it needs through interfaces that it declares.
	"api":    {"api/auth", "admin", "broker", "broker/segment", "broker/wireid"},
	"admin":  {"pg", "broker/seal", "broker/segment", "broker/wireid"},
	"broker": {"mesh", "pg", "broker/seal", "broker/segment", "broker/wireid"},
	// The bottom: these import nothing of ours.
	"api/auth":       nil,
	"broker/seal":    nil,
	"broker/segment": nil,
	"broker/wireid":  nil,
	"client":         nil,
	"codes":          nil,
	// The suite judges brokers from outside, ours among others.
	"conformance": nil,
	"leader":      nil,
	"mesh":        nil,
	"pg":          nil,
}

// onlyForTests are packages that no program may contain.
var onlyForTests = []string{"pg/pgtest", "mesh/meshtest"}

// meaningless are names that say nothing of what a package holds.
var meaningless = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc", "base"}

// source is a Go file and what it imports of ours, as paths below the module.
type source struct {
	file    string
	folder  string
	pkg     string
	imports []string
	isTest  bool
}

// readSources parses every file, whatever build constraints it has.
func readSources(t *testing.T) []source {
	t.Helper()
	module := moduleName(t)
	var sources []source
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := path.Base(name); entry.IsDir() {
			if base != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(name), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{file: name, folder: path.Dir(name), pkg: parsed.Name.Name, isTest: strings.HasSuffix(name, "_test.go")}
		for _, spec := range parsed.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if below, ours := strings.CutPrefix(target, module+"/"); ours {
				s.imports = append(s.imports, below)
			}
		}
		sources = append(sources, s)
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	return sources
}

func moduleName(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(line, "module "); found {
			return strings.TrimSpace(name)
		}
	}
	t.Fatal("go.mod names no module")
	return ""
}

// room returns the line of the table that a folder falls under.
func room(folder string) (string, bool) {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, found := mayImport[folder]; found {
			return folder, true
		}
	}
	return ".", false
}

func allowed(from, to string) bool {
	target, known := room(to)
	return known && (from == target || slices.Contains(mayImport[from], target))
}

func TestImportsPointDownwards(t *testing.T) {
	t.Parallel()
	for _, s := range readSources(t) {
		from, known := room(s.folder)
		if s.folder != "." && !known {
			t.Errorf("%s: folder %s has no place in the table of this test", s.file, s.folder)
		}
		if s.isTest {
			continue
		}
		for _, target := range s.imports {
			if !allowed(from, target) {
				t.Errorf("%s imports %s: %s may import only %v", s.file, target, from, mayImport[from])
			}
			if slices.Contains(onlyForTests, target) && !slices.Contains(onlyForTests, s.folder) {
				t.Errorf("%s imports %s, which is for tests", s.file, target)
			}
		}
	}
}

func TestTableHasNoCycle(t *testing.T) {
	t.Parallel()
	var visit func(from string, above []string)
	visit = func(from string, above []string) {
		require.NotContains(t, above, from, "%v", above)
		for _, to := range mayImport[from] {
			require.Contains(t, mayImport, to)
			visit(to, append(above, from))
		}
	}
	for from := range mayImport {
		visit(from, nil)
	}
}

func TestPackageNamesSayWhatIsInside(t *testing.T) {
	t.Parallel()
	for _, s := range readSources(t) {
		for _, name := range []string{strings.TrimSuffix(s.pkg, "_test"), path.Base(s.folder)} {
			if slices.Contains(meaningless, name) {
				t.Errorf("%s: a package named %s", s.file, name)
			}
		}
	}
}

// Only pg speaks to waggle's tables. The yardsticks of bench measure a bare PostgreSQL, with statements of their own.
func TestOnlyPgHoldsSQL(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != "." && strings.HasPrefix(path.Base(name), ".") {
			return fs.SkipDir
		}
		folder, _ := room(path.Dir(name))
		if err == nil && strings.HasSuffix(name, ".sql") && folder != "pg" && folder != "bench" {
			t.Errorf("%s: SQL outside pg", name)
		}
		return err
	})
	require.NoError(t, err)
}
