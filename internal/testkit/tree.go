package testkit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FileState is all of a file that a test compares.
type FileState struct {
	mode     fs.FileMode
	size     int64
	modified time.Time
	info     fs.FileInfo
	content  string // of a small regular file, or a link's target
}

// TreeState describes everything below dir except the named files in it.
func TreeState(t testing.TB, dir string, except ...string) map[string]FileState {
	t.Helper()
	tree := map[string]FileState{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		for _, e := range except {
			if name == e {
				return nil
			}
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		s := FileState{mode: info.Mode(), info: info}
		if !info.IsDir() || path != dir {
			s.size, s.modified = info.Size(), info.ModTime()
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			s.content, err = os.Readlink(path)
		case info.Mode().IsRegular() && info.Size() < 1<<20:
			var data []byte
			if data, err = os.ReadFile(path); errors.Is(err, fs.ErrPermission) {
				err = nil // its time and size must do
			}
			s.content = string(data)
		}
		tree[name] = s
		return err
	})
	Check(t, err)
	return tree
}

// SameTree fails unless two states of one tree are equal, down to the files'
// identity and times.
func SameTree(t testing.TB, before, after map[string]FileState) {
	t.Helper()
	for name, b := range before {
		a, ok := after[name]
		switch {
		case !ok:
			t.Errorf("%s was removed", name)
		case a.mode != b.mode || a.size != b.size || a.content != b.content || !a.modified.Equal(b.modified):
			t.Errorf("%s was changed: from %v %d %s to %v %d %s", name, b.mode, b.size, b.modified, a.mode, a.size, a.modified)
		case !os.SameFile(a.info, b.info):
			t.Errorf("%s was replaced", name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s was left behind", name)
		}
	}
}
