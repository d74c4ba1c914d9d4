package tests

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitecture: each name that ARCHITECTURE.md links to is declared in that file, and
// no folder with Go in it, nor any file of package lock, is missing. (That the files are
// there is TestDocs_Links's.)
func TestArchitecture(t *testing.T) {
	text := repositoryFile(t, "ARCHITECTURE.md")
	named, linked := 0, map[string]bool{}
	for _, l := range link.FindAllStringSubmatch(text, -1) {
		name, path := l[1], l[2]
		linked[path], linked[filepath.ToSlash(filepath.Dir(path))] = true, true
		if !strings.HasPrefix(name, "`") || !strings.HasSuffix(path, ".go") {
			continue
		}
		named++
		declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type |var |const |\t)` + strings.Trim(name, "`") + `\b`)
		that(t, declared.MatchString(repositoryFile(t, path)), "%s does not declare %s", path, name)
	}
	if named < 20 {
		t.Fatalf("found only %d names", named)
	}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		switch base := entry.Name(); {
		case entry.IsDir() && (base == "testdata" || strings.HasPrefix(base, ".") && path != ".."):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(base) != ".go" || strings.HasSuffix(base, "_test.go"):
		case filepath.ToSlash(filepath.Dir(name)) == "lock" && !linked[name]:
			t.Errorf("%s is not in it", name)
		case !linked[filepath.ToSlash(filepath.Dir(name))] && !strings.HasPrefix(name, "tests/") && !strings.HasPrefix(name, "benchmarks/"):
			t.Errorf("%s: its folder is not in it", name)
		}
		return nil
	})
	check(t, err)
}

// TestImports: no room imports what ARCHITECTURE's table does not let it know of.
func TestImports(t *testing.T) {
	text := repositoryFile(t, "ARCHITECTURE.md")
	short, may := map[string]string{}, map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ((?:\[[^|]*\)(?:, )?)+) \| [^|]* \|([^|]*)\|$`).FindAllStringSubmatch(text, -1) {
		var known []string
		for name := range strings.SplitSeq(row[2], ",") {
			if name = strings.TrimSpace(name); name != "" {
				known = append(known, name)
			}
		}
		for _, room := range link.FindAllStringSubmatch(row[1], -1) {
			short[room[1][strings.LastIndex(room[1], "/")+1:]] = room[1]
			may[room[1]] = known
		}
	}
	if len(may) < 15 {
		t.Fatalf("the table has only %d rooms", len(may))
	}
	const module = "github.com/holdfast-go/holdfast/"
	seen := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		room, known, is := name, may[name], false
		for room != "." && !is {
			room = filepath.ToSlash(filepath.Dir(room))
			known, is = may[room]
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || room == "." ||
			len(known) == 1 && known[0] == "all" || strings.HasPrefix(room, "internal/testkit") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range parsed.Imports {
			imported, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
			if !ours || imported == room || strings.HasPrefix(imported, room+"/") {
				continue
			}
			seen++
			base := imported[strings.LastIndex(imported, "/")+1:]
			allowed := slices.Contains(known, base) && short[base] == imported
			that(t, allowed, "%s imports %s", name, imported)
		}
		return nil
	})
	check(t, err)
	that(t, seen >= 50, "found only %d imports", seen)
}
