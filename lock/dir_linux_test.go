package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// holdKey acquires a lock until the end of the test.
func holdKey(t *testing.T, d lock.Dir, key lock.Key) lock.Hold {
	t.Helper()
	held := must(d.TryAcquire(t.Context(), key))(t)
	t.Cleanup(func() { held.Release() })
	return held
}

// listed gives the locks, and the errors, of a Dir.
func listed(d lock.Dir) (all []lock.Status, errs []error) {
	for e, err := range d.List(context.Background()) {
		if err != nil {
			errs = append(errs, err)
		} else {
			all = append(all, e)
		}
	}
	return all, errs
}

func wantListed(t *testing.T, d lock.Dir, want ...lock.Key) []lock.Status {
	t.Helper()
	all, errs := listed(d)
	equal(t, len(errs), 0, errs)
	var keys []lock.Key
	for _, e := range all {
		keys = append(keys, e.Key)
	}
	if !slices.Equal(keys, want) {
		t.Fatalf("listed %q, want %q", keys, want)
	}
	return all
}

func TestDir_ListHeld(t *testing.T) {
	d := lock.Dir{Path: t.TempDir(), File: lock.File{Cmd: "mine"}}
	wantListed(t, d)
	a, b := lock.Key{Space: "a/b", Name: "../c"}, lock.Key{Space: "z", Name: "z"}
	held := holdKey(t, d, b)
	holdKey(t, d, a)
	e := wantListed(t, d, a, b)[1]
	if e.State != evidence.Held || e.Evidence != evidence.KernelLockHeld || e.Info == nil || e.Info.Nonce != held.Info().Nonce || e.Info.Cmd != "mine" {
		t.Errorf("listed as %+v of %+v", e, e.Info)
	}
	check(t, held.Release())
	wantListed(t, d, a)
}

// TestDir_ListByAnyName: of the folder.
func TestDir_ListByAnyName(t *testing.T) {
	parent := t.TempDir()
	t.Chdir(parent)
	check(t, os.MkdirAll("real/locks", 0o755))
	check(t, os.Symlink("real/locks", "link"))
	key := lock.Key{Space: "s", Name: "n"}
	holdKey(t, lock.Dir{Path: filepath.Join(parent, "real/locks")}, key)
	for _, path := range []string{
		"real/locks", "./real/locks", "real/locks/", "real//locks/.", "real/../real/locks", "link", "./link", "link/",
		parent + "/link", parent + "/real/locks/", parent + "/./real/locks",
	} {
		if held, err := (lock.Dir{Path: path}).TryAcquire(t.Context(), key); held != nil || !errors.As(err, new(*lock.LockedError)) {
			t.Errorf("%s: acquired %v, %v", path, held, err)
		}
		wantListed(t, lock.Dir{Path: path}, key)
	}
	t.Chdir("real/locks")
	wantListed(t, lock.Dir{Path: "."}, key)
	t.Chdir("s")
	wantListed(t, lock.Dir{Path: ".."}, key)
}

// TestDir_ListForeign: what is not the lock of a key is left out.
func TestDir_ListForeign(t *testing.T) {
	d := lock.Dir{Path: t.TempDir()}
	for _, file := range []string{
		"top.lock", "s/notes.txt", "s/name", "s/%2f.lock", "s/%41.lock", "s/.lock", "s/a b.lock", "s/a.lock.reclaim",
		"s/deep/er.lock", "s p/a.lock", ".git/index.lock", "s/%.lock", "s/a%2.lock",
	} {
		path := filepath.Join(d.Path, file)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		putDeadClaim(t, path)
		check(t, os.WriteFile(path+".flock", nil, 0o600))
	}
	wantListed(t, d)
	key := lock.Key{Space: "s", Name: "notes"}
	holdKey(t, d, key)
	wantListed(t, d, key)
}

