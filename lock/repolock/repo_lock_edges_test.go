package repolock_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/repolock"
)

// What becomes of two holders elsewhere.

// TestRepoLock_LateUnlockLeavesSuccessor: the agency command's own unlock deletes it.
func TestRepoLock_LateUnlockLeavesSuccessor(t *testing.T) { // guards: S13
	for name, successor := range map[string]string{
		"of another program": `{"pid":1,"created_at":"2026-01-02T03:04:05Z","cmd":"successor"}`,
		"unreadable":         "garbage",
		"empty":              "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := repoLockPath(dir)
			unlock := lockRepo(t, repolock.NewRepoLock(dir), "late")
			check(t, os.Remove(path))
			putFile(t, path, []byte(successor), time.Time{})
			before := treeState(t, filepath.Dir(path))
			wantErr(t, unlock(), lock.ErrLost, "unlock")
			sameTree(t, before, treeState(t, filepath.Dir(path)))
			noErr(t, unlock(), "second unlock")
			sameTree(t, before, treeState(t, filepath.Dir(path)))
		})
	}
	t.Run("nothing", func(t *testing.T) {
		dir := t.TempDir()
		unlock := lockRepo(t, repolock.NewRepoLock(dir), "late")
		check(t, os.Remove(repoLockPath(dir)))
		wantErr(t, unlock(), lock.ErrLost, "unlock")
		next := lockRepo(t, repolock.NewRepoLock(dir), "next")
		check(t, next())
	})
	// The successor's file may have the inode, size and time that ours had:
	// inodes are used again at once (ext4), and times of files are as coarse as
	// 10 ms (Linux before 6.13).
	t.Run("in our old inode, at the same time", func(t *testing.T) {
		dir := t.TempDir()
		path := repoLockPath(dir)
		for range 20 {
			unlock := lockRepo(t, repolock.NewRepoLock(dir), "late")
			ours := must(os.Lstat(path))(t)
			check(t, os.Remove(path))
			putFile(t, path, []byte(strings.Repeat(" ", int(ours.Size()))), ours.ModTime())
			before := treeState(t, filepath.Dir(path))
			if err := unlock(); !errors.Is(err, lock.ErrLost) {
				t.Fatalf("unlock: %v, want ErrLost", err)
			}
			sameTree(t, before, treeState(t, filepath.Dir(path)))
			check(t, os.Remove(path))
		}
	})
	// A claim that was moved over ours, as reclaiming does it.
	t.Run("renamed over ours", func(t *testing.T) {
		dir := t.TempDir()
		path := repoLockPath(dir)
		unlock := lockRepo(t, repolock.NewRepoLock(dir), "late")
		putFile(t, path+".new", []byte(`{"pid":1,"created_at":"2026-01-02T03:04:05Z"}`), time.Time{})
		check(t, os.Rename(path+".new", path))
		before := treeState(t, filepath.Dir(path))
		wantErr(t, unlock(), lock.ErrLost, "unlock")
		sameTree(t, before, treeState(t, filepath.Dir(path)))
	})
}

// TestRepoLock_TouchedIsStillOurs: a backup program or a person who touches the
// file has not taken the lock.
func TestRepoLock_TouchedIsStillOurs(t *testing.T) {
	dir := t.TempDir()
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "push")
	then := time.Now().Add(-time.Hour)
	check(t, os.Chtimes(repoLockPath(dir), then, then))
	check(t, unlock())
	isAbsent(t, repoLockPath(dir))
}

func TestRepoLock_BadID(t *testing.T) {
	for _, id := range []string{
		"", ".", "..", "../../esc", "../esc", "a/b", "/", "/etc", "a/", "./a", `a\b`, `..\esc`, "a\x00b", "\x00",
		"a\nb", "a\tb", "\x1b[31mred", "a\x7fb", "a\u0085b", "\xff\xfe", strings.Repeat("x", 256), strings.Repeat("x", 1<<20),
	} {
		shown := fmt.Sprintf("%.20q", id)
		root := t.TempDir()
		data := filepath.Join(root, "a", "b", "data")
		check(t, os.MkdirAll(data, 0o755))
		before := treeState(t, root)
		unlock, err := repolock.NewRepoLock(data).Lock(id, "push")
		if unlock != nil || err == nil {
			t.Errorf("id %s was accepted", shown)
			continue
		}
		wantErr(t, err, lock.ErrInvalidName, "id", shown)
		that(t, !errors.As(err, new(*lock.LockedError)), "id %s: a bad id is not contention: %v", shown, err)
		sameTree(t, before, treeState(t, root))
	}
}

