//go:build linux

package lock_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// Rights.

func TestHostile_UnwritableFolder(t *testing.T) { // guards: H4
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
	check(t, os.Chmod(path, mode))
}

// TestHostile_ReleaseFails: a lock file that can't be removed keeps nobody waiting: it says
// that it was released.
func TestHostile_ReleaseFails(t *testing.T) { // guards: S14
	if !asNobody(t) {
		return
	}
	for mode, in := range modes {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			file := in(lock.File{Path: filepath.Join(dir, "lock")})
			held := tryHold(t, file)
			waiter := beginAcquire(t, t.Context(), file)
			chmod(t, dir, 0o500)
			err := held.Release()
			wantSystemError(t, err, fs.ErrPermission)
			that(t, !errors.Is(err, lock.ErrLost), "%v, but nothing is lost", err)
			noErr(t, held.Release(), "once more")
			// It can't be taken over either, as long as nobody may write the folder; and
			// nobody is said to have it.
			wantSystemError(t, get(t, waiter).err, fs.ErrPermission)
			wantStatus(t, inspect(t, file), evidence.Dead, evidence.SaysReleased)
			chmod(t, dir, 0o700)
			letGo(t, tryHold(t, file))
			isAbsent(t, file.Path)
			isAbsent(t, file.Path+".reclaim")
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
				if step == lock.StepOwned {
					os.Remove(file.Path)
				}
			}))
			wantErr(t, held.Release(), lock.ErrLost, "Release")
			isAbsent(t, file.Path+".reclaim")
			letGo(t, tryHold(t, file))
		})
	}
}

// TestHostile_UnreadableByRights: no right to read is no proof of anything, and no right
// to remove either.
func TestHostile_UnreadableByRights(t *testing.T) { // guards: E7
	if !asNobody(t) {
		return
	}
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock")}
	putDeadClaim(t, file.Path)
	aged := file.WithClock(func() time.Time { return time.Now().Add(1e6 * time.Hour) })
	aged.StaleAfter = 1
	for _, mode := range []fs.FileMode{0, 0o200, 0o200 | fs.ModeSticky} {
		chmod(t, file.Path, mode)
		for _, f := range []lock.File{file, aged, file.WithoutKernelLock()} {
			before := must(os.Lstat(file.Path))(t)
			if l := notHad(t, f); l.State != evidence.Unknown || l.Evidence != evidence.NotPermitted || l.Info != nil {
				t.Errorf("%+v", l)
			}
			wantStatus(t, inspect(t, f), evidence.Unknown, evidence.NotPermitted)
			if after, err := os.Lstat(file.Path); err != nil || !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
				t.Errorf("changed: %v, %v", after, err)
			}
		}
	}
	chmod(t, file.Path, 0o600)
	letGo(t, tryHold(t, file))

	chmod(t, file.Path+".flock", 0)
	fails(t, file, fs.ErrPermission)
	isAbsent(t, file.Path)
}

// TestOwnLock_Readable: at every step others can read what is there, as some protocols take
// half a claim for held, and a file that can't be read for an exception.
func TestOwnLock_Readable(t *testing.T) { // guards: S6
	if !asNobody(t) {
		return
	}
	path := filepath.Join(t.TempDir(), ".lock")
	putDeadClaim(t, path)
	seen := 0
	f := lock.File{Path: path}.Park(func(step string) {
		for _, path := range []string{path, path + ".reclaim"} {
			switch _, err := os.ReadFile(path); {
			case err == nil:
				seen++
			case !errors.Is(err, os.ErrNotExist):
				t.Errorf("%s: %v", step, err)
			}
		}
	})
	letGo(t, tryHold(t, f))
	that(t, seen >= 10, "read %d times", seen)
}
