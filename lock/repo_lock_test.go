package lock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// The seed's interface, to the letter: this does not build when it changes.
var (
	_ = lock.RepoLock{
		DataDir:    "",
		StaleAfter: time.Duration(0),
		Now:        func() time.Time { return time.Time{} },
		IsPIDAlive: func(pid int) bool { return true },
	}
	_ = lock.LockInfo{PID: int(0), CreatedAt: time.Time{}, Cmd: ""}
	_ = lock.ErrLocked{RepoID: "", Info: (*lock.LockInfo)(nil), Path: ""}

	_ func(dataDir string) lock.RepoLock                                                  = lock.NewRepoLock
	_ func(l lock.RepoLock, repoID string, cmd string) (unlock func() error, err error)   = lock.RepoLock.Lock
	_ error                                                                               = (*lock.ErrLocked)(nil)
	_ func(l lock.RepoLock) (string, time.Duration, func() time.Time, func(pid int) bool) = func(l lock.RepoLock) (string, time.Duration, func() time.Time, func(pid int) bool) {
		return l.DataDir, l.StaleAfter, l.Now, l.IsPIDAlive
	}
)

const repoID = "ana-repo"

func repoLockPath(dataDir string) string { return filepath.Join(dataDir, "repos", repoID, ".lock") }

// withPIDs gives a locker whose check on pids always answers alike.
func withPIDs(dataDir string, alive bool) lock.RepoLock {
	l := lock.NewRepoLock(dataDir)
	l.IsPIDAlive = func(int) bool { return alive }
	return l
}

func lockRepo(t *testing.T, l lock.RepoLock, cmd string) (unlock func() error) {
	t.Helper()
	unlock, err := l.Lock(repoID, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}

// repoIsLocked checks that the lock is refused, and that nothing changed by it.
func repoIsLocked(t *testing.T, l lock.RepoLock) *lock.ErrLocked {
	t.Helper()
	dir := filepath.Dir(repoLockPath(l.DataDir))
	before := treeState(t, dir, ".lock.flock")
	unlock, err := l.Lock(repoID, "second")
	if unlock != nil {
		t.Error("there is an unlock function with the error")
	}
	locked := asLocked(t, err)
	if locked.RepoID != repoID {
		t.Errorf("RepoID is %q, want %q", locked.RepoID, repoID)
	}
	sameTree(t, before, treeState(t, dir, ".lock.flock"))
	return locked
}

// repoIsOurs checks that the lock file names this process.
func repoIsOurs(t *testing.T, dataDir, cmd string) {
	t.Helper()
	if claim := getClaim(t, repoLockPath(dataDir)); claim.PID != os.Getpid() || claim.Cmd != cmd {
		t.Errorf("lock file says %+v", claim)
	}
}

func TestRepoLock_Defaults(t *testing.T) {
	l := lock.NewRepoLock("data")
	if l.DataDir != "data" || l.StaleAfter != 2*time.Hour || l.Now == nil || l.IsPIDAlive == nil {
		t.Errorf("defaults are %+v", l)
	}
	if now := l.Now(); time.Since(now).Abs() > patience {
		t.Errorf("Now says %s", now)
	}
	if !l.IsPIDAlive(os.Getpid()) {
		t.Error("this process is not alive")
	}
	if l.IsPIDAlive(math.MaxInt32) {
		t.Error("a process has a pid that none can have")
	}
}

// The tests that the seed lists.

func TestRepoLock_WritesLockFile(t *testing.T) {
	for _, cmd := range []string{"push", ""} {
		t.Run(fmt.Sprintf("cmd %q", cmd), func(t *testing.T) {
			dir := t.TempDir()
			l := lock.NewRepoLock(dir)
			now := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 7200))
			l.Now = func() time.Time { return now }
			unlock := lockRepo(t, l, cmd)
			defer unlock()

			// The path is written out: it is part of the contract.
			path := dir + string(filepath.Separator) + "repos" + string(filepath.Separator) + repoID + string(filepath.Separator) + ".lock"
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if !info.Mode().IsRegular() {
				t.Errorf("lock file is a %v", info.Mode())
			}
			if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("lock file has mode %v, want 0600", info.Mode())
			}
			var got map[string]any
			if err := json.Unmarshal(getFile(t, path), &got); err != nil {
				t.Fatal(err)
			}
			if got["pid"] != float64(os.Getpid()) {
				t.Errorf("pid is %v, want %d", got["pid"], os.Getpid())
			}
			created, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["created_at"]))
			if err != nil || !created.Equal(now) {
				t.Errorf("created_at is %v, want %s (%v)", got["created_at"], now, err)
			}
			if kept, ok := got["cmd"]; ok != (cmd != "") || ok && kept != cmd {
				t.Errorf("cmd is %v, want %q", kept, cmd)
			}
		})
	}
}