func TestRepoLock_GoodID(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"a", "...", "..a", "a.b", "-rf", "a b", "größe", "仓库", ".lock", "x.flock", "x.reclaim", "~", "$HOME", "*",
		strings.Repeat("x", 200)} {
		unlock, err := repolock.NewRepoLock(dir).Lock(id, "")
		if err != nil {
			t.Errorf("id %q: %v", id, err)
			continue
		}
		noErr(t, errOf(os.Lstat(filepath.Join(dir, "repos", id, ".lock"))))
		if err := unlock(); err != nil {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

// TestRepoLock_UncertainMeansAlive: what proves nothing is not a proof of death.
func TestRepoLock_UncertainMeansAlive(t *testing.T) { // guards: E7
	l := repolock.NewRepoLock(t.TempDir())
	for _, pid := range []int{0, -1, math.MinInt32} {
		that(t, l.IsPIDAlive(pid), "pid %d, which can't be asked for, is dead", pid)
	}
	// Process 1 always exists, and for most users may not be signalled.
	if runtime.GOOS == "windows" {
		return
	}
	that(t, l.IsPIDAlive(1), "pid 1 is dead")
	putClaim(t, repoLockPath(l.DataDir), evidence.Claim{PID: 1, CreatedAt: time.Now()})
	if locked := repoIsLocked(t, l); locked.State != evidence.Unknown {
		t.Errorf("state of pid 1 is %s, %q", locked.State, locked.Evidence)
	}
}

func TestRepoLock_ZeroValueWorks(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var l repolock.RepoLock
	unlock := lockRepo(t, l, "push")
	noErr(t, errOf(os.Lstat(filepath.Join(dir, "repos", repoID, ".lock"))))
	repoIsLocked(t, l)
	// The lock stays where it was taken.
	t.Chdir(t.TempDir())
	check(t, unlock())
	isAbsent(t, repoLockPath(dir))

	t.Chdir(dir)
	putClaim(t, repoLockPath(dir), evidence.Claim{PID: math.MaxInt32, CreatedAt: time.Now()})
	unlock = lockRepo(t, l, "over a dead one")
	repoIsOurs(t, dir, "over a dead one")
	check(t, unlock())

	// It has the default age, for garbage as well.
	putFile(t, repoLockPath(dir), []byte("garbage"), time.Now().Add(-lock.DefaultStaleAfter+time.Minute))
	repoIsLocked(t, repolock.RepoLock{DataDir: dir})
	putFile(t, repoLockPath(dir), []byte("garbage"), time.Now().Add(-lock.DefaultStaleAfter-time.Minute))
	check(t, lockRepo(t, repolock.RepoLock{DataDir: dir}, "over garbage")())
}

// TestRepoLock_NotALockFile: neither followed nor deleted, however old, and
// whatever is thought of pids.
func TestRepoLock_NotALockFile(t *testing.T) {
	old := time.Now().Add(-1000 * time.Hour)
	for name, put := range map[string]func(t *testing.T, path string){
		"empty directory": func(t *testing.T, path string) {
			check(t, os.Mkdir(path, 0o755))
			check(t, os.Chtimes(path, old, old))
		},
		"directory with a file": func(t *testing.T, path string) {
			putFile(t, filepath.Join(path, "precious"), []byte("data"), old)
		},
		"dangling symlink": func(t *testing.T, path string) {
			if err := os.Symlink(filepath.Join(filepath.Dir(path), "nowhere"), path); err != nil {
				t.Skip("needs symbolic links: ", err)
			}
		},
		"symlink to a dead claim": func(t *testing.T, path string) {
			target := filepath.Join(filepath.Dir(path), "elsewhere")
			putFile(t, target, []byte(`{"pid":2147483647,"created_at":"2020-01-02T03:04:05Z"}`), old)
			if err := os.Symlink(target, path); err != nil {
				t.Skip("needs symbolic links: ", err)
			}
		},
		"symlink to an old empty file": func(t *testing.T, path string) {
			target := filepath.Join(filepath.Dir(path), "elsewhere")
			putFile(t, target, nil, old)
			if err := os.Symlink(target, path); err != nil {
				t.Skip("needs symbolic links: ", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := repoLockPath(dir)
			check(t, os.MkdirAll(filepath.Dir(path), 0o755))
			put(t, path)
			l := withPIDs(dir, false)
			l.Now = func() time.Time { return time.Now().Add(100_000 * time.Hour) }
			if locked := repoIsLocked(t, l); locked.Evidence != evidence.NotALockFile || locked.Info != nil {
				t.Errorf("%q, %+v", locked.Evidence, locked.Info)
			}
		})
	}
}

// TestRepoLock_Clocks: the caller's clock is the one for ages and for what is written, and
// says nothing about the machine; one that was never set is none.
func TestRepoLock_Clocks(t *testing.T) { // guards: E6
	for _, now := range []time.Time{
		time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		l := repolock.NewRepoLock(t.TempDir())
		l.Now = func() time.Time { return now }
		for text, fresh := range map[string]string{"{}": "unreadable", "": "empty", `{"pid":1`: "half a claim"} {
			putFile(t, repoLockPath(l.DataDir), []byte(text), now.Add(-time.Minute))
			if locked := repoIsLocked(t, l); locked.State != evidence.Unknown {
				t.Errorf("%s, a minute old in %d: %+v", fresh, now.Year(), locked)
			}
			putFile(t, repoLockPath(l.DataDir), []byte(text), now.Add(-3*time.Hour))
			noErr(t, lockRepo(t, l, "push")())
		}
	}
	l := repolock.NewRepoLock(t.TempDir())
	l.Now = func() time.Time { return time.Time{} }
	unlock := lockRepo(t, l, "push")
	if locked := repoIsLocked(t, l); locked.Info == nil || time.Since(locked.Info.CreatedAt) > time.Hour {
		t.Errorf("a clock that was never set: %+v", locked.Info)
	}
	noErr(t, unlock())
}
