package tests

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestClone: who reads the documentation in a fresh clone, or lists what is in it, has
// changed nothing. Both ask for the sums of more modules than a build does.
func TestClone(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.env = append(s.env, "GOWORK=", "GOFLAGS=") // as somebody who has just cloned it
	try := func(folder string, args ...string) {
		t.Helper()
		_, err := s.do(folder, "go", args...)
		fetched(t, err)
		if changes := s.must(t, ".", "git", "status", "--porcelain"); changes != "" {
			t.Errorf("in %s, go %s changed the clone:\n%s", folder, strings.Join(args, " "), s.must(t, ".", "git", "diff"))
			s.must(t, ".", "git", "checkout", "-q", ".")
		}
	}
	try(".", "doc", "./lock")
	try(".", "list", "./...")
	for file := range strings.SplitSeq(s.must(t, ".", "git", "ls-files", "go.mod", "*/go.mod"), "\n") {
		try(filepath.Dir(file), "list", "-m", "all")
	}
}
