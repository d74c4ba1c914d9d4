package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// statuses are what List says of a folder.
func statuses(t *testing.T, dir string) (all []lock.Status) {
	t.Helper()
	for s, err := range lock.List(t.Context(), dir) {
		check(t, err)
		all = append(all, s)
	}
	return all
}

// listedPaths are the names of the locks in the folder, as List has them.
func listedPaths(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, s := range statuses(t, dir) {
		names = append(names, filepath.Base(s.Path))
	}
	return names
}

func putMode(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	putFile(t, path, []byte(content), time.Time{})
	check(t, os.Chmod(path, mode))
}

// onDisk are the things that may lie at a lock's path, with what Inspect says of each.
var onDisk = map[string]struct {
	put      func(t *testing.T, path string)
	state    evidence.State
	evidence evidence.Evidence
}{
	"nothing":         {func(*testing.T, string) {}, evidence.Free, evidence.NoLockFile},
	"empty":           {func(t *testing.T, path string) { putMode(t, path, "", 0o600) }, evidence.Unknown, evidence.Unreadable},
	"empty, marked":   {func(t *testing.T, path string) { putMode(t, path, "", 0o600|fs.ModeSticky) }, evidence.Dead, evidence.Incomplete},
	"partial":         {func(t *testing.T, path string) { putMode(t, path, `{"pid":12`, 0o600) }, evidence.Unknown, evidence.Unreadable},
	"partial, marked": {func(t *testing.T, path string) { putMode(t, path, `{"pid":12`, 0o600|fs.ModeSticky) }, evidence.Dead, evidence.Incomplete},
	"NULs": {func(t *testing.T, path string) {
		putFile(t, path, []byte("\x00\x00\x00"), time.Now().Add(-time.Minute)) // its maker may be at work for a second
	}, evidence.Dead, evidence.PowerLost},
	"dead claim": {putDeadClaim, evidence.Dead, evidence.ProcessGone},
	"another host's": {func(t *testing.T, path string) {
		putClaim(t, path, evidence.Claim{PID: 42, CreatedAt: time.Now(), Nonce: "N", Hostname: "elsewhere", BootID: "b"})
	}, evidence.Unknown, evidence.ForeignHost},
	"locked, and empty": {func(t *testing.T, path string) {
		f := must(lockFile(path, platform.Exclusive))(t)
		t.Cleanup(func() { f.Close() })
	}, evidence.Held, evidence.KernelLockHeld},
	"garbage": {func(t *testing.T, path string) { putMode(t, path, "garbage", 0o600) }, evidence.Unknown, evidence.NotALockFile},
	"garbage, marked": {func(t *testing.T, path string) { putMode(t, path, "garbage", 0o600|fs.ModeSticky) },
		evidence.Unknown, evidence.NotALockFile},
	"yarn.lock": {func(t *testing.T, path string) { putMode(t, path, "# yarn lockfile v1\n\n\nleft-pad@^1.3.0:\n", 0o644) },
		evidence.Unknown, evidence.NotALockFile},
	"flake.lock": {func(t *testing.T, path string) {
		putMode(t, path, `{"nodes":{"root":{}},"root":"root","version":7}`, 0o644)
	},
		evidence.Unknown, evidence.NotALockFile},
	"Cargo.lock": {func(t *testing.T, path string) { putMode(t, path, "version = 4\n\n[[package]]\nname = \"a\"\n", 0o644) },
		evidence.Unknown, evidence.NotALockFile},
	"filelock's": {func(t *testing.T, path string) { putMode(t, path, "4242\nhost\n99\n", 0o644) }, evidence.Unknown, evidence.NotALockFile},
	"sparse": {func(t *testing.T, path string) {
		putMode(t, path, "", 0o600)
		check(t, os.Truncate(path, 1<<30))
	}, evidence.Unknown, evidence.NotALockFile},
	"folder":  {func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) }, evidence.Unknown, evidence.NotALockFile},
	"symlink": {func(t *testing.T, path string) { check(t, os.Symlink("elsewhere", path)) }, evidence.Unknown, evidence.NotALockFile},
	"FIFO":    {func(t *testing.T, path string) { check(t, syscall.Mkfifo(path, 0o600)) }, evidence.Unknown, evidence.NotALockFile},
}

// TestList_AgreesWithInspect: what a folder's list says of a lock is what Inspect says; and all
// that Inspect takes for a lock is in the list, if its name or its sibling shows it for one.
func TestList_AgreesWithInspect(t *testing.T) {
	needsMarks(t)
	for what, thing := range onDisk {
		for _, name := range []string{"x.lock", "x"} {
			for _, sibling := range []bool{false, true} {
				dir := t.TempDir()
				f := lock.File{Path: filepath.Join(dir, name)}
				thing.put(t, f.Path)
				if sibling {
					putFile(t, f.Path+".flock", nil, time.Time{})
				}
				s := inspect(t, f)
				if s.State != thing.state || s.Evidence != thing.evidence {
					t.Errorf("%s: %s, %q; want %s, %q", what, s.State, s.Evidence, thing.state, thing.evidence)
				}
				want := sibling || name == "x.lock" && what != "nothing" && thing.evidence != evidence.NotALockFile
				got := statuses(t, dir)
				if want != (len(got) == 1) || len(got) > 1 {
					t.Errorf("%s at %s, with its sibling: %v: listed %d times, want %v", what, name, sibling, len(got), want)
				} else if want && (got[0].Path != s.Path || got[0].State != s.State || got[0].Evidence != s.Evidence) {
					t.Errorf("%s at %s: listed as %+v, and inspected as %+v", what, name, got[0], s)
				}
			}
		}
	}
}

