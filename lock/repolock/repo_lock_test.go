package repolock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/repolock"
)

// The agency command's interface, to the letter: this does not build when it changes.
var (
	_ = repolock.RepoLock{
		DataDir:    "",
		StaleAfter: time.Duration(0),
		Now:        func() time.Time { return time.Time{} },
		IsPIDAlive: func(pid int) bool { return true },
	}
	_ = repolock.LockInfo{int(0), time.Time{}, string("")}
	_ = repolock.ErrLocked{RepoID: "", Info: (*repolock.LockInfo)(nil), Path: ""}

	_ func(dataDir string) repolock.RepoLock                                                  = repolock.NewRepoLock
	_ func(l repolock.RepoLock, repoID string, cmd string) (unlock func() error, err error)   = repolock.RepoLock.Lock
	_ error                                                                                   = (*repolock.ErrLocked)(nil)
	_ func(l repolock.RepoLock) (string, time.Duration, func() time.Time, func(pid int) bool) = func(l repolock.RepoLock) (string, time.Duration, func() time.Time, func(pid int) bool) {
		return l.DataDir, l.StaleAfter, l.Now, l.IsPIDAlive
	}
)

const repoID = "ana-repo"

func repoLockPath(dataDir string) string { return filepath.Join(dataDir, "repos", repoID, ".lock") }

// withPIDs gives a locker whose check on pids always answers alike.
func withPIDs(dataDir string, alive bool) repolock.RepoLock {
	l := repolock.NewRepoLock(dataDir)
	l.IsPIDAlive = func(int) bool { return alive }
	return l
}

func lockRepo(t *testing.T, l repolock.RepoLock, cmd string) (unlock func() error) {
	t.Helper()
	return must(l.Lock(repoID, cmd))(t)
}

// repoIsLocked checks that the lock is refused, and that nothing changed by it.
func repoIsLocked(t *testing.T, l repolock.RepoLock) *lock.LockedError {
	t.Helper()
	dir := filepath.Dir(repoLockPath(l.DataDir))
	before := treeState(t, dir, ".lock.flock")
	unlock, err := l.Lock(repoID, "second")
	that(t, unlock == nil, "there is an unlock function with the error")
	locked := asLocked(t, err)
	if own := (*repolock.ErrLocked)(nil); !errors.As(err, &own) || own.RepoID != repoID || !sameInfo(own.Info, locked.Info) || own.Path != locked.Path ||
		!strings.Contains(own.Error(), repoID) || !strings.Contains(own.Error(), locked.Error()) {
		t.Errorf("the error is %#v, %[1]v", own)
	}
	sameTree(t, before, treeState(t, dir, ".lock.flock"))
	return locked
}

func sameInfo(info *repolock.LockInfo, claim *evidence.Claim) bool {
	if info == nil || claim == nil {
		return info == nil && claim == nil
	}
	return *info == repolock.LockInfo{PID: claim.PID, CreatedAt: claim.CreatedAt, Cmd: claim.Cmd}
}

// repoIsOurs checks that the lock file names this process.
func repoIsOurs(t *testing.T, dataDir, cmd string) {
	t.Helper()
	if claim := getClaim(t, repoLockPath(dataDir)); claim.PID != os.Getpid() || claim.Cmd != cmd {
		t.Errorf("lock file says %+v", claim)
	}
}

func TestRepoLock_Defaults(t *testing.T) {
	l := repolock.NewRepoLock("data")
	if l.DataDir != "data" || l.StaleAfter != 2*time.Hour || l.Now == nil || l.IsPIDAlive == nil || l.PIDAlone {
		t.Errorf("defaults are %+v", l)
	}
	if now := l.Now(); time.Since(now).Abs() > patience {
		t.Errorf("Now says %s", now)
	}
	that(t, l.IsPIDAlive(os.Getpid()), "this process is not alive")
	that(t, !l.IsPIDAlive(math.MaxInt32), "a process has a pid that none can have")
}

// The tests that the agency command lists.