func TestRepoLock_ErrLockedOnContention(t *testing.T) {
	dir := t.TempDir()
	unlock := lockRepo(t, lock.NewRepoLock(dir), "push")
	locked := repoIsLocked(t, lock.NewRepoLock(dir))
	if locked.Info == nil || locked.Info.PID != os.Getpid() || locked.Info.Cmd != "push" {
		t.Errorf("Info is %+v", locked.Info)
	}
	if locked.Path != repoLockPath(dir) {
		t.Errorf("Path is %q, want %q", locked.Path, repoLockPath(dir))
	}
	if locked.Verdict != lock.Alive || locked.Evidence != lock.KernelLockHeld {
		t.Errorf("verdict is %s, %q", locked.Verdict, locked.Evidence)
	}
	for _, part := range []string{repoLockPath(dir), repoID, fmt.Sprint(os.Getpid()), "push", locked.Info.CreatedAt.Format(time.RFC3339),
		string(lock.KernelLockHeld), "wait for it"} {
		if !strings.Contains(locked.Error(), part) {
			t.Errorf("message %q does not say %q", locked, part)
		}
	}
	repoIsOurs(t, dir, "push")

	// Another repository is another lock.
	other, err := lock.NewRepoLock(dir).Lock("another", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other(), unlock()); err != nil {
		t.Fatal(err)
	}
	again := lockRepo(t, lock.NewRepoLock(dir), "")
	if err := again(); err != nil {
		t.Fatal(err)
	}
}

func TestRepoLock_StaleByDeadPIDSteals(t *testing.T) {
	for name, created := range map[string]time.Time{
		"old":    time.Now().Add(-24 * time.Hour),
		"recent": time.Now(),
		"future": time.Now().Add(24 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			putClaim(t, repoLockPath(dir), lock.LockInfo{PID: 999999, CreatedAt: created, Cmd: "dead"})
			unlock := lockRepo(t, withPIDs(dir, false), "push")
			repoIsOurs(t, dir, "push")
			if err := unlock(); err != nil {
				t.Fatal(err)
			}
			isAbsent(t, repoLockPath(dir))
		})
	}
	t.Run("asks about that pid, and believes the answer", func(t *testing.T) {
		dir := t.TempDir()
		putClaim(t, repoLockPath(dir), lock.LockInfo{PID: 999999, CreatedAt: time.Now()})
		l := lock.NewRepoLock(dir)
		asked := 0
		l.IsPIDAlive = func(pid int) bool { asked = pid; return true }
		repoIsLocked(t, l)
		if asked != 999999 {
			t.Errorf("asked about pid %d", asked)
		}
	})
	t.Run("by the system's own check", func(t *testing.T) {
		dir := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run=^$")
		if err := child.Run(); err != nil {
			t.Fatal(err)
		}
		putClaim(t, repoLockPath(dir), lock.LockInfo{PID: child.Process.Pid, CreatedAt: time.Now()})
		unlock := lockRepo(t, lock.NewRepoLock(dir), "push")
		defer unlock()
		repoIsOurs(t, dir, "push")
	})
}

