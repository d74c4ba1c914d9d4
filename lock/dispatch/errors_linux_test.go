package dispatch_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// wantSystemError is that an error is the system's, and no conflict.
func wantSystemError(t *testing.T, locks dispatch.Locks, want ...error) {
	t.Helper()
	claim, err := locks.Acquire(t.Context(), id)
	if err == nil {
		t.Errorf("claimed %+v", claim)
		release(t, claim, dispatch.OutcomeReleased)
		return
	}
	var conflict *dispatch.ConflictError
	that(t, !errors.As(err, &conflict), "%v is no conflict", err)
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	t.Errorf("error is %v, want one of %v", err, want)
}

// TestAcquire_NotPermittedIsNotDead: a process that may not be signalled lives. (The
// process with pid 1 is root's, and this one is nobody's.)
func TestAcquire_NotPermittedIsNotDead(t *testing.T) {
	testkit.NeedsRoot(t, "become somebody who may not signal another's process")
	if !testkit.AsNobody(t) {
		return
	}
	if err := syscall.Kill(1, 0); err != syscall.EPERM {
		t.Fatalf("kill(1, 0): %v, want %v", err, syscall.EPERM)
	}
	dir := t.TempDir()
	put(t, lockPath(dir), foreign(t, fields{"pid": 1}))
	c := conflict(t, dir)
	if c.Holder == nil || c.Holder.PID != 1 || c.Unwrap().(*lock.LockedError).Evidence != evidence.PIDExists {
		t.Errorf("%+v (%v)", c, c.Unwrap())
	}
	// The same one sees that nobody has another pid.
	put(t, lockPath(dir), foreign(t, nil))
	taken(t, dir)
}

// TestAcquire_InvalidID: an id that is no name of a file, or not like an id, is
// refused before anything is written.
func TestAcquire_InvalidID(t *testing.T) {
	anything := regexp.MustCompile(`(?s)^.*$`)
	for name, bad := range map[string]string{
		"empty": "", "dot": ".", "two dots": "..", "hidden": ".a", "a path": "a/b", "a path up": "../x", "absolute": "/x",
		"a path in the middle": "a/../b", "a slash behind": "a/",
		"NUL": "a\x00b", "newline": "a\nb", "newline behind": "a\n", "escape": "a\x1bb", "DEL": "a\x7fb", "C1": "a\u0085b",
		"not UTF-8": "a\xffb", "half a character": "a\xc3", "over-long": strings.Repeat("x", 129),
		"far over-long": strings.Repeat("x", 250), "a space": "a b", "a letter of another script": "ä",
		"a marker's name": "a.reclaim",
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "locks", "deep")
			for _, locks := range []dispatch.Locks{{Dir: dir}, {Dir: dir, ID: anything}} {
				if locks.ID != nil && (name == "over-long" || name == "a space" || name == "a letter of another script") {
					continue // where the caller allows them
				}
				claim, err := locks.Acquire(t.Context(), bad)
				var conflict *dispatch.ConflictError
				if !errors.Is(err, lock.ErrInvalidName) || errors.As(err, &conflict) {
					t.Errorf("%+v, %v; want %v", claim, err, lock.ErrInvalidName)
				}
				equal(t, contents(t, top), "", "written")
			}
		})
	}
}

// TestAcquire_ValidID: ids of all lengths and characters that are allowed, and those
// that only the caller's pattern allows.
func TestAcquire_ValidID(t *testing.T) {
	dir := t.TempDir()
	for good, pattern := range map[string]*regexp.Regexp{
		"x": nil, "X9": nil, "9": nil, "a.b-c_d": nil, "a..b": nil, "a.lock": nil, "a.lock.flock": nil,
		strings.Repeat("x", 128): nil,
		strings.Repeat("x", 200): regexp.MustCompile(`^x+$`),
		"a b":                    regexp.MustCompile(`^[a-z ]+$`),
		"ä":                      regexp.MustCompile(`^\pL+$`),
		`a\b<c>"d"`:              regexp.MustCompile(`^.*$`),
		"-x":                     regexp.MustCompile(`^.*$`),
	} {
		locks := dispatch.Locks{Dir: dir, ID: pattern}
		claim, err := locks.Acquire(t.Context(), good)
		if err != nil {
			t.Error(err)
			continue
		}
		that(t, claim.GardenID == good && claim.LockPath == filepath.Join(dir, good+".lock"), "%q: claimed %+v", good, claim)
		var conflict *dispatch.ConflictError
		if _, err := locks.Acquire(t.Context(), good); !errors.As(err, &conflict) || conflict.Holder == nil || conflict.Holder.GardenID != good {
			t.Errorf("%q: the second time: %v", good, err)
		}
		release(t, claim, dispatch.OutcomeReleased)
	}
}

