package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"golang.org/x/sys/unix"
)

// A release that fails leaves nobody waiting, though no one has a handle to the lock any
// more.

// setAttribute gives a file or folder an attribute of chattr(1), and returns how to take it
// away. It needs root, and a filesystem that has them.
func setAttribute(t *testing.T, path string, attribute int) (reset func()) {
	t.Helper()
	f := must(os.Open(path))(t)
	set := func(flags int) error { return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags) }
	old, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = set(old | attribute)
	}
	if err != nil {
		f.Close()
		t.Skip("needs root, and a filesystem with attributes: ", err)
	}
	done := false
	reset = func() {
		if !done {
			done = true
			noErr(t, errors.Join(set(old), f.Close()))
		}
	}
	t.Cleanup(reset)
	return reset
}

// blockForms are those that have the only handle to a lock. Each calls obstruct while it
// holds the lock of f, or one of several.
var blockForms = map[string]func(t *testing.T, f lock.File, obstruct func()) error{
	"Do": func(t *testing.T, f lock.File, obstruct func()) error {
		return f.Do(t.Context(), func(context.Context, *lock.FileHold) error { obstruct(); return nil })
	},
	"TryDo": func(t *testing.T, f lock.File, obstruct func()) error {
		return second(f.TryDo(t.Context(), func(context.Context, *lock.FileHold) error { obstruct(); return nil }))
	},
	"Do that panics": func(t *testing.T, f lock.File, obstruct func()) error {
		defer func() { recover() }()
		return f.Do(t.Context(), func(context.Context, *lock.FileHold) error { obstruct(); panic("so") })
	},
	"AcquireAll": func(t *testing.T, f lock.File, obstruct func()) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		after := lock.File{Path: f.Path + "2"}.Park(func(string) { obstruct(); cancel() })
		_, err := lock.AcquireAll(ctx, f, after)
		return err
	},
	"cancel beats acquire": func(t *testing.T, f lock.File, obstruct func()) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return second(f.Park(func(step string) {
			if step == lock.StepClaimed {
				obstruct()
				cancel()
			}
		}).Acquire(ctx))
	},
}

// TestReleaseFails_SaysSo: the lock file can't be removed, as it, or its folder, is
// append-only, or its folder is read-only. The lock is free as soon as that is over,
// though the process that had it lives.
func TestReleaseFails_SaysSo(t *testing.T) { // guards: S14, E0
	needsAttributes(t)
	for what, obstruct := range map[string]func(t *testing.T, path string) (reset func()){
		"append-only file": func(t *testing.T, path string) func() {
			return setAttribute(t, path, unix.STATX_ATTR_APPEND)
		},
		"append-only folder": func(t *testing.T, path string) func() {
			return setAttribute(t, filepath.Dir(path), unix.STATX_ATTR_APPEND)
		},
	} {
		for name, block := range blockForms {
			t.Run(what+", "+name, func(t *testing.T) {
				f := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
				var reset func()
				err := block(t, f, func() {
					if reset == nil {
						reset = obstruct(t, f.Path)
					}
				})
				that(t, name == "Do that panics" || errors.Is(err, fs.ErrPermission), "error is %v", err)
				wantStatus(t, inspect(t, f), evidence.Dead, evidence.SaysReleased)
				reset()
				letGo(t, tryHold(t, f))
				isAbsent(t, f.Path)
			})
		}
	}
}

// TestReleaseFails_TriesAgain: where the file can't be changed either, it is removed as soon
// as that is over, by whom it belongs to, whom nobody has a handle to any more.
func TestReleaseFails_TriesAgain(t *testing.T) { // guards: S14
	f := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
	var reset func()
	err := f.Do(t.Context(), func(context.Context, *lock.FileHold) error {
		reset = setAttribute(t, f.Path, unix.STATX_ATTR_IMMUTABLE)
		return nil
	})
	wantErr(t, err, fs.ErrPermission)
	equal(t, notHad(t, f).Evidence, evidence.KernelLockHeld)
	waiter := beginAcquire(t, t.Context(), f)
	reset()
	letGo(t, getHeld(t, waiter))
	isAbsent(t, f.Path)
}

// TestReleaseFails_Often: however often it is tried by hand, one goroutine tries again.
func TestReleaseFails_Often(t *testing.T) {
	needsAttributes(t)
	f := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
	held := tryHold(t, f)
	reset := setAttribute(t, f.Path, unix.STATX_ATTR_IMMUTABLE)
	for range 3 {
		wantErr(t, held.Release(), fs.ErrPermission)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	own, _, _ := bytes.Cut(stacks, []byte(" [")) // "goroutine 7": other tests' may still be at it
	equal(t, bytes.Count(stacks, fmt.Appendf(nil, "FileHold).Release in %s\n", own)), 1, "goroutines try again")
	reset()
	letGo(t, held)
	letGo(t, tryHold(t, f)) // who tried just then may only have had the file say so
	wantFree(t, f.Path)
}

// TestReleaseFails_Marker: a reclaimer who can't remove its marker has it say so, and keeps
// nobody waiting, itself included.
func TestReleaseFails_Marker(t *testing.T) { // guards: S14
	needsAttributes(t)
	f := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
	leaveDeadClaim(t, f.Path)
	var reset func()
	_, err := f.Park(func(step string) {
		if step == lock.StepMarkerWritten {
			reset = setAttribute(t, filepath.Dir(f.Path), unix.STATX_ATTR_APPEND)
		}
	}).TryAcquire(t.Context())
	wantErr(t, err, fs.ErrPermission)
	getFile(t, f.Path+".reclaim")
	reset()
	letGo(t, tryHold(t, f))
	wantFree(t, f.Path)
}

// TestReleaseFails_Moved: a lock file that was renamed away is lost; under its new name it
// says so, and put back it is nobody's.
func TestReleaseFails_Moved(t *testing.T) { // guards: E0
	f := lock.File{Path: filepath.Join(t.TempDir(), "lock"), StaleAfter: -1}
	held := tryHold(t, f)
	check(t, os.Rename(f.Path, f.Path+".moved"))
	wantErr(t, held.Release(), lock.ErrLost, "release")
	check(t, os.Rename(f.Path+".moved", f.Path))
	equal(t, inspect(t, f).Evidence, evidence.SaysReleased)
	letGo(t, tryHold(t, f))
}

// TestReleaseFails_Update: the new contents stand, so it has not failed.
func TestReleaseFails_Update(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var reset func()
	err := lock.Update(t.Context(), path, func([]byte) ([]byte, error) {
		reset = setAttribute(t, path+".lock", unix.STATX_ATTR_APPEND)
		return []byte("new"), nil
	})
	if err != nil || string(getFile(t, path)) != "new" {
		t.Errorf("%v; the file has %q", err, getFile(t, path))
	}
	reset()
	noErr(t, lock.Update(t.Context(), path, func(old []byte) ([]byte, error) { return append(old, "er"...), nil }))
}

// needsAttributes skips before anything is held.
func needsAttributes(t *testing.T) {
	t.Helper()
	probe := filepath.Join(t.TempDir(), "probe")
	check(t, os.WriteFile(probe, nil, 0o600))
	setAttribute(t, probe, unix.STATX_ATTR_APPEND)()
}