func TestRepoLock_StaleByAgeSteals(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name       string
		staleAfter time.Duration
		age        time.Duration
		steals     bool
	}{
		{"a second older", 2 * time.Hour, 2*time.Hour + time.Second, true},
		{"exactly that old", 2 * time.Hour, 2 * time.Hour, false},
		{"a second younger", 2 * time.Hour, 2*time.Hour - time.Second, false},
		{"a second older than another limit", time.Minute, time.Minute + time.Second, true},
		{"0 means two hours: older", 0, 2*time.Hour + time.Second, true},
		{"0 means two hours: younger", 0, 2*time.Hour - time.Second, false},
		{"negative means never", -1, 100_000 * time.Hour, false},
		{"from the future", 2 * time.Hour, -24 * time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			claim := lock.LockInfo{PID: os.Getpid(), CreatedAt: now.Add(-test.age), Cmd: "slow"}
			putClaim(t, repoLockPath(dir), claim)
			l := withPIDs(dir, true)
			l.Now = func() time.Time { return now }
			l.StaleAfter = test.staleAfter
			if test.steals {
				unlock := lockRepo(t, l, "push")
				defer unlock()
				repoIsOurs(t, dir, "push")
				return
			}
			locked := repoIsLocked(t, l)
			if locked.Info == nil || !sameClaim(*locked.Info, claim) {
				t.Errorf("Info is %+v, want %+v", locked.Info, claim)
			}
		})
	}
}

// unreadable are files that say nothing, so that only their time counts.
var unreadable = map[string]string{
	"garbage":           "\x00\x01garbage",
	"empty":             "",
	"object":            "{}",
	"null":              "null",
	"negative pid":      `{"pid":-5,"created_at":"2020-01-02T03:04:05Z"}`,
	"pid 0":             `{"pid":0,"created_at":"2020-01-02T03:04:05Z"}`,
	"no created_at":     `{"pid":999999,"cmd":"push"}`,
	"created_at broken": `{"pid":999999,"created_at":"tomorrow"}`,
	"partial":           `{"pid":999999,"created_at":"2020-`,
}

func TestRepoLock_UnreadableRecentIsLocked(t *testing.T) {
	for name, content := range unreadable {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := withPIDs(dir, false) // a pid that nobody has must not be asked for
			putFile(t, repoLockPath(dir), []byte(content), time.Now())
			if locked := repoIsLocked(t, l); locked.Info != nil || locked.Verdict != lock.Unknown {
				t.Errorf("Info is %+v, verdict %s", locked.Info, locked.Verdict)
			}
			l.StaleAfter = -1
			l.Now = func() time.Time { return time.Now().Add(100_000 * time.Hour) }
			repoIsLocked(t, l)
		})
	}
}

func TestRepoLock_UnreadableOldSteals(t *testing.T) {
	now := time.Now()
	for name, content := range unreadable {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := withPIDs(dir, true)
			l.Now = func() time.Time { return now }
			putFile(t, repoLockPath(dir), []byte(content), now.Add(-l.StaleAfter-time.Second))
			unlock := lockRepo(t, l, "push")
			defer unlock()
			repoIsOurs(t, dir, "push")
		})
		// The same by the locker's clock, in case the machine has only just
		// started, which is evidence of its own.
		t.Run(name+", later", func(t *testing.T) {
			dir := t.TempDir()
			l := withPIDs(dir, true)
			putFile(t, repoLockPath(dir), []byte(content), now)
			l.Now = func() time.Time { return now.Add(l.StaleAfter - time.Second) }
			repoIsLocked(t, l)
			l.Now = func() time.Time { return now.Add(l.StaleAfter + time.Second) }
			unlock := lockRepo(t, l, "push")
			defer unlock()
			repoIsOurs(t, dir, "push")
		})
	}
}

func TestRepoLock_UnlockIdempotent(t *testing.T) {
	dir := t.TempDir()
	unlock := lockRepo(t, lock.NewRepoLock(dir), "push")
	for i := range 3 {
		if err := unlock(); err != nil {
			t.Fatalf("unlock %d: %v", i+1, err)
		}
		isAbsent(t, repoLockPath(dir))
	}
	// A second unlock is nothing to the next holder.
	next := lockRepo(t, lock.NewRepoLock(dir), "next")
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	repoIsOurs(t, dir, "next")
	repoIsLocked(t, lock.NewRepoLock(dir))
	if err := next(); err != nil {
		t.Fatal(err)
	}
}

func TestRepoLock_ParentDirCreation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet", "there")
	unlock := lockRepo(t, lock.NewRepoLock(dir), "push")
	info, err := os.Stat(filepath.Join(dir, "repos", repoID))
	if err != nil || !info.IsDir() {
		t.Fatalf("no folder (%v)", err)
	}
	repoIsOurs(t, dir, "push")
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "repos", repoID)); err != nil {
		t.Errorf("unlock removed the folder: %v", err)
	}
}

