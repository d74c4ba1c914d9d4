package repolock_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/repolock"
)

// FuzzRepoLock: an id is that of one file, below its own folder; or refused, with nothing
// written.
func FuzzRepoLock(f *testing.F) {
	for _, id := range []string{"repo", "a.b", ".", "..", "", "../../esc", "/etc", "a/b", `a\b`, "a\x00b", ".lock", "é", "\xff", " ", "-", "\n", "~",
		strings.Repeat("x", 255), strings.Repeat("é", 130), "a.flock", "a.reclaim", ".lock.flock"} {
		f.Add(id)
	}
	top := f.TempDir()
	f.Fuzz(func(t *testing.T, id string) {
		dir := filepath.Join(top, "data")
		defer os.RemoveAll(dir)
		unlock, err := repolock.NewRepoLock(dir).Lock(id, "fuzz")
		if err != nil {
			that(t, errors.Is(err, lock.ErrInvalidName), "%q: %v", id, err)
			if left := testkit.Names(t, top); left != "" {
				t.Errorf("%q is refused, and made %s", id, left)
			}
			return
		}
		that(t, id == filepath.Base(id) && filepath.IsLocal(id), "%q is no name of one folder", id)
		if testkit.Names(t, dir) != "repos" || testkit.Names(t, filepath.Join(dir, "repos")) != id ||
			testkit.Names(t, filepath.Join(dir, "repos", id)) != ".lock .lock.flock" || testkit.Names(t, top) != "data" {
			t.Errorf("%q made %v", id, treeState(t, top, "."))
		}
		check(t, unlock())
		isAbsent(t, filepath.Join(dir, "repos", id, ".lock"))
	})
}