// TestAcquire_IOErrorIsNoConflict: what the system refuses is told as that.
func TestAcquire_IOErrorIsNoConflict(t *testing.T) {
	if !testkit.AsNobody(t) {
		return
	}
	t.Run("a folder that can't be written", func(t *testing.T) {
		dir := t.TempDir()
		check(t, os.Chmod(dir, 0o555))
		wantSystemError(t, dispatch.Locks{Dir: dir}, fs.ErrPermission)
		wantSystemError(t, dispatch.Locks{Dir: filepath.Join(dir, "locks")}, fs.ErrPermission)
	})
	t.Run("a folder that can't be entered", func(t *testing.T) {
		dir := t.TempDir()
		check(t, os.Chmod(dir, 0))
		wantSystemError(t, dispatch.Locks{Dir: dir}, fs.ErrPermission)
		if err := os.Chmod(dir, 0o755); err != nil { // to be removed
			t.Fatal(err)
		}
	})
	t.Run("a file for a folder", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "file")
		put(t, dir, []byte("data"))
		wantSystemError(t, dispatch.Locks{Dir: dir}, syscall.ENOTDIR)
		wantSystemError(t, dispatch.Locks{Dir: filepath.Join(dir, "locks")}, syscall.ENOTDIR)
		equal(t, string(read(t, dir)), "data", "the file holds")
	})
	t.Run("a link to nothing for a folder", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "link")
		check(t, os.Symlink("nothing", dir))
		wantSystemError(t, dispatch.Locks{Dir: dir}, fs.ErrExist, fs.ErrNotExist)
	})
	t.Run("cancelled", func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		claim, err := dispatch.Locks{Dir: dir}.Acquire(ctx, id)
		var conflict *dispatch.ConflictError
		that(t, errors.Is(err, context.Canceled) && !errors.As(err, &conflict), "%+v, %v", claim, err)
		equal(t, contents(t, dir), "", "left behind")
	})
}

// TestAcquire_WriteFails: a claim that can't be written is removed again, and leaves
// the id free, or the dead claim as it was; no marker stays.
func TestAcquire_WriteFails(t *testing.T) {
	testkit.NeedsRoot(t, "mount a small filesystem")
	if !testkit.InChild(t, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}) {
		return
	}
	dir := t.TempDir()
	check(t, syscall.Mount("none", dir, "tmpfs", 0, "size=64k"))
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	locks := dispatch.Locks{Dir: dir}
	release(t, acquire(t, dir), dispatch.OutcomeReleased) // makes what is there for good
	dead := foreign(t, nil)
	for _, before := range [][]byte{nil, dead} {
		if before != nil {
			put(t, lockPath(dir), before)
		}
		filler := filepath.Join(dir, "filler")
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal("the disk is not full: ", err)
		}
		full := contents(t, dir)
		wantSystemError(t, locks, syscall.ENOSPC)
		if left := contents(t, dir); left != full {
			t.Errorf("left behind\n%.2000s", left)
		}
		check(t, os.Remove(filler))
		taken(t, dir)
	}
}

// TestRelease_Fails: a claim whose file can't be removed is given up all the same, and
// taken over by the next one who may.
func TestRelease_Fails(t *testing.T) {
	if !testkit.AsNobody(t) {
		return
	}
	dir := t.TempDir()
	claim := acquire(t, dir)
	check(t, os.Chmod(dir, 0o555))
	if outcome, err := claim.Release(); !errors.Is(err, fs.ErrPermission) || outcome != "" {
		t.Errorf("release: %q, %v", outcome, err)
	}
	release(t, claim, dispatch.OutcomeNotOwned)
	check(t, os.Chmod(dir, 0o755))
	equal(t, takenBy(t, dir), evidence.SaysReleased, "taken over by")
}
