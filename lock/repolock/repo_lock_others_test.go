package repolock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/repolock"
)

// TestRepoLock_RemoveIsTiedToTheFileRead: between the judgement of a dead claim
// and its removal somebody else reclaims the lock. (The agency
// command's own code then deletes the new holder's lock.)
func TestRepoLock_RemoveIsTiedToTheFileRead(t *testing.T) { // guards: B2
	for name, successor := range map[string]string{
		"of another program": `{"pid":1,"created_at":"2026-01-02T03:04:05Z","cmd":"successor"}`,
		"same size":          `{"pid":999998,"created_at":"2020-01-02T03:04:05Z"}`,
		"empty":              "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := repoLockPath(dir)
			putFile(t, path, []byte(`{"pid":999999,"created_at":"2020-01-02T03:04:05Z"}`), time.Time{})
			l := repolock.NewRepoLock(dir)
			l.StaleAfter = -1
			var before map[string]testkit.FileState
			l.IsPIDAlive = func(pid int) bool {
				if pid != 999999 {
					return true
				}
				noErr(t, os.Remove(path))
				putFile(t, path, []byte(successor), time.Time{})
				before = treeState(t, filepath.Dir(path), ".lock.flock") // it remembers who died
				return false
			}
			_, err := l.Lock(repoID, "push")
			asLocked(t, err)
			if before == nil {
				t.Fatal("the pid was not asked for")
			}
			sameTree(t, before, treeState(t, filepath.Dir(path), ".lock.flock"))
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
		l := repolock.NewRepoLock(dir)
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
			check(t, err)
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
	that(t, swapped >= 2, "replaced the file in %d runs: look for other moments", swapped)
}

// Where the agency command's rules and the kernel's proof disagree, the proof wins.

func TestRepoLock_LiveHolderIsNeverStolenFrom(t *testing.T) {
	dir := t.TempDir()
	path := repoLockPath(dir)
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "slow")
	thief := withPIDs(dir, false)
	thief.StaleAfter = time.Nanosecond
	thief.Now = func() time.Time { return time.Now().Add(100_000 * time.Hour) }
	equal(t, repoIsLocked(t, thief).Evidence, evidence.KernelLockHeld, "evidence")
	repoIsOurs(t, dir, "slow")

	// With the kernel's proof taken away, the process is still proof enough.
	check(t, os.Remove(path+".flock"))
	equal(t, repoIsLocked(t, thief).Evidence, evidence.KernelLockHeld, "without the sibling: evidence")
	check(t, unlock())
	isAbsent(t, path)
}

// TestRepoLock_ProofBeforePIDs: a claim that says which process it means is not judged by the
// caller's check on pids, though no kernel lock speaks for it.
func TestRepoLock_ProofBeforePIDs(t *testing.T) { // guards: E1
	dir := t.TempDir()
	path := repoLockPath(dir)
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "push")
	claim := getClaim(t, path)
	check(t, unlock())
	if claim.Start == 0 && claim.PIDFD == 0 {
		t.Skip("needs a system that tells when a process started")
	}
	claim.KernelLock = "" // as where the kernel has no proof
	putClaim(t, path, claim)
	if locked := repoIsLocked(t, withPIDs(dir, false)); locked.State != evidence.Held || locked.Evidence != evidence.SameProcess {
		t.Errorf("state is %s, %q", locked.State, locked.Evidence)
	}
	claim.Start, claim.PIDFD = claim.Start+1, claim.PIDFD+1
	putClaim(t, path, claim)
	check(t, lockRepo(t, withPIDs(dir, true), "over another process with its pid")())
}

