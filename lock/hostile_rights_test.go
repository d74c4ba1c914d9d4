//go:build linux

package lock_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// Rights.

func TestHostile_UnwritableFolder(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for mode, in := range modes {
		for name, prepare := range map[string]func(t *testing.T, file lock.File){
			"empty":   func(t *testing.T, file lock.File) {},
			"sibling": func(t *testing.T, file lock.File) { letGo(t, tryHold(t, lock.File{Path: file.Path})) },
			"dead claim": func(t *testing.T, file lock.File) {
				letGo(t, tryHold(t, lock.File{Path: file.Path}))
				putDeadClaim(t, file.Path)
			},
			"dead claim and marker": func(t *testing.T, file lock.File) {
				letGo(t, tryHold(t, lock.File{Path: file.Path}))
				putDeadClaim(t, file.Path)
				putDeadClaim(t, file.Path+".reclaim")
			},
		} {
			t.Run(name+", "+mode, func(t *testing.T) {
				dir := t.TempDir()
				file := in(lock.File{Path: filepath.Join(dir, "lock")})
				prepare(t, file)
				chmod(t, dir, 0o500)
				untouched(t, dir, func() { fails(t, file, fs.ErrPermission) })
				untouched(t, dir, func() {
					_, err := file.Acquire(context.Background())
					wantSystemError(t, err, fs.ErrPermission)
				})
				chmod(t, dir, 0)
				promptly(t, "it", func() { fails(t, file, fs.ErrPermission) })
				chmod(t, dir, 0o700)
				letGo(t, tryHold(t, file))
			})
		}
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// TestHostile_ReleaseFails: a lock that can't be let go is still held, and can be
// let go later.
func TestHostile_ReleaseFails(t *testing.T) {
	if !asNobody(t) {
		return
	}
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			file := in(lock.File{Path: filepath.Join(dir, "lock")})
			held := tryHold(t, file)
			chmod(t, dir, 0o500)
			for range 2 {
				err := held.Release()
				wantSystemError(t, err, fs.ErrPermission)
				if errors.Is(err, lock.ErrLost) {
					t.Errorf("%v, but nothing is lost", err)
				}
			}
			if l := notHad(t, file); l.Verdict != lock.Alive {
				t.Errorf("%+v", l)
			}
			chmod(t, dir, 0o700)
			if l := notHad(t, file); l.Info == nil || l.Info.Nonce != held.Info().Nonce {
				t.Errorf("%+v", l)
			}
			letGo(t, held)
			isAbsent(t, file.Path)
			isAbsent(t, file.Path+".reclaim")
			letGo(t, tryHold(t, file))
		})
	}
}

// TestHostile_VanishesDuringRelease: the lock file goes between the holder's last
// look at it and its removal.
func TestHostile_VanishesDuringRelease(t *testing.T) {
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			file := in(lock.File{Path: filepath.Join(t.TempDir(), "lock")})
			held := tryHold(t, file.Park(func(step string) {
				if step == lock.ReleaseSteps[0] {
					os.Remove(file.Path)
				}
			}))
			if err := held.Release(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release: %v, want ErrLost", err)
			}
			isAbsent(t, file.Path+".reclaim")
			letGo(t, tryHold(t, file))
		})
	}
}

// TestHostile_UnreadableByRights: no right to read is no proof of anything, but
// for the mark of an incomplete claim, which is the file's mode.
func TestHostile_UnreadableByRights(t *testing.T) {
	if !asNobody(t) {
		return
	}
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock")}
	putDeadClaim(t, file.Path)
	chmod(t, file.Path, 0)
	untouchedByRights := func(f lock.File, want lock.Verdict) {
		t.Helper()
		before, err := os.Lstat(file.Path)
		if err != nil {
			t.Fatal(err)
		}
		if l := notHad(t, f); l.Verdict != want || l.Info != nil {
			t.Errorf("%+v", l)
		}
		if after, err := os.Lstat(file.Path); err != nil || !platform.Unchanged(before, after) {
			t.Errorf("changed: %v, %v", after, err)
		}
	}
	untouchedByRights(file, lock.Unknown)
	file.StaleAfter = -1
	untouchedByRights(file, lock.Unknown)
	untouchedByRights(file.WithoutKernelLock(), lock.Unknown)
	chmod(t, file.Path, 0o200)
	untouchedByRights(file.WithoutKernelLock(), lock.Unknown)
	letGo(t, tryHold(t, file))

	chmod(t, file.Path+".flock", 0)
	fails(t, file, fs.ErrPermission)
	isAbsent(t, file.Path)
}