func TestDir_ListDead(t *testing.T) {
	d := lock.Dir{Path: t.TempDir()}
	key := lock.Key{Space: "s", Name: "dead"}
	check(t, holdKey(t, d, key).Release())
	at := must(d.At(key))(t)
	c := start(t, "holder", at.Path)
	c.Do("try", "held")
	c.Kill()
	e := wantListed(t, d, key)[0]
	that(t, e.State == evidence.Dead && e.Info != nil && e.Info.PID == c.Cmd.Process.Pid, "listed as %+v of %+v", e, e.Info)
	check(t, holdKey(t, d, key).Release())
	wantListed(t, d)
}

// TestDir_ListWaiting: of each process, the first one who waits.
func TestDir_ListWaiting(t *testing.T) {
	needsKernelList(t)
	d := lock.Dir{Path: t.TempDir()}
	key, other := lock.Key{Space: "s", Name: "wanted"}, lock.Key{Space: "s", Name: "z"}
	at := must(d.At(key))(t)
	held := holdKey(t, d, key)
	holdKey(t, d, other)
	c := start(t, "member", at.Path)
	c.Do("acquire", "waiting")
	var all []lock.Status
	eventually(t, "who waits is listed", func() bool {
		all, _ = listed(d)
		return len(all) == 2 && len(all[0].Waiters) == 1
	})
	if s := all[0]; s.Key != key || s.Path != at.Path || s.State != evidence.Held || s.Info.PID != os.Getpid() || s.Waiters[0].PID != c.Cmd.Process.Pid {
		t.Errorf("listed as %+v, want pid %d waiting", s, c.Cmd.Process.Pid)
	}
	if s, err := d.Inspect(t.Context(), key); err != nil || s.Key != key || s.Path != at.Path || len(s.Waiters) != 1 {
		t.Errorf("inspected as %+v, %v", s, err)
	}
	check(t, held.Release())
	c.Expect("held")
	wantListed(t, d, key, other)
	c.Do("release", "released")
	wantListed(t, d, other)
}