func TestRepoLock_ConcurrentLockReturnsErrLocked(t *testing.T) {
	dir := t.TempDir()
	unlock := lockRepo(t, lock.NewRepoLock(dir), "a")
	defer unlock()
	result := make(chan error)
	go func() {
		_, err := lock.NewRepoLock(dir).Lock(repoID, "b")
		result <- err
	}()
	select {
	case err := <-result:
		asLocked(t, err)
	case <-time.After(patience):
		t.Fatal("Lock waits")
	}
}

// What became of other implementations of the seed.

// TestRepoLock_LateUnlockLeavesSuccessor: the seed's own implementation deletes it.
func TestRepoLock_LateUnlockLeavesSuccessor(t *testing.T) {
	for name, successor := range map[string]string{
		"of another program": `{"pid":1,"created_at":"2026-01-02T03:04:05Z","cmd":"successor"}`,
		"unreadable":         "garbage",
		"empty":              "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := repoLockPath(dir)
			unlock := lockRepo(t, lock.NewRepoLock(dir), "late")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			putFile(t, path, []byte(successor), time.Time{})
			before := treeState(t, filepath.Dir(path))
			if err := unlock(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("unlock: %v, want ErrLost", err)
			}
			sameTree(t, before, treeState(t, filepath.Dir(path)))
			if err := unlock(); err != nil {
				t.Errorf("second unlock: %v", err)
			}
			sameTree(t, before, treeState(t, filepath.Dir(path)))
		})
	}
	t.Run("nothing", func(t *testing.T) {
		dir := t.TempDir()
		unlock := lockRepo(t, lock.NewRepoLock(dir), "late")
		if err := os.Remove(repoLockPath(dir)); err != nil {
			t.Fatal(err)
		}
		if err := unlock(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("unlock: %v, want ErrLost", err)
		}
		next := lockRepo(t, lock.NewRepoLock(dir), "next")
		if err := next(); err != nil {
			t.Fatal(err)
		}
	})
	// The successor's file may have the inode, size and time that ours had:
	// inodes are used again at once (ext4), and times of files are as coarse as
	// 10 ms (Linux before 6.13).
	t.Run("in our old inode, at the same time", func(t *testing.T) {
		dir := t.TempDir()
		path := repoLockPath(dir)
		for range 20 {
			unlock := lockRepo(t, lock.NewRepoLock(dir), "late")
			ours, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			putFile(t, path, []byte(strings.Repeat(" ", int(ours.Size()))), ours.ModTime())
			before := treeState(t, filepath.Dir(path))
			if err := unlock(); !errors.Is(err, lock.ErrLost) {
				t.Fatalf("unlock: %v, want ErrLost", err)
			}
			sameTree(t, before, treeState(t, filepath.Dir(path)))
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	})
	// A claim that was moved over ours, as reclaiming does it.
	t.Run("renamed over ours", func(t *testing.T) {
		dir := t.TempDir()
		path := repoLockPath(dir)
		unlock := lockRepo(t, lock.NewRepoLock(dir), "late")
		putFile(t, path+".new", []byte(`{"pid":1,"created_at":"2026-01-02T03:04:05Z"}`), time.Time{})
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		before := treeState(t, filepath.Dir(path))
		if err := unlock(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("unlock: %v, want ErrLost", err)
		}
		sameTree(t, before, treeState(t, filepath.Dir(path)))
	})
}

// TestRepoLock_TouchedIsStillOurs: a backup program or a person who touches the
// file has not taken the lock.
func TestRepoLock_TouchedIsStillOurs(t *testing.T) {
	dir := t.TempDir()
	unlock := lockRepo(t, lock.NewRepoLock(dir), "push")
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(repoLockPath(dir), then, then); err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
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
		if err := os.MkdirAll(data, 0o755); err != nil {
			t.Fatal(err)
		}
		before := treeState(t, root)
		unlock, err := lock.NewRepoLock(data).Lock(id, "push")
		if unlock != nil || err == nil {
			t.Errorf("id %s was accepted", shown)
			continue
		}
		if !errors.Is(err, lock.ErrInvalidName) {
			t.Errorf("id %s: error is %v, want ErrInvalidName", shown, err)
		}
		if locked := new(lock.ErrLocked); errors.As(err, &locked) {
			t.Errorf("id %s: a bad id is not contention: %v", shown, err)
		}
		sameTree(t, before, treeState(t, root))
	}
}