// TestList_NotPermitted: what may not be read may be somebody's lock.
func TestList_NotPermitted(t *testing.T) {
	if !asNobody(t) {
		return
	}
	f := lock.File{Path: filepath.Join(t.TempDir(), "x.lock")}
	putMode(t, f.Path, deadClaim, 0)
	s := inspect(t, f)
	got := statuses(t, filepath.Dir(f.Path))
	if len(got) != 1 || got[0].State != s.State || got[0].Evidence != s.Evidence || s.Evidence != evidence.NotPermitted || !got[0].NotPermitted {
		t.Errorf("listed as %+v, and inspected as %+v", got, s)
	}
}

// TestList_WhileItWalks: a folder's files come and go behind its names.
func TestList_WhileItWalks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a.lock", "b.lock", "c.lock", "d.lock", "d.lock.d/e.lock"} {
		putFile(t, at(name), []byte(deadClaim), time.Time{})
	}
	putFile(t, at("d.lock.flock"), nil, time.Time{})
	var names []string
	for s, err := range lock.List(t.Context(), dir) {
		check(t, err)
		if len(names) == 0 { // by now it has the names
			check(t, os.Remove(at("b.lock")))                // released
			putFile(t, at("c.lock.flock"), nil, time.Time{}) // wanted by somebody
			check(t, os.Remove(at("d.lock.flock")))          // tidied away
		}
		names = append(names, filepath.Base(s.Path))
	}
	if want := []string{"a.lock", "c.lock", "d.lock", "e.lock"}; !slices.Equal(names, want) {
		t.Errorf("listed %v, want %v", names, want)
	}
	if got, want := listedPaths(t, dir), []string{"a.lock", "c.lock", "d.lock", "e.lock"}; !slices.Equal(got, want) {
		t.Errorf("then listed %v, want %v", got, want)
	}
}

// TestList_Errors: what can't be read is an error, and what lies behind it is listed; who has
// cancelled hears why, at the end.
func TestList_Errors(t *testing.T) {
	if !asNobody(t) {
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"a.lock", "b/b.lock", "c.lock"} {
		putFile(t, filepath.Join(dir, name), []byte(deadClaim), time.Time{})
	}
	check(t, os.Chmod(filepath.Join(dir, "b"), 0))
	defer os.Chmod(filepath.Join(dir, "b"), 0o700)
	var got []string
	for s, err := range lock.List(t.Context(), dir) {
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Error(err)
		}
		got = append(got, filepath.Base(s.Path))
	}
	if want := []string{"a.lock", "b", "c.lock"}; !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}

	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for _, err := range lock.List(ctx, dir) {
		cancel(why)
		last = err
	}
	equal(t, last, why, "cancelled: the last error")
}

// TestDir_TriesDoNotWait: neither of the two that only try.
func TestDir_TriesDoNotWait(t *testing.T) {
	key := lock.Key{Space: "s", Name: "n"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := lock.Dir{Path: t.TempDir()}
	holdKey(t, d, key)
	d.File.Observe = func(e lock.Event) {
		if e.Kind == lock.EventWaiting && e.Duration == 0 {
			t.Error("it waits")
			cancel()
		}
	}
	for _, try := range []func(context.Context, lock.Key) (lock.Hold, error){d.TryAcquire, d.TryAcquireShared} {
		_, err := try(ctx, key)
		asLocked(t, err)
	}
}

// TestDir_ListBySettings: what acquiring would take for a lock by the settings of the File is
// listed by them, though no sibling shows it for one.
func TestDir_ListBySettings(t *testing.T) {
	key := lock.Key{Space: "s", Name: "n"}
	for name, test := range map[string]struct {
		file    lock.File
		content string
		age     time.Duration
		want    evidence.State // "": it is not listed
	}{
		"empty":                       {lock.File{}, "", 0, evidence.Unknown},
		"empty, and aged":             {lock.File{StaleAfter: time.Hour}, "", 2 * time.Hour, evidence.Dead},
		"garbage":                     {lock.File{}, "garbage", 0, ""},
		"garbage, where age counts":   {lock.File{StaleAfter: time.Hour}, "garbage", 0, evidence.Unknown},
		"garbage, and aged":           {lock.File{StaleAfter: time.Hour}, "garbage", 2 * time.Hour, evidence.Dead},
		"another format":              {lock.File{Format: onlyPID}, "pid 1\n", 0, evidence.Held},
		"garbage, in another format":  {lock.File{Format: onlyPID}, "garbage", 0, ""},
		"ours, where another is read": {lock.File{Format: onlyPID}, deadClaim, 0, ""},
	} {
		d := lock.Dir{Path: t.TempDir(), File: test.file}
		f := must(d.At(key))(t)
		putFile(t, f.Path, []byte(test.content), time.Now().Add(-test.age))
		s := inspect(t, f)
		entries, errs := listed(d)
		if test.want == "" {
			if len(entries) != 0 || len(errs) != 0 || s.Evidence != evidence.NotALockFile {
				t.Errorf("%s: listed %+v, %v; inspected %+v", name, entries, errs, s)
			}
			continue
		}
		if len(errs) != 0 || len(entries) != 1 || entries[0].Key != key || entries[0].State != test.want || s.State != test.want || entries[0].Evidence != s.Evidence {
			t.Errorf("%s: listed %+v, %v; inspected %+v; want %s", name, entries, errs, s, test.want)
		}
	}
}

// onlyPID is a format of another program's: "pid 1".
var onlyPID = &lock.Format{Parse: func(data []byte) (evidence.Claim, error) {
	var pid int
	if _, err := fmt.Sscanf(string(data), "pid %d", &pid); err != nil {
		return evidence.Claim{}, err
	}
	return evidence.Claim{PID: pid, CreatedAt: time.Now()}, nil
}}