func TestRepoLock_WritesLockFile(t *testing.T) {
	for _, cmd := range []string{"push", ""} {
		t.Run(fmt.Sprintf("cmd %q", cmd), func(t *testing.T) {
			dir := t.TempDir()
			l := repolock.NewRepoLock(dir)
			now := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 7200))
			l.Now = func() time.Time { return now }
			unlock := lockRepo(t, l, cmd)
			defer unlock()

			// The path is written out: it is part of the contract.
			path := dir + string(filepath.Separator) + "repos" + string(filepath.Separator) + repoID + string(filepath.Separator) + ".lock"
			info := must(os.Lstat(path))(t)
			if !info.Mode().IsRegular() {
				t.Errorf("lock file is a %v", info.Mode())
			}
			if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("lock file has mode %v, want 0600", info.Mode())
			}
			var got map[string]any
			check(t, json.Unmarshal(getFile(t, path), &got))
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
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "push")
	locked := repoIsLocked(t, repolock.NewRepoLock(dir))
	that(t, locked.Info != nil && locked.Info.PID == os.Getpid() && locked.Info.Cmd == "push", "Info is %+v", locked.Info)
	equal(t, locked.Path, repoLockPath(dir), "Path")
	if locked.State != evidence.Held || locked.Evidence != evidence.KernelLockHeld {
		t.Errorf("state is %s, %q", locked.State, locked.Evidence)
	}
	for _, part := range []string{repoLockPath(dir), repoID, fmt.Sprint(os.Getpid()), "push", locked.Info.CreatedAt.Format(time.RFC3339),
		string(evidence.KernelLockHeld), "wait for it"} {
		that(t, strings.Contains(locked.Error(), part), "message %q does not say %q", locked, part)
	}
	repoIsOurs(t, dir, "push")

	// Another repository is another lock.
	other := must(repolock.NewRepoLock(dir).Lock("another", ""))(t)
	check(t, errors.Join(other(), unlock()))
	again := lockRepo(t, repolock.NewRepoLock(dir), "")
	check(t, again())
}

func TestRepoLock_StaleByDeadPIDSteals(t *testing.T) {
	for name, created := range map[string]time.Time{
		"old":    time.Now().Add(-24 * time.Hour),
		"recent": time.Now(),
		"future": time.Now().Add(24 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			putClaim(t, repoLockPath(dir), evidence.Claim{PID: 999999, CreatedAt: created, Cmd: "dead"})
			unlock := lockRepo(t, withPIDs(dir, false), "push")
			repoIsOurs(t, dir, "push")
			check(t, unlock())
			isAbsent(t, repoLockPath(dir))
		})
	}
	t.Run("asks about that pid, and believes the answer", func(t *testing.T) {
		dir := t.TempDir()
		putClaim(t, repoLockPath(dir), evidence.Claim{PID: 999999, CreatedAt: time.Now()})
		l := repolock.NewRepoLock(dir)
		asked := 0
		l.IsPIDAlive = func(pid int) bool { asked = pid; return true }
		repoIsLocked(t, l)
		equal(t, asked, 999999, "asked about pid")
	})
	t.Run("by the system's own check", func(t *testing.T) {
		dir := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run=^$")
		check(t, child.Run())
		putClaim(t, repoLockPath(dir), evidence.Claim{PID: child.Process.Pid, CreatedAt: time.Now()})
		unlock := lockRepo(t, repolock.NewRepoLock(dir), "push")
		defer unlock()
		repoIsOurs(t, dir, "push")
	})
}

func TestRepoLock_StaleByAgeSteals(t *testing.T) { // guards: E6
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
			claim := evidence.Claim{PID: os.Getpid(), CreatedAt: now.Add(-test.age), Cmd: "slow"}
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
			that(t, locked.Info != nil && sameClaim(*locked.Info, claim), "Info is %+v, want %+v", locked.Info, claim)
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
			if locked := repoIsLocked(t, l); locked.Info != nil || locked.State != evidence.Unknown {
				t.Errorf("Info is %+v, state %s", locked.Info, locked.State)
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
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "push")
	for i := range 3 {
		check(t, unlock(), "unlock", i+1)
		isAbsent(t, repoLockPath(dir))
	}
	// A second unlock is nothing to the next holder.
	next := lockRepo(t, repolock.NewRepoLock(dir), "next")
	check(t, unlock())
	repoIsOurs(t, dir, "next")
	repoIsLocked(t, repolock.NewRepoLock(dir))
	check(t, next())
}

func TestRepoLock_ParentDirCreation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet", "there")
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "push")
	info, err := os.Stat(filepath.Join(dir, "repos", repoID))
	if err != nil || !info.IsDir() {
		t.Fatalf("no folder (%v)", err)
	}
	repoIsOurs(t, dir, "push")
	check(t, unlock())
	noErr(t, errOf(os.Stat(filepath.Join(dir, "repos", repoID))), "unlock removed the folder")
}

func TestRepoLock_ConcurrentLockReturnsErrLocked(t *testing.T) {
	dir := t.TempDir()
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "a")
	defer unlock()
	result := make(chan error)
	go func() {
		_, err := repolock.NewRepoLock(dir).Lock(repoID, "b")
		result <- err
	}()
	select {
	case err := <-result:
		asLocked(t, err)
	case <-time.After(patience):
		t.Fatal("Lock waits")
	}
}