func TestRepoLock_GoodID(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"a", "...", "..a", "a.b", "-rf", "a b", "größe", "仓库", ".lock", "x.flock", "x.reclaim", "~", "$HOME", "*",
		strings.Repeat("x", 200)} {
		unlock, err := lock.NewRepoLock(dir).Lock(id, "")
		if err != nil {
			t.Errorf("id %q: %v", id, err)
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, "repos", id, ".lock")); err != nil {
			t.Error(err)
		}
		if err := unlock(); err != nil {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

// TestRepoLock_UncertainMeansAlive: what proves nothing is not a proof of death.
func TestRepoLock_UncertainMeansAlive(t *testing.T) {
	l := lock.NewRepoLock(t.TempDir())
	for _, pid := range []int{0, -1, math.MinInt32} {
		if !l.IsPIDAlive(pid) {
			t.Errorf("pid %d, which can't be asked for, is dead", pid)
		}
	}
	// Process 1 always exists, and for most users may not be signalled.
	if runtime.GOOS == "windows" {
		return
	}
	if !l.IsPIDAlive(1) {
		t.Error("pid 1 is dead")
	}
	putClaim(t, repoLockPath(l.DataDir), lock.LockInfo{PID: 1, CreatedAt: time.Now()})
	if locked := repoIsLocked(t, l); locked.Verdict != lock.Unknown {
		t.Errorf("verdict on pid 1 is %s, %q", locked.Verdict, locked.Evidence)
	}
}

func TestRepoLock_ZeroValueWorks(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var l lock.RepoLock
	unlock := lockRepo(t, l, "push")
	if _, err := os.Lstat(filepath.Join(dir, "repos", repoID, ".lock")); err != nil {
		t.Error(err)
	}
	repoIsLocked(t, l)
	// The lock stays where it was taken.
	t.Chdir(t.TempDir())
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	isAbsent(t, repoLockPath(dir))

	t.Chdir(dir)
	putClaim(t, repoLockPath(dir), lock.LockInfo{PID: math.MaxInt32, CreatedAt: time.Now()})
	unlock = lockRepo(t, l, "over a dead one")
	repoIsOurs(t, dir, "over a dead one")
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

// TestRepoLock_NotALockFile: neither followed nor deleted, however old, and
// whatever is thought of pids.
func TestRepoLock_NotALockFile(t *testing.T) {
	old := time.Now().Add(-1000 * time.Hour)
	for name, put := range map[string]func(t *testing.T, path string){
		"empty directory": func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
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
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, path)
			l := withPIDs(dir, false)
			l.Now = func() time.Time { return time.Now().Add(100_000 * time.Hour) }
			if locked := repoIsLocked(t, l); locked.Evidence != lock.NotALockFile || locked.Info != nil {
				t.Errorf("%q, %+v", locked.Evidence, locked.Info)
			}
		})
	}
}

// TestRepoLock_RemoveIsTiedToTheFileRead: between the judgement of a dead claim
// and its removal somebody else reclaims the lock. (The seed's own
// implementation then deletes the new holder's lock.)
func TestRepoLock_RemoveIsTiedToTheFileRead(t *testing.T) {
	for name, successor := range map[string]string{
		"of another program": `{"pid":1,"created_at":"2026-01-02T03:04:05Z","cmd":"successor"}`,
		"same size":          `{"pid":999998,"created_at":"2020-01-02T03:04:05Z"}`,
		"empty":              "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := repoLockPath(dir)
			putFile(t, path, []byte(`{"pid":999999,"created_at":"2020-01-02T03:04:05Z"}`), time.Time{})
			l := lock.NewRepoLock(dir)
			l.StaleAfter = -1
			var before map[string]fileState
			l.IsPIDAlive = func(pid int) bool {
				if pid != 999999 {
					return true
				}
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
				putFile(t, path, []byte(successor), time.Time{})
				before = treeState(t, filepath.Dir(path))
				return false
			}
			_, err := l.Lock(repoID, "push")
			asLocked(t, err)
			if before == nil {
				t.Fatal("the pid was not asked for")
			}
			sameTree(t, before, treeState(t, filepath.Dir(path)))
		})
	}
}

