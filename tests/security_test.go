package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// changes are the names of calls that change a file's mode, owner, length, contents or name.
// What platform wraps is changed by who calls platform.
var changes = regexp.MustCompile(`^(platform\.(Remove|Create|CreateAs|CreateUnnamed|OpenToLock|RenameNew|WriteDurably)|os\.(Mkdir|MkdirAll|Remove|RemoveAll|Rename|Link|Symlink|OpenFile|Create|WriteFile|Truncate|Chmod|Chown|Chtimes)|.*\.(WriteAt|Write|Unmark|Widen|Link|GiveName|Truncate|Chmod|Chown))$`)

// notFiles are receivers of such a name that are no files.
var notFiles = regexp.MustCompile(`^(h|hash|sum|sha256|w\.Write|http|b)\b`)

// callsThatChange returns those of a folder's files: "file.go function" to the calls.
func callsThatChange(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string][]string{}
	files := must(filepath.Glob(filepath.Join("..", folder, "*.go")))(t)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		parsed := must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
		for _, decl := range parsed.Decls {
			f, is := decl.(*ast.FuncDecl)
			if !is {
				continue
			}
			where := fmt.Sprintf("%s/%s %s", folder, filepath.Base(path), f.Name.Name)
			ast.Inspect(f, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				sel, is := call.Fun.(*ast.SelectorExpr)
				if !is {
					return true
				}
				of := "…"
				if x, is := sel.X.(*ast.Ident); is {
					of = x.Name
				}
				if len(call.Args) == 1 && isDuration(call.Args[0]) { // time.Time.Truncate
					return true
				}
				if name := of + "." + sel.Sel.Name; changes.MatchString(name) && !notFiles.MatchString(name) {
					if of != "platform" && of != "os" {
						name = sel.Sel.Name
					}
					found[where] = append(found[where], name)
				}
				return true
			})
		}
	}
	calls := map[string]string{}
	for where, names := range found {
		slices.Sort(names)
		calls[where] = strings.Join(slices.Compact(names), ", ")
	}
	return calls
}

func isDuration(e ast.Expr) bool {
	sel, is := e.(*ast.SelectorExpr)
	if !is {
		return false
	}
	x, is := sel.X.(*ast.Ident)
	return is && x.Name == "time"
}

// TestSecurity_Calls: SECURITY.md has a row for each function of the locks that changes a file,
// with the calls that it makes, and no other.
func TestSecurity_Calls(t *testing.T) {
	text := must(os.ReadFile("../SECURITY.md"))(t)
	told := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| [^|]+ \\|$").FindAllStringSubmatch(string(text), -1) {
		told[row[1]] = strings.TrimSpace(row[2])
	}
	made := map[string]string{}
	for _, folder := range []string{"lock", "lock/internal/record", "lock/internal/queue", "lock/internal/lockfile", "lock/ledger", "lock/claims", "lock/repolock", "lock/dispatch", "lock/permits", "lock/elect", "lock/settings"} {
		maps.Copy(made, callsThatChange(t, folder))
	}
	if len(made) < 10 {
		t.Fatalf("found only %v", made)
	}
	for where, calls := range made {
		if told[where] != calls {
			t.Errorf("%s calls %s; SECURITY.md tells of %q", where, calls, told[where])
		}
	}
	for where := range told {
		that(t, made[where] != "", "%s, of which SECURITY.md tells, changes no file", where)
	}
}
