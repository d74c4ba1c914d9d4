//go:build linux

package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// TestHostile_Sibling: what is planted in the sibling's place is neither followed
// nor waited for. It is no contention, and no lack of kernel locks either: to go
// on without would let two holders in.
func TestHostile_Sibling(t *testing.T) { // guards: W6, H1
	for what := range intruders {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			file := lock.File{Path: filepath.Join(dir, "lock")}
			put(t, what, file.Path+".flock")
			kinds := []error{platform.ErrNotRegular, syscall.ELOOP, syscall.EISDIR, syscall.ENXIO}
			untouched(t, dir, func() { fails(t, file, kinds...) })
			untouched(t, dir, func() {
				_, err := file.Acquire(context.Background())
				wantSystemError(t, err, kinds...)
			})
			// Looking does not wait either, whatever it finds.
			untouched(t, dir, func() {
				if status, err := file.Inspect(context.Background()); err == nil && status.State == evidence.Held {
					t.Errorf("Inspect: %+v", status)
				}
			})
			putClaim(t, file.Path, evidence.Claim{PID: 2147483647, CreatedAt: time.Now()})
			untouched(t, dir, func() { fails(t, file, kinds...) })
			untouched(t, dir, func() { file.Inspect(context.Background()) })
		})
	}
}

// TestHostile_SiblingWhileHeld: the holder comes to no harm, nor does what was
// planted.
func TestHostile_SiblingWhileHeld(t *testing.T) {
	for what := range intruders {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			file := lock.File{Path: filepath.Join(dir, "lock")}
			held := tryHold(t, file)
			defer held.Release() // of a test that is skipped
			check(t, os.Remove(file.Path+".flock"))
			put(t, what, file.Path+".flock")
			untouched(t, dir, func() {
				if fence, err := held.Fence(); err == nil {
					t.Errorf("fence %d was kept in a %s", fence, what)
				}
			})
			before := treeState(t, dir, "lock")
			promptly(t, "Release", func() {
				noErr(t, held.Release())
			})
			sameTree(t, before, treeState(t, dir, "lock"))
			isAbsent(t, file.Path)
		})
	}
}

// TestHostile_SiblingReplaced: between the opening of the sibling and its lock
// somebody puts another file in its place. Who locked the old one has nothing.
func TestHostile_SiblingReplaced(t *testing.T) { // guards: B5
	replace := func(path string) {
		noErr(t, errors.Join(os.WriteFile(path+".new", nil, 0o600), os.Rename(path+".new", path)))
	}
	t.Run("once", func(t *testing.T) {
		file := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
		times := 0
		held := tryHold(t, file.Park(func(step string) {
			if step == lock.StepSiblingLocked {
				if times++; times == 1 {
					replace(file.Path + ".flock")
				}
			}
		}))
		defer letGo(t, held)
		that(t, times == 2, "locked %d times, want 2", times)
		equal(t, peek(file.Path+".flock"), platform.ErrBusy, "the sibling's kernel lock")
	})
	t.Run("by somebody who has the lock now", func(t *testing.T) {
		file := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
		var quick *lock.FileHold
		slow := file.Park(func(step string) {
			if step == lock.StepSiblingLocked && quick == nil {
				replace(file.Path + ".flock")
				quick = tryHold(t, file)
			}
		})
		if l := notHad(t, slow); l.Info == nil || l.Info.Nonce != quick.Info().Nonce {
			t.Errorf("holder is %+v", l.Info)
		}
		letGo(t, quick)
	})
	t.Run("again and again", func(t *testing.T) {
		dir := t.TempDir()
		file := lock.File{Path: filepath.Join(dir, "lock")}
		_, err := file.Park(func(step string) {
			if step == lock.StepSiblingLocked {
				replace(file.Path + ".flock")
			}
		}).TryAcquire(context.Background())
		if err == nil {
			t.Fatal("the lock was had")
		}
		that(t, !errors.As(err, new(*lock.LockedError)) && strings.Contains(err.Error(), ".flock"), "error is %v", err)
		isAbsent(t, file.Path)
		equal(t, openBelow(t, dir), "", "open files")
	})
}

// TestHostile_SiblingContent: whatever is in the sibling stays there.
func TestHostile_SiblingContent(t *testing.T) {
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock")}
	putFile(t, file.Path+".flock", []byte("somebody's"), time.Now().Add(-time.Hour))
	check(t, os.Truncate(file.Path+".flock", 1<<30))
	untouched(t, dir, func() { letGo(t, tryHold(t, file)) })
}

// TestHostile_SiblingContent_Fallback: so it does for a holder without kernel locks, who opens it
// anew each time, and keeps it open at none.
func TestHostile_SiblingContent_Fallback(t *testing.T) {
	file := fallbackFile(t)
	dir := filepath.Dir(file.Path)
	held := tryHold(t, file)
	putFile(t, file.Path+".flock", []byte("somebody's"), time.Now().Add(-time.Hour))
	untouched(t, dir, func() {
		that(t, held.Note("x") != nil, "noted in somebody's data")
		if fence, err := held.Fence(); err == nil {
			t.Errorf("fence %d was kept in somebody's data", fence)
		}
	})
	letGo(t, held)
	equal(t, openBelow(t, dir), "", "open files")
}

// TestHostile_Marker: as for the lock file.
func TestHostile_Marker(t *testing.T) { // guards: H1
	for what := range intruders {
		for mode, in := range modes {
			t.Run(what+", "+mode, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "lock")
				putClaim(t, path, evidence.Claim{PID: 2147483647, CreatedAt: time.Unix(0, 0)})
				put(t, what, path+".reclaim")
				for _, file := range []lock.File{
					{Path: path},
					lock.File{Path: path, StaleAfter: 1}.WithClock(func() time.Time { return time.Now().Add(10_000 * time.Hour) }),
				} {
					untouched(t, dir, func() {
						_, err := in(file).TryAcquire(context.Background())
						if l := asLocked(t, err); l.Evidence != evidence.BeingReclaimed || l.Path != path {
							t.Errorf("%+v", l)
						}
					})
				}
			})
		}
	}
}
