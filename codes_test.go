package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waggle/codes"
)

var operatorCode = regexp.MustCompile(`^WG\d{4}$`)

// Everything that the log warns of has a code, and the table of codes says what to do about each.
func TestEveryWarningHasACodeThatIsExplained(t *testing.T) {
	described := map[string]bool{}
	for _, c := range codes.All() {
		described[c.ID] = true
	}
	used := map[string]bool{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || name == "codes/table.go" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "test/"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			if text, ok := node.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if value, err := strconv.Unquote(text.Value); err == nil && operatorCode.MatchString(value) {
					used[value] = true
				}
			}
			if call, ok := node.(*ast.CallExpr); ok && warns(call) {
				require.True(t, coded(call), "%s: a warning without zap.String(\"code\", …) as its first field", files.Position(call.Pos()))
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, described, used, "the table and the code know the same codes")
}

// warns recognises logger.Warn and logger.Error, which have a message at least; the Error of an error has none.
func warns(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Warn" && selector.Sel.Name != "Error" || len(call.Args) == 0 {
		return false
	}
	switch on := selector.X.(type) {
	case *ast.Ident:
		return strings.HasPrefix(strings.ToLower(on.Name), "log")
	case *ast.SelectorExpr:
		return strings.HasPrefix(strings.ToLower(on.Sel.Name), "log")
	}
	return false
}

func coded(call *ast.CallExpr) bool {
	if len(call.Args) < 2 {
		return false
	}
	field, ok := call.Args[1].(*ast.CallExpr)
	if !ok || len(field.Args) != 2 {
		return false
	}
	name, ok := field.Args[0].(*ast.BasicLit)
	return ok && name.Value == `"code"`
}