// TestDir_ListJudgesAsAcquiring: by the settings of the File.
func TestDir_ListJudgesAsAcquiring(t *testing.T) {
	key := lock.Key{Space: "s", Name: "n"}
	put := func(d lock.Dir, claim string, age time.Duration) {
		t.Helper()
		if err := holdKey(t, d, key).Release(); err != nil { // makes the sibling
			t.Fatal(err)
		}
		at, _ := d.At(key)
		check(t, os.WriteFile(at.Path, []byte(claim), 0o600))
		then := time.Now().Add(-age)
		check(t, os.Chtimes(at.Path, then, then))
	}
	// A bare claim of a process that began later proves nothing but by its age.
	claim := func(age time.Duration) string {
		return fmt.Sprintf(`{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().Add(-age).UTC().Format(time.RFC3339))
	}
	for after, want := range map[time.Duration]evidence.State{0: evidence.Unknown, time.Minute: evidence.Dead, -1: evidence.Unknown} {
		d := lock.Dir{Path: t.TempDir(), File: lock.File{StaleAfter: after}}
		put(d, claim(time.Hour), time.Hour)
		if e := wantListed(t, d, key)[0]; e.State != want {
			t.Errorf("StaleAfter %v: %s (%s), want %s", after, e.State, e.Evidence, want)
		}
		held, err := d.TryAcquire(t.Context(), key)
		if acquired := err == nil; acquired != (want == evidence.Dead) {
			t.Errorf("StaleAfter %v: acquired %v, and listed as %s", after, err, want)
		}
		if held != nil {
			held.Release()
		}
	}
	// Another program's format.
	d := lock.Dir{Path: t.TempDir(), File: lock.File{StaleAfter: -1, Format: &lock.Format{Parse: func(data []byte) (evidence.Claim, error) {
		if !strings.HasPrefix(string(data), "pid 1") {
			return evidence.Claim{}, errors.New("not ours")
		}
		return evidence.Claim{PID: os.Getpid(), CreatedAt: time.Unix(1e9, 0), Cmd: "parsed"}, nil
	}}}}
	at, _ := d.At(key)
	check(t, os.Mkdir(filepath.Dir(at.Path), 0o755))
	for _, path := range []string{at.Path, at.Path + ".flock"} {
		check(t, os.WriteFile(path, []byte("pid 1\n"), 0o600))
	}
	if e := wantListed(t, d, key)[0]; e.Info == nil || e.Info.Cmd != "parsed" || e.State != evidence.Unknown {
		t.Errorf("listed as %+v of %+v", e, e.Info)
	}
}

func TestDir_ListErrors(t *testing.T) {
	if entries, errs := listed(lock.Dir{Path: filepath.Join(t.TempDir(), "missing")}); len(entries) != 0 || len(errs) != 0 {
		t.Errorf("a folder that is not there yet: %v, %v", entries, errs)
	}
	_, errs := listed(lock.Dir{Path: filepath.Join(t.TempDir(), "missing", "locks")})
	that(t, len(errs) == 1 && errors.Is(errs[0], fs.ErrNotExist), "a folder that is nowhere: %v", errs)
	t.Chdir(t.TempDir())
	if entries, errs := listed(lock.Dir{}); len(entries) != 0 || len(errs) != 1 || !errors.Is(errs[0], lock.ErrInvalidName) {
		t.Errorf("no folder: %v, %v", entries, errs)
	}
}

// TestDir_Hostile: no key leads out of the folder.
func TestDir_Hostile(t *testing.T) { // guards: H3
	parent := t.TempDir()
	d := lock.Dir{Path: filepath.Join(parent, "locks")}
	check(t, os.Mkdir(d.Path, 0o755))
	texts := []string{"..", "../..", "../../x", "/tmp", "/", "a/../../..", "\x00", "x\x00/..", ".", "~", "$HOME", strings.Repeat("../", 20)}
	for _, space := range texts {
		for _, name := range texts {
			held := holdKey(t, d, lock.Key{Space: space, Name: name})
			if below, err := filepath.Rel(d.Path, held.(*lock.FileHold).Path()); err != nil || !filepath.IsLocal(below) {
				t.Errorf("%q, %q: the lock file is at %s (%v)", space, name, below, err)
			}
			noErr(t, held.Release())
		}
	}
	equal(t, names(t, parent), "locks", "beside the folder")
	files, err := filepath.Glob(filepath.Join(d.Path, "*", "*"))
	that(t, err == nil && len(files) == 0, "left behind: %v (%v)", files, err)
}

// TestDir_Makes: the README's Dir works as pasted, by its own methods and by At: what is
// its own is made, and nothing above, and nothing by looking.
func TestDir_Makes(t *testing.T) {
	key := lock.Key{Space: "agent", Name: "7"}
	for name, acquire := range map[string]func(lock.Dir) (lock.Hold, error){
		"Dir": func(d lock.Dir) (lock.Hold, error) { return d.Acquire(t.Context(), key) },
		"At": func(d lock.Dir) (lock.Hold, error) {
			f, err := d.At(key)
			if err != nil {
				return nil, err
			}
			before := names(t, ".")
			if s, err := f.Inspect(t.Context()); err != nil || s.State != evidence.Free || !filepath.IsAbs(s.Path) {
				t.Errorf("before the folder: %+v, %v", s, err)
			}
			equal(t, must(f.Break(t.Context()))(t).State, evidence.Free, "before the folder")
			equal(t, names(t, "."), before, "looking made")
			return sharing(f).Acquire(t.Context())
		},
		"Do": func(d lock.Dir) (lock.Hold, error) {
			if err := lock.Do(t.Context(), d, key, func(context.Context, lock.Hold) error { return nil }); err != nil {
				return nil, err
			}
			return d.TryAcquireShared(t.Context(), key)
		},
		"AcquireAll": func(d lock.Dir) (lock.Hold, error) {
			f, err := d.At(key)
			if err != nil {
				return nil, err
			}
			set, err := lock.AcquireAll(t.Context(), f)
			if err != nil {
				return nil, err
			}
			return set.Held()[0], nil
		},
	} {
		t.Chdir(t.TempDir())
		held, err := acquire(lock.Dir{Path: "locks"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantListed(t, lock.Dir{Path: "locks"}, key)
		noErr(t, held.Release())
		if _, err := acquire(lock.Dir{Path: "absent/locks"}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make it first") {
			t.Errorf("%s: without the folder above: %v", name, err)
		}
		equal(t, names(t, "."), "locks", name, "made")
	}
}

// TestMissingFolder: the error of a path that leads nowhere says what to do, and not which
// call has failed.
func TestMissingFolder(t *testing.T) { // guards: S1
	t.Chdir(t.TempDir())
	ctx := t.Context()
	f := lock.File{Path: "absent/a.lock"}
	moved := must(lock.Dir{Path: "locks"}.At(lock.Key{Space: "s", Name: "n"}))(t)
	moved.Path = f.Path // it is no File of a Dir any more
	for name, do := range map[string]func() error{
		"Acquire":          func() error { _, err := f.Acquire(ctx); return err },
		"TryAcquire":       func() error { _, err := f.TryAcquire(ctx); return err },
		"TryAcquireShared": func() error { _, err := sharing(f).TryAcquire(ctx); return err },
		"Inspect":          func() error { _, err := f.Inspect(ctx); return err },
		"Break":            func() error { _, err := f.Break(ctx); return err },
		"BreakForce":       func() error { _, err := f.BreakForce(ctx, "N"); return err },
		"AcquireAll":       func() error { _, err := lock.AcquireAll(ctx, f, lock.File{Path: "b.lock"}); return err },
		"Do":               func() error { return f.Do(ctx, func(context.Context, *lock.FileHold) error { return nil }) },
		"Update": func() error {
			return lock.Update(ctx, "absent/a", func([]byte) ([]byte, error) { return nil, nil })
		},
		"a File of Dir with another Path": func() error { _, err := moved.TryAcquire(ctx); return err },
	} {
		err := do()
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make it first") || strings.Contains(err.Error(), "stat") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := names(t, "."); strings.Contains(got, "absent") {
		t.Errorf("made: %s", got)
	}
}

// TestDir_Folders: nothing is made for a key that is refused.
func TestDir_Folders(t *testing.T) {
	d := lock.Dir{Path: t.TempDir()}
	for _, key := range []lock.Key{{}, {Space: "s"}, {Name: "n"}, {Space: "s", Name: strings.Repeat("n", 255)}} {
		if held, err := d.TryAcquire(t.Context(), key); held != nil || !errors.Is(err, lock.ErrInvalidName) {
			t.Errorf("%q: %v, %v", key, held, err)
		}
	}
	equal(t, names(t, d.Path), "", "made")
	check(t, os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o600))
	if held, err := d.TryAcquire(t.Context(), lock.Key{Space: "file", Name: "n"}); err == nil {
		t.Errorf("a space that is a file: %v", held)
	}
}

func TestDir_Shared(t *testing.T) {
	d := lock.Dir{Path: t.TempDir()}
	key := lock.Key{Space: "s", Name: "n"}
	one := must(d.AcquireShared(t.Context(), key))(t)
	other := must(d.TryAcquireShared(t.Context(), key))(t)
	readers := 2
	if _, err := platform.ListKernelLocks(); err != nil {
		readers = 0 // the one that the claim names
	}
	if s := wantListed(t, d, key)[0]; !s.Shared || s.Info == nil || s.Info.Mode != "shared" || len(s.Processes) != readers {
		t.Errorf("listed as %+v of %+v", s, s.Info)
	}
	if held, err := d.TryAcquire(t.Context(), key); held != nil || !errors.As(err, new(*lock.LockedError)) {
		t.Errorf("a writer beside readers: %v, %v", held, err)
	}
	for _, held := range []lock.Hold{one, other} {
		noErr(t, held.Release())
	}
	wantListed(t, d)
}