// TestRepoLock_FreshFileInOldInode: an unreadable file was judged by its time,
// and then replaced by one that is just as empty, with the same inode: its
// holder is about to write into it.
func TestRepoLock_FreshFileInOldInode(t *testing.T) {
	swapped := 0
	for call := 1; call <= 12; call++ {
		dir := t.TempDir()
		path := repoLockPath(dir)
		old := time.Now().Add(-3 * time.Hour)
		putFile(t, path, nil, old)
		l := lock.NewRepoLock(dir)
		calls, fresh := 0, false
		l.Now = func() time.Time {
			// Like any other participant, only while the dead one's file is there.
			if calls++; calls == call {
				if info, err := os.Lstat(path); err == nil && info.ModTime().Before(old.Add(time.Hour)) {
					fresh = os.Chtimes(path, time.Now(), time.Now()) == nil
				}
			}
			return time.Now()
		}
		unlock, err := l.Lock(repoID, "push")
		if !fresh {
			if err != nil {
				t.Fatal(err)
			}
			unlock()
			continue
		}
		swapped++
		if err == nil {
			t.Errorf("call %d: took over a file that was not the one judged", call)
			unlock()
			continue
		}
		asLocked(t, err)
		if data := getFile(t, path); len(data) != 0 {
			t.Errorf("call %d: the fresh file has %q", call, data)
		}
	}
	if swapped < 2 {
		t.Errorf("replaced the file in %d runs: look for other moments", swapped)
	}
}

// Where the seed and the kernel's proof disagree, the proof wins.