func TestRepoLock_KernelLockAloneKeepsOthersOut(t *testing.T) {
	dir := t.TempDir()
	path := repoLockPath(dir)
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "robbed")
	// The lock file says that a dead process has the lock, for a long time.
	putFile(t, path, []byte(`{"pid":999999,"created_at":"2020-01-02T03:04:05Z"}`), time.Time{})
	if locked := repoIsLocked(t, withPIDs(dir, false)); locked.State != evidence.Held || locked.Evidence != evidence.KernelLockHeld {
		t.Errorf("state is %s, %q", locked.State, locked.Evidence)
	}
	check(t, os.Remove(path))
	if locked := repoIsLocked(t, withPIDs(dir, false)); locked.Info != nil {
		t.Errorf("Info is %+v", locked.Info)
	}
	wantErr(t, unlock(), lock.ErrLost, "unlock")
	next := lockRepo(t, repolock.NewRepoLock(dir), "next")
	check(t, next())
}

// TestRepoLock_OtherProgramsAreHonoured: a claim as any program that follows the
// agency command writes it.
func TestRepoLock_OtherProgramsAreHonoured(t *testing.T) { // guards: O2
	now := time.Now()
	claim := evidence.Claim{PID: os.Getpid(), CreatedAt: now.Add(-time.Hour), Cmd: "other"}
	for name, encode := range map[string]func(evidence.Claim) string{
		"compact": func(c evidence.Claim) string {
			return fmt.Sprintf(`{"pid":%d,"created_at":%q,"cmd":%q}`, c.PID, c.CreatedAt.Format(time.RFC3339Nano), c.Cmd)
		},
		"indented, with a newline": func(c evidence.Claim) string {
			data, _ := json.MarshalIndent(c, "", "\t")
			return string(data) + "\n"
		},
		"in another zone, seconds only, further fields": func(c evidence.Claim) string {
			at := c.CreatedAt.In(time.FixedZone("", -5*3600)).Format(time.RFC3339)
			return fmt.Sprintf(`{"user":"ana","created_at":%q,"cmd":%q,"pid":%d,"tags":["a",{}]}`, at, c.Cmd, c.PID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := repoLockPath(dir)
			l := repolock.NewRepoLock(dir)

			putFile(t, path, []byte(encode(claim)), time.Time{})
			locked := repoIsLocked(t, l)
			if locked.Info == nil || locked.Info.PID != claim.PID || locked.Info.Cmd != "other" {
				t.Errorf("Info is %+v", locked.Info)
			}
			if locked.State != evidence.Unknown || locked.Evidence != evidence.PIDExists {
				t.Errorf("state is %s, %q", locked.State, locked.Evidence)
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

// TestRepoLock_PIDAlone: by the agency command's newer rule a claim that can be read is stale
// when its pid is not alive, and only then; and what can't be read, when it is old.
func TestRepoLock_PIDAlone(t *testing.T) { // guards: E6
	const staleAfter = time.Hour // not the default: it is the caller's age that counts
	now := time.Now()
	claim := func(age time.Duration) string {
		return fmt.Sprintf(`{"pid":4242,"created_at":%q,"cmd":"push"}`, now.Add(-age).Format(time.RFC3339Nano))
	}
	for name, test := range map[string]struct {
		content  string
		age      time.Duration // of the file
		pidAlive bool
		stale    bool // by the newer rule
		older    bool // by the older one
	}{
		"claim, alive":                       {claim(0), 0, true, false, false},
		"claim, alive and old":               {claim(1000 * time.Hour), 1000 * time.Hour, true, false, true},
		"claim, alive and old, just touched": {claim(1000 * time.Hour), 0, true, false, true},
		"claim, dead":                        {claim(0), 0, false, true, true},
		"claim, dead and old":                {claim(1000 * time.Hour), 1000 * time.Hour, false, true, true},
		"garbage":                            {"garbage", 0, false, false, false},
		"garbage, nearly old":                {"garbage", staleAfter - time.Minute, false, false, false},
		"garbage, old":                       {"garbage", staleAfter + time.Minute, true, true, true},
		"empty":                              {"", 0, false, false, false},
		"empty, old":                         {"", staleAfter + time.Minute, true, true, true},
		"half a claim":                       {`{"pid":42`, 0, false, false, false},
		"half a claim, old":                  {`{"pid":42`, staleAfter + time.Minute, true, true, true},
		"no created_at":                      {`{"pid":4242}`, 0, false, false, false},
		"no created_at, old":                 {`{"pid":4242}`, staleAfter + time.Minute, true, true, true},
	} {
		for pidAlone, stale := range map[bool]bool{true: test.stale, false: test.older} {
			l := withPIDs(t.TempDir(), test.pidAlive)
			l.PIDAlone, l.StaleAfter, l.Now = pidAlone, staleAfter, func() time.Time { return now }
			putFile(t, repoLockPath(l.DataDir), []byte(test.content), now.Add(-test.age))
			if !stale {
				t.Run(name, func(t *testing.T) { repoIsLocked(t, l) })
				continue
			}
			unlock, err := l.Lock(repoID, "push")
			if err != nil {
				t.Errorf("%s, with PIDAlone %v: %v, want it taken over", name, pidAlone, err)
				continue
			}
			check(t, unlock())
		}
	}
	// Age is not the only thing that counts for our own claims: one that its holder renews, as
	// nothing else proves its life, is stale when that stops.
	l := withPIDs(t.TempDir(), true)
	l.PIDAlone = true
	long := now.Add(-1000 * time.Hour)
	putClaim(t, repoLockPath(l.DataDir), evidence.Claim{PID: 4242, CreatedAt: long, RenewedAt: long, Nonce: "N", BootID: "b", Hostname: "elsewhere"})
	check(t, lockRepo(t, l, "not renewed")())
}

// TestRepoLock_OtherProgramsSeeUs: with nothing but O_EXCL and the three fields
// of a bare claim, another program finds us, and is kept out.
func TestRepoLock_OtherProgramsSeeUs(t *testing.T) { // guards: O4
	dir := t.TempDir()
	unlock := lockRepo(t, repolock.NewRepoLock(dir), "push")
	if f, err := os.OpenFile(repoLockPath(dir), os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, fs.ErrExist) {
		f.Close()
		t.Errorf("O_EXCL: %v", err)
	}
	var theirs struct {
		PID       int       `json:"pid"`
		CreatedAt time.Time `json:"created_at"`
		Cmd       string    `json:"cmd,omitempty"`
	}
	check(t, json.Unmarshal(getFile(t, repoLockPath(dir)), &theirs))
	if theirs.PID != os.Getpid() || theirs.Cmd != "push" || time.Since(theirs.CreatedAt).Abs() > patience {
		t.Errorf("they read %+v", theirs)
	}
	check(t, unlock())
	isAbsent(t, repoLockPath(dir))
}

// TestRepoLock_FolderInTheWay: an error of the system is not contention.
func TestRepoLock_FolderInTheWay(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "repos"), []byte("a file"), time.Time{})
	before := treeState(t, dir)
	_, err := repolock.NewRepoLock(dir).Lock(repoID, "push")
	var path *fs.PathError
	that(t, errors.As(err, &path), "error is %v, want the system's", err)
	that(t, !errors.As(err, new(*lock.LockedError)), "error is %v, which is not contention", err)
	sameTree(t, before, treeState(t, dir))
}

// TestRepoLock_BareFieldsComeFirst: the fields of a bare claim are the agency command's, come
// first in ours, and keep their order, so that their JSON does too.
func TestRepoLock_BareFieldsComeFirst(t *testing.T) {
	bare, ours := reflect.TypeFor[repolock.LockInfo](), reflect.TypeFor[evidence.Claim]()
	want := []string{`PID int json:"pid"`, `CreatedAt time.Time json:"created_at"`, `Cmd string json:"cmd,omitempty"`}
	if n := bare.NumField(); n != len(want) {
		t.Errorf("LockInfo has %d fields, want %d", n, len(want))
	}
	for i, want := range want {
		for _, f := range []reflect.StructField{bare.Field(i), ours.Field(i)} {
			equal(t, fmt.Sprint(f.Name, " ", f.Type, " ", f.Tag), want, "field", i)
		}
	}
}
