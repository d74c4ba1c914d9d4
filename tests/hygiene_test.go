package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHygiene_Everywhere: every package that has tests looks at what they leave behind.
func TestHygiene_Everywhere(t *testing.T) {
	looks := map[string]bool{}
	check(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "benchmarks" || entry.Name() == "testdata"):
			return fs.SkipDir // benchmarks are no tests
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		folder := filepath.Dir(path)
		looks[folder] = looks[folder] || strings.Contains(string(text), "testkit.Run(") || strings.Contains(string(text), "testkit.Main(") ||
			strings.Contains(string(text), "os.Exit(Run(m))")
		return err
	}))
	if len(looks) < 12 {
		t.Fatalf("found only %d packages", len(looks))
	}
	for folder, does := range looks {
		that(t, does, "%s has no TestMain with testkit.Run", folder)
	}
}
