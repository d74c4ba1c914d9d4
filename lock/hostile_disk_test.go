//go:build linux

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// Space and other limits.

// cannotWrite checks all that acquiring can be at when nothing can be written
// any more. dir has lock files of the dead already.
func cannotWrite(t *testing.T, want error, files ...lock.File) {
	t.Helper()
	for mode, in := range modes {
		for _, file := range files {
			file = in(file)
			dir, name := filepath.Dir(file.Path), filepath.Base(file.Path)
			before, open := treeState(t, dir), openBelow(t, dir)
			promptly(t, "TryAcquire", func() { fails(t, file, want) })
			promptly(t, "Acquire", func() {
				_, err := file.Acquire(context.Background())
				wantSystemError(t, err, want)
			})
			after := treeState(t, dir)
			if name == "marked" {
				// The dead marker may be gone by now. Nothing else.
				delete(before, "marked.reclaim")
				delete(after, "marked.reclaim")
			}
			sameTree(t, before, after)
			if now := openBelow(t, dir); now != open {
				t.Errorf("%s, %s: open files were %q, and are %q", name, mode, open, now)
			}
			if k, err := lockFile(file.Path+".flock", platform.Exclusive); err != nil {
				t.Errorf("%s, %s: the kernel lock is left: %v", name, mode, err)
			} else if err := k.Close(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatalf("so with %s, %s", name, mode)
			}
		}
	}
}

func threeLocks(t *testing.T, dir string) (free, dead, marked lock.File) {
	t.Helper()
	free, dead, marked = lock.File{Path: filepath.Join(dir, "free")}, lock.File{Path: filepath.Join(dir, "dead")}, lock.File{Path: filepath.Join(dir, "marked")}
	putDeadClaim(t, dead.Path)
	putDeadClaim(t, marked.Path)
	putDeadClaim(t, marked.Path+".reclaim")
	for _, f := range []lock.File{free, dead, marked} {
		putFile(t, f.Path+".flock", nil, time.Time{})
	}
	return free, dead, marked
}

func canWriteAgain(t *testing.T, files ...lock.File) {
	t.Helper()
	for _, file := range files {
		for mode, in := range modes {
			held, err := in(file).TryAcquire(context.Background())
			if err != nil {
				t.Errorf("%s, %s: %v", file.Path, mode, err)
				continue
			}
			letGo(t, held)
		}
	}
}

// TestHostile_WriteFails needs no rights: a limit on the size of files.
func TestHostile_WriteFails(t *testing.T) { // guards: S6
	if !inChild(t, &syscall.SysProcAttr{}) {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	for _, size := range []uint64{0, 1, 40} { // bytes of the claim that can be written
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			free, dead, marked := threeLocks(t, t.TempDir())
			unlimited := setLimit(t, syscall.RLIMIT_FSIZE, size)
			cannotWrite(t, syscall.EFBIG, free, dead, marked)
			unlimited()
			canWriteAgain(t, free, dead, marked)

			// A holder is not harmed.
			for mode, in := range modes {
				file := in(free)
				held := tryHold(t, file)
				unlimited = setLimit(t, syscall.RLIMIT_FSIZE, size)
				const fenceEnd = 2 + 20 + 1
				if fence, err := held.Fence(); size < fenceEnd && !errors.Is(err, syscall.EFBIG) {
					t.Errorf("%s: fence %d, %v", mode, fence, err)
				}
				err := held.Release() // in fallback mode that takes a marker
				if mode == "fallback" {
					wantSystemError(t, err, syscall.EFBIG)
				} else if err != nil {
					t.Error(err)
				}
				unlimited()
				if mode == "fallback" {
					if fence, err := held.Fence(); err != nil || fence == 0 {
						t.Errorf("fence, asked for again: %d, %v", fence, err)
					}
				}
				letGo(t, held)
				isAbsent(t, file.Path)
				isAbsent(t, file.Path+".reclaim")
			}
		})
	}
}

func TestHostile_DiskFull(t *testing.T) { // guards: H4
	if !withMounts(t) {
		return
	}
	dir := mount(t, "tmpfs", "size=64k")
	free, dead, marked := threeLocks(t, dir)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	check(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	filler.Close()
	// (To remove a dead marker makes room for one's own.)
	cannotWrite(t, syscall.ENOSPC, free, dead)
	check(t, os.Remove(filler.Name()))
	canWriteAgain(t, free, dead, marked)
}

// TestHostile_NoInodes: not even an empty file can be made: not the sibling, and
// then not the lock file.
func TestHostile_NoInodes(t *testing.T) { // guards: H4
	if !withMounts(t) {
		return
	}
	for mode, in := range modes {
		failures := 0
		for inodes := 2; inodes < 6; inodes++ {
			dir := mount(t, "tmpfs", fmt.Sprintf("size=64k,nr_inodes=%d", inodes))
			putDeadClaim(t, filepath.Join(dir, "lock"))
			file := in(lock.File{Path: filepath.Join(dir, "lock")})
			held, err := file.TryAcquire(context.Background())
			if err == nil {
				letGo(t, held)
				continue
			}
			failures++
			wantSystemError(t, err, syscall.ENOSPC)
			equal(t, string(getFile(t, file.Path)), deadClaim, "the dead claim was changed")
			isAbsent(t, file.Path+".reclaim")
			equal(t, openBelow(t, dir), "", "open files")
		}
		that(t, failures != 0, "%s: nothing failed", mode)
	}
}

func TestHostile_ReadOnlyFilesystem(t *testing.T) { // guards: H4
	if !withMounts(t) {
		return
	}
	dir := mount(t, "tmpfs", "size=64k")
	free, dead, marked := threeLocks(t, dir)
	bare := lock.File{Path: filepath.Join(dir, "bare")} // without a sibling
	remount := func(flags uintptr) {
		t.Helper()
		check(t, syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""))
	}
	remount(syscall.MS_RDONLY)
	before := treeState(t, dir)
	for mode, in := range modes {
		for file, state := range map[*lock.File]evidence.State{&free: evidence.Free, &dead: evidence.Dead, &marked: evidence.Dead, &bare: evidence.Free} {
			promptly(t, "it", func() {
				fails(t, in(*file), syscall.EROFS)
				_, err := in(*file).Acquire(context.Background())
				wantSystemError(t, err, syscall.EROFS)
				equal(t, must(in(*file).Inspect(context.Background()))(t).State, state, file.Path, mode)
			})
		}
	}
	sameTree(t, before, treeState(t, dir))
	equal(t, openBelow(t, dir), "", "open files")
	remount(0)
	canWriteAgain(t, free, dead, marked, bare)
}
