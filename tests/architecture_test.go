package tests

import (
	"io/fs"
	"path/filepath"
	"regexp"
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
		if !declared.MatchString(repositoryFile(t, path)) {
			t.Errorf("%s does not declare %s", path, name)
		}
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
