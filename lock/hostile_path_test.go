//go:build linux

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// Names.

func TestHostile_Path(t *testing.T) { // guards: S1
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	check(t, os.MkdirAll(dir, 0o755))
	t.Chdir(dir)
	slash := dir + "/"
	for path, want := range map[string]error{
		"":                              lock.ErrInvalidName,
		".":                             lock.ErrInvalidName,
		"..":                            lock.ErrInvalidName,
		"../..":                         lock.ErrInvalidName,
		"/":                             lock.ErrInvalidName,
		"x/":                            lock.ErrInvalidName,
		"x/.":                           lock.ErrInvalidName,
		"x/..":                          lock.ErrInvalidName,
		slash:                           lock.ErrInvalidName,
		slash + ".":                     lock.ErrInvalidName,
		"a\x00b":                        lock.ErrInvalidName,
		"\x00":                          lock.ErrInvalidName,
		"a\x00/lock":                    lock.ErrInvalidName,
		"x.flock":                       lock.ErrInvalidName,
		"x.reclaim":                     lock.ErrInvalidName,
		"x.reclaim.0123456789abcdef":    lock.ErrInvalidName,
		"no/such/folder/lock":           fs.ErrNotExist,
		"nosuch/lock":                   fs.ErrNotExist,
		strings.Repeat("x", 256):        nil,
		strings.Repeat("x", 1<<16):      nil,
		strings.Repeat("x/", 1<<14):     nil,
		strings.Repeat("../", 1<<11):    nil,
		strings.Repeat("y", 300) + "/x": nil,
	} {
		for mode, in := range modes {
			file := in(lock.File{Path: path})
			what := fmt.Sprintf("%.30q, %s", path, mode)
			before := treeState(t, root)
			_, err := file.TryAcquire(context.Background())
			var acquireErr error
			promptly(t, "Acquire", func() { _, acquireErr = file.Acquire(context.Background()) })
			for _, err := range []error{err, acquireErr} {
				if err == nil {
					t.Errorf("%s was accepted", what)
				} else if want != nil && !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
				that(t, !errors.As(err, new(*lock.LockedError)), "%s: %v is not contention", what, err)
			}
			if _, err := file.Inspect(context.Background()); want == lock.ErrInvalidName && !errors.Is(err, want) {
				t.Errorf("%s: Inspect: %v", what, err)
			}
			sameTree(t, before, treeState(t, root))
		}
	}
}

// TestHostile_LongName: a name that can be locked leaves room for the names
// beside it, so that a dead holder's lock can be reclaimed.
func TestHostile_LongName(t *testing.T) { // guards: S1
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			longest := 0
			var stuck []int // where a dead holder's lock stays
			var why error
			for n := 150; n <= 255; n++ {
				dir := t.TempDir()
				file := in(lock.File{Path: filepath.Join(dir, strings.Repeat("x", n))})
				held, err := file.TryAcquire(context.Background())
				if err != nil {
					that(t, !errors.As(err, new(*lock.LockedError)), "%d bytes: %v is not contention", n, err)
					equal(t, names(t, dir), "", n, "bytes: left behind")
					continue
				}
				longest = n
				if err := held.Release(); err != nil {
					stuck, why = append(stuck, n), err
					continue
				}
				os.Remove(file.Path)
				putDeadClaim(t, file.Path)
				if len(filepath.Base(file.Path+".reclaim")) <= 255 {
					putDeadClaim(t, file.Path+".reclaim")
				}
				if held, err = file.TryAcquire(context.Background()); err == nil {
					err = held.Release()
				}
				if err != nil {
					stuck, why = append(stuck, n), err
				}
			}
			that(t, len(stuck) == 0, "a dead holder's lock, or one's own, stays with names of %d bytes: %.100v ...", stuck, why)
			that(t, longest >= 200, "the longest name is %d bytes", longest)
		})
	}
}