func TestRepoLock_LiveHolderIsNeverStolenFrom(t *testing.T) {
	dir := t.TempDir()
	path := repoLockPath(dir)
	unlock := lockRepo(t, lock.NewRepoLock(dir), "slow")
	thief := withPIDs(dir, false)
	thief.StaleAfter = time.Nanosecond
	thief.Now = func() time.Time { return time.Now().Add(100_000 * time.Hour) }
	if locked := repoIsLocked(t, thief); locked.Evidence != lock.KernelLockHeld {
		t.Errorf("evidence is %q", locked.Evidence)
	}
	repoIsOurs(t, dir, "slow")

	// With the kernel's proof taken away, the process is still proof enough.
	if err := os.Remove(path + ".flock"); err != nil {
		t.Fatal(err)
	}
	if locked := repoIsLocked(t, thief); locked.Evidence != lock.SameProcess {
		t.Errorf("without the sibling: evidence is %q", locked.Evidence)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	isAbsent(t, path)
}

func TestRepoLock_KernelLockAloneKeepsOthersOut(t *testing.T) {
	dir := t.TempDir()
	path := repoLockPath(dir)
	unlock := lockRepo(t, lock.NewRepoLock(dir), "robbed")
	// The lock file says that a dead process has the lock, for a long time.
	putFile(t, path, []byte(`{"pid":999999,"created_at":"2020-01-02T03:04:05Z"}`), time.Time{})
	if locked := repoIsLocked(t, withPIDs(dir, false)); locked.Verdict != lock.Alive || locked.Evidence != lock.KernelLockHeld {
		t.Errorf("verdict is %s, %q", locked.Verdict, locked.Evidence)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if locked := repoIsLocked(t, withPIDs(dir, false)); locked.Info != nil {
		t.Errorf("Info is %+v", locked.Info)
	}
	if err := unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("unlock: %v, want ErrLost", err)
	}
	next := lockRepo(t, lock.NewRepoLock(dir), "next")
	if err := next(); err != nil {
		t.Fatal(err)
	}
}

// TestRepoLock_OtherProgramsAreHonoured: a claim as any program that follows the
// seed writes it.
func TestRepoLock_OtherProgramsAreHonoured(t *testing.T) {
	now := time.Now()
	claim := lock.LockInfo{PID: os.Getpid(), CreatedAt: now.Add(-time.Hour), Cmd: "other"}
	for name, encode := range map[string]func(lock.LockInfo) string{
		"compact": func(c lock.LockInfo) string {
			return fmt.Sprintf(`{"pid":%d,"created_at":%q,"cmd":%q}`, c.PID, c.CreatedAt.Format(time.RFC3339Nano), c.Cmd)
		},
		"indented, with a newline": func(c lock.LockInfo) string {
			data, _ := json.MarshalIndent(c, "", "\t")
			return string(data) + "\n"
		},
		"in another zone, seconds only, further fields": func(c lock.LockInfo) string {
			at := c.CreatedAt.In(time.FixedZone("", -5*3600)).Format(time.RFC3339)
			return fmt.Sprintf(`{"user":"ana","created_at":%q,"cmd":%q,"pid":%d,"tags":["a",{}]}`, at, c.Cmd, c.PID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := repoLockPath(dir)
			l := lock.NewRepoLock(dir)

			putFile(t, path, []byte(encode(claim)), time.Time{})
			locked := repoIsLocked(t, l)
			if locked.Info == nil || locked.Info.PID != claim.PID || locked.Info.Cmd != "other" {
				t.Errorf("Info is %+v", locked.Info)
			}
			if locked.Verdict != lock.Unknown || locked.Evidence != lock.PIDExists {
				t.Errorf("verdict is %s, %q", locked.Verdict, locked.Evidence)
			}

			// Stale when it is older than StaleAfter, though the pid is alive,
			old := claim
			old.CreatedAt = now.Add(-2*time.Hour - time.Minute)
			putFile(t, path, []byte(encode(old)), time.Time{})
			lockRepo(t, l, "by age")()

			// and when its pid is not alive.
			dead := claim
			dead.PID = math.MaxInt32
			putFile(t, path, []byte(encode(dead)), time.Time{})
			lockRepo(t, l, "by pid")()
			isAbsent(t, path)
		})
	}
}

// TestRepoLock_OtherProgramsSeeUs: with nothing but O_EXCL and the seed's three
// fields, another program finds us, and is kept out.
func TestRepoLock_OtherProgramsSeeUs(t *testing.T) {
	dir := t.TempDir()
	unlock := lockRepo(t, lock.NewRepoLock(dir), "push")
	if f, err := os.OpenFile(repoLockPath(dir), os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
		f.Close()
		t.Errorf("O_EXCL: %v", err)
	}
	var theirs struct {
		PID       int       `json:"pid"`
		CreatedAt time.Time `json:"created_at"`
		Cmd       string    `json:"cmd,omitempty"`
	}
	if err := json.Unmarshal(getFile(t, repoLockPath(dir)), &theirs); err != nil {
		t.Fatal(err)
	}
	if theirs.PID != os.Getpid() || theirs.Cmd != "push" || time.Since(theirs.CreatedAt).Abs() > patience {
		t.Errorf("they read %+v", theirs)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	isAbsent(t, repoLockPath(dir))
}

// TestRepoLock_FolderInTheWay: an error of the system is not contention.
func TestRepoLock_FolderInTheWay(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "repos"), []byte("a file"), time.Time{})
	before := treeState(t, dir)
	_, err := lock.NewRepoLock(dir).Lock(repoID, "push")
	var path *fs.PathError
	if !errors.As(err, &path) {
		t.Errorf("error is %v, want the system's", err)
	}
	if locked := new(lock.ErrLocked); errors.As(err, &locked) {
		t.Errorf("error is %v, which is not contention", err)
	}
	sameTree(t, before, treeState(t, dir))
}

// TestRepoLock_SeedFieldsComeFirst: the seed's fields come first and
// keep their order, so that their JSON does too.
func TestRepoLock_SeedFieldsComeFirst(t *testing.T) {
	info := reflect.TypeFor[lock.LockInfo]()
	for i, want := range []string{`PID json:"pid"`, `CreatedAt json:"created_at"`, `Cmd json:"cmd,omitempty"`} {
		if f := info.Field(i); f.Name+" "+string(f.Tag) != want {
			t.Errorf("field %d is %s %s, want %s", i, f.Name, f.Tag, want)
		}
	}
}
