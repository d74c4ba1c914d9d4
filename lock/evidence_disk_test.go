package lock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// TestEvidence_OnDisk puts claims on disk and reads what is concluded: how facts
// are gathered, and that looking and acquiring agree.
func TestEvidence_OnDisk(t *testing.T) {
	self := ownClaim(t)
	dead := formerClaim(t)
	if self.BootID == "" || self.PIDNamespace == 0 {
		t.Skip("needs a system that tells its boot id and pid namespace")
	}
	old := time.Now().Add(-3 * time.Hour)
	later := func() time.Time { return time.Now().Add(2 * time.Hour) } // as the machine may have started just now
	longAgo := time.Unix(1e9, 0)                                       // before any boot
	const never = time.Duration(-1)

	claim := func(base lock.LockInfo, change func(*lock.LockInfo)) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			c := base
			c.Flock = ""
			if change != nil {
				change(&c)
			}
			if c.Flock == "this" {
				letGo(t, tryHold(t, lock.File{Path: path})) // makes the sibling
				id, err := platform.IdentifyFile(path + ".flock")
				if err != nil {
					t.Fatal(err)
				}
				c.Flock = id.String()
			}
			putClaim(t, path, c)
		}
	}
	content := func(text string, modified time.Time, mode os.FileMode) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			putFile(t, path, []byte(text), modified)
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	bare := lock.LockInfo{PID: os.Getpid(), CreatedAt: time.Now()}
	nobody := lock.LockInfo{PID: 2147483647, CreatedAt: time.Now()}

	for _, test := range []struct {
		name     string
		file     lock.File
		put      func(t *testing.T, path string)
		state    lock.State
		evidence lock.Evidence
	}{
		{"this process", lock.File{}, claim(self, nil), lock.StateHeld, lock.SameProcess},
		{"this process, under this free kernel lock", lock.File{}, claim(self, func(c *lock.LockInfo) { c.Flock = "this" }), lock.StateHeld, lock.SameProcess},
		{"this process, aged", lock.File{StaleAfter: time.Hour}, claim(self, func(c *lock.LockInfo) { c.CreatedAt = old }), lock.StateHeld, lock.SameProcess},
		{"reader who left, under this free kernel lock", lock.File{}, claim(self, func(c *lock.LockInfo) { c.Flock, c.Mode = "this", "shared" }), lock.StateDead, lock.KernelLockFree},
		{"pid reused", lock.File{StaleAfter: never}, claim(dead, nil), lock.StateDead, lock.PIDReused},
		{"pid reused, by start time alone", lock.File{StaleAfter: never}, claim(dead, func(c *lock.LockInfo) { c.PIDFD = 0 }), lock.StateDead, lock.PIDReused},
		{"another time namespace hides the start time", lock.File{}, claim(dead, func(c *lock.LockInfo) { c.PIDFD, c.TimeNamespace = 0, 1 }), lock.StateUnknown, lock.PIDExists},
		{"process gone", lock.File{StaleAfter: never}, claim(nobody, nil), lock.StateDead, lock.ProcessGone},
		{"bare pid that exists", lock.File{}, claim(bare, nil), lock.StateUnknown, lock.PIDExists},
		{"bare pid that exists, aged", lock.File{}, claim(bare, func(c *lock.LockInfo) { c.CreatedAt = old }), lock.StateDead, lock.Aged},
		{"bare pid that exists, aged, by a caller who waits longer", lock.File{StaleAfter: 4 * time.Hour}, claim(bare, func(c *lock.LockInfo) { c.CreatedAt = old }), lock.StateUnknown, lock.PIDExists},
		{"bare pid that exists, aged, age never counts", lock.File{StaleAfter: never}, claim(bare, func(c *lock.LockInfo) { c.CreatedAt = old }), lock.StateUnknown, lock.PIDExists},
		{"bare pid that exists, aged but renewed", lock.File{}, claim(bare, func(c *lock.LockInfo) { c.CreatedAt, c.RenewedAt = old, time.Now() }), lock.StateUnknown, lock.PIDExists},
		{"renewed before it was created counts from the creation", lock.File{}, claim(bare, func(c *lock.LockInfo) { c.RenewedAt = old }), lock.StateUnknown, lock.PIDExists},
		{"earlier boot", lock.File{StaleAfter: never}, claim(self, func(c *lock.LockInfo) { c.BootID = "another" }), lock.StateDead, lock.MachineRestarted},
		{"foreign host", lock.File{}, claim(nobody, func(c *lock.LockInfo) { c.BootID, c.Hostname = "another", "elsewhere" }), lock.StateUnknown, lock.ForeignHost},
		{"foreign host, without a boot id", lock.File{}, claim(nobody, func(c *lock.LockInfo) { c.Hostname = "elsewhere" }), lock.StateUnknown, lock.ForeignHost},
		{"foreign host, aged", lock.File{}, claim(self, func(c *lock.LockInfo) { c.BootID, c.Hostname, c.CreatedAt = "another", "elsewhere", old }), lock.StateDead, lock.Aged},
		{"foreign host, under this free kernel lock", lock.File{StaleAfter: never}, claim(self, func(c *lock.LockInfo) { c.Hostname, c.PIDNamespace, c.Flock = "elsewhere", 1, "this" }), lock.StateDead, lock.KernelLockFree},
		{"this boot under another host name is here", lock.File{}, claim(self, func(c *lock.LockInfo) { c.Hostname = "elsewhere" }), lock.StateHeld, lock.SameProcess},
		{"foreign pid namespace", lock.File{}, claim(dead, func(c *lock.LockInfo) { c.PIDNamespace = 1 }), lock.StateUnknown, lock.ForeignNamespace},
		{"foreign pid namespace, aged", lock.File{}, claim(dead, func(c *lock.LockInfo) { c.PIDNamespace, c.CreatedAt = 1, old }), lock.StateDead, lock.Aged},
		{"foreign pid namespace, under another sibling", lock.File{}, claim(dead, func(c *lock.LockInfo) { c.PIDNamespace, c.Flock = 1, "1:2:3" }), lock.StateUnknown, lock.ForeignNamespace},
		{"incomplete", lock.File{StaleAfter: never}, content(`{"pid":1`, time.Time{}, 0o200), lock.StateDead, lock.Incomplete},
		{"incomplete, though a whole claim is in it", lock.File{StaleAfter: never}, func(t *testing.T, path string) {
			claim(self, nil)(t, path)
			if err := os.Chmod(path, 0o200); err != nil {
				t.Fatal(err)
			}
		}, lock.StateDead, lock.Incomplete},
		{"unreadable", lock.File{StaleAfter: time.Hour}, content("{}", time.Time{}, 0o600), lock.StateUnknown, lock.Unreadable},
		{"unreadable, aged", lock.File{StaleAfter: time.Hour}.WithClock(later), content("{}", time.Time{}, 0o600), lock.StateDead, lock.Aged},
		{"unreadable, written before any boot", lock.File{StaleAfter: 1e6 * time.Hour}, content("{}", longAgo, 0o600), lock.StateUnknown, lock.Unreadable},
		{"unreadable, nobody said that age counts", lock.File{}, content("{}", longAgo, 0o600), lock.StateUnknown, lock.NotALockFile},
		{"empty", lock.File{}, content("", time.Time{}, 0o600), lock.StateUnknown, lock.Unreadable},
		{"empty, written before any boot", lock.File{StaleAfter: never}, content("", longAgo, 0o600), lock.StateUnknown, lock.Unreadable},
		{"NULs", lock.File{StaleAfter: never}, content("\x00\x00", time.Time{}, 0o600), lock.StateDead, lock.PowerLost},
		{"NULs and something else", lock.File{StaleAfter: time.Hour}, content("\x00{", longAgo, 0o600), lock.StateDead, lock.Aged},
		{"claims of fallback mode are judged alike", lock.File{}.WithoutKernelLock(), claim(self, nil), lock.StateHeld, lock.SameProcess},
		{"fallback, pid reused", lock.File{}.WithoutKernelLock(), claim(dead, nil), lock.StateDead, lock.PIDReused},
		{"fallback, earlier boot", lock.File{}.WithoutKernelLock(), claim(self, func(c *lock.LockInfo) { c.BootID = "another" }), lock.StateUnknown, lock.ForeignHost},
		{"fallback, incomplete", lock.File{}.WithoutKernelLock(), content("", time.Time{}, 0o200), lock.StateUnknown, lock.Unreadable},
		{"fallback, NULs", lock.File{StaleAfter: 1e6 * time.Hour}.WithoutKernelLock(), content("\x00", longAgo, 0o600), lock.StateUnknown, lock.Unreadable},
		{"fallback, a shared claim under this sibling", lock.File{}.WithoutKernelLock(), claim(self, func(c *lock.LockInfo) { c.Flock, c.Mode = "this", "shared" }), lock.StateHeld, lock.SameProcess},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			file := test.file
			file.Path = filepath.Join(dir, "lock")
			test.put(t, file.Path)
			before := treeState(t, dir)
			beforeAcquire := treeState(t, dir, "lock.flock")
			status, err := file.Inspect(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if status.State != test.state || status.Evidence != test.evidence {
				t.Errorf("Inspect: %s, %q; want %s, %q", status.State, status.Evidence, test.state, test.evidence)
			}
			sameTree(t, before, treeState(t, dir))

			held, err := file.TryAcquire(context.Background())
			if test.state == lock.StateDead {
				if err != nil {
					t.Fatal(err)
				}
				if got := getClaim(t, file.Path); got.Nonce != held.Info().Nonce {
					t.Errorf("on disk is %+v", got)
				}
				isAbsent(t, file.Path+".reclaim")
				letGo(t, held)
				return
			}
			l := asLocked(t, err)
			if l.Evidence != test.evidence || string(l.Verdict) != map[lock.State]string{lock.StateHeld: "alive", lock.StateUnknown: "unknown"}[test.state] {
				t.Errorf("TryAcquire: %s, %q; want %s, %q", l.Verdict, l.Evidence, test.state, test.evidence)
			}
			if (l.Info == nil) != (status.Holder == nil) {
				t.Errorf("holder is %v for TryAcquire, %v for Inspect", l.Info, status.Holder)
			}
			sameTree(t, beforeAcquire, treeState(t, dir, "lock.flock"))
		})
	}
}

// TestInspect_WhileHeld: the verdict is alive, evidence the kernel lock, and
// looking disturbs nobody.
func TestInspect_WhileHeld(t *testing.T) {
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock"), Cmd: "work"}
	held := tryHold(t, file)
	before := treeState(t, dir)
	status, err := file.Inspect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if status.State != lock.StateHeld || status.Evidence != lock.KernelLockHeld || status.Holder == nil || status.Holder.Cmd != "work" {
		t.Errorf("status is %+v", status)
	}
	sameTree(t, before, treeState(t, dir))
	letGo(t, held)

	before = treeState(t, dir)
	if status, err = file.Inspect(context.Background()); err != nil || status.State != lock.StateFree || status.Holder != nil {
		t.Errorf("after Release: %+v, %v", status, err)
	}
	sameTree(t, before, treeState(t, dir))

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := file.Inspect(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
}
