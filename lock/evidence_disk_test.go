package lock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// TestEvidence_OnDisk puts claims on disk and reads what is concluded: how facts
// are gathered, and that looking and acquiring agree.
func TestEvidence_OnDisk(t *testing.T) { // guards: S7
	self := ownClaim(t)
	dead := formerClaim(t)
	if self.BootID == "" || self.PIDNamespace == 0 {
		t.Skip("needs a system that tells its boot id and pid namespace")
	}
	old := time.Now().Add(-3 * time.Hour)
	later := func() time.Time { return time.Now().Add(2 * time.Hour) } // as the machine may have started just now
	longAgo := time.Unix(1e9, 0)                                       // before any boot
	const never = time.Duration(-1)
	began, known := platform.Began(os.Getpid())
	if !known {
		t.Skip("needs a system that tells when a process began")
	}
	young := began.Add(-time.Minute)
	muchLater := func() time.Time { return time.Now().Add(1000 * time.Hour) }

	// claim puts one that says nothing of a kernel lock, unless change has it say "own",
	// for the very file that it is in, "copy", for one that was beside it, or "moved", for
	// itself where it lay before.
	claim := func(base evidence.Claim, change func(*evidence.Claim)) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			c := base
			c.KernelLock = ""
			if change != nil {
				change(&c)
			}
			if c.KernelLock == "own" || c.KernelLock == "copy" || c.KernelLock == "moved" {
				putFile(t, path, nil, time.Time{})
				id := must(platform.IdentifyFile(path))(t)
				if c.KernelLock == "copy" {
					id.Ino++
				}
				if c.KernelLock == "moved" {
					id.Dev++
				}
				c.KernelLock = fmt.Sprintf("%s:%d:%d", kindOf(t, path), id.Dev, id.Ino)
			}
			putClaim(t, path, c)
			if c.KernelLock != "" {
				mark(t, path)
			}
		}
	}
	content := func(text string, modified time.Time, mode os.FileMode) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			putFile(t, path, []byte(text), modified)
			if mode&os.ModeSticky != 0 {
				mark(t, path)
			}
		}
	}
	const plain, marked = os.FileMode(0), os.ModeSticky
	bare := evidence.Claim{PID: os.Getpid(), CreatedAt: time.Now()}
	nobody := evidence.Claim{PID: 2147483647, CreatedAt: time.Now()}
	elsewhere := evidence.Claim{PID: 2147483647, CreatedAt: time.Now(), Nonce: "X", BootID: "another", Hostname: "elsewhere"}

	for _, test := range []struct {
		name     string
		file     lock.File
		put      func(t *testing.T, path string)
		state    evidence.State
		evidence evidence.Evidence
	}{
		{"this process", lock.File{}, claim(self, nil), evidence.Held, evidence.SameProcess},
		{"this process, though its kernel lock is free", lock.File{}, claim(self, func(c *evidence.Claim) { c.KernelLock = "own" }), evidence.Held, evidence.SameProcess},
		{"this process, aged", lock.File{StaleAfter: time.Hour}, claim(self, func(c *evidence.Claim) { c.CreatedAt = old }), evidence.Held, evidence.SameProcess},
		{"readers who left, the first of whom lives", lock.File{}, claim(self, func(c *evidence.Claim) { c.KernelLock, c.Mode = "own", "shared" }), evidence.Dead, evidence.KernelLockFree},
		{"pid reused", lock.File{StaleAfter: never}, claim(dead, nil), evidence.Dead, evidence.PIDReused},
		{"pid reused, by start time alone", lock.File{StaleAfter: never}, claim(dead, func(c *evidence.Claim) { c.PIDFD = 0 }), evidence.Dead, evidence.PIDReused},
		{"another time namespace hides the start time", lock.File{}, claim(dead, func(c *evidence.Claim) { c.PIDFD, c.TimeNamespace, c.CreatedAt = 0, 1, young }), evidence.Unknown, evidence.PIDExists},
		{"process gone", lock.File{StaleAfter: never}, claim(nobody, nil), evidence.Dead, evidence.ProcessGone},
		{"this process, in a copy of its claim", lock.File{StaleAfter: never}, claim(self, func(c *evidence.Claim) { c.KernelLock = "copy" }), evidence.Dead, evidence.KernelLockFree},
		{"this process, released", lock.File{StaleAfter: never}, func(t *testing.T, path string) {
			data := strings.Replace(string(putClaim(t, path, self)), `"released":false`, `"released":true `, 1)
			putFile(t, path, []byte(data), time.Time{})
		}, evidence.Dead, evidence.SaysReleased},
		{"this process, its mark taken away", lock.File{StaleAfter: never}, func(t *testing.T, path string) {
			claim(self, func(c *evidence.Claim) { c.KernelLock = "own" })(t, path)
			check(t, os.Chmod(path, 0o600))
		}, evidence.Dead, evidence.SaysReleased},
		{"this process, in a copy without the mark", lock.File{StaleAfter: never}, func(t *testing.T, path string) {
			claim(self, func(c *evidence.Claim) { c.KernelLock = "copy" })(t, path)
			check(t, os.Chmod(path, 0o600))
		}, evidence.Dead, evidence.KernelLockFree},
		{"bare pid of one who began before", lock.File{}, claim(bare, nil), evidence.Held, evidence.BeganBefore},
		{"... to the second", lock.File{}, claim(bare, func(c *evidence.Claim) { c.CreatedAt = began.Truncate(time.Second) }), evidence.Held, evidence.BeganBefore},
		{"... aged", lock.File{}.WithClock(muchLater), claim(bare, nil), evidence.Held, evidence.BeganBefore},
		{"... by its own file's rules alone", lock.File{}.WithClock(muchLater), claim(bare, func(c *evidence.Claim) { c.Nonce, c.RenewedAt = "", old }), evidence.Held, evidence.BeganBefore},
		{"bare pid of one who began after", lock.File{}, claim(bare, func(c *evidence.Claim) { c.CreatedAt = young }), evidence.Unknown, evidence.PIDExists},
		{"... aged", lock.File{}, claim(bare, func(c *evidence.Claim) { c.CreatedAt = old }), evidence.Dead, evidence.Aged},
		{"... aged, by a caller who waits longer", lock.File{StaleAfter: 1e6 * time.Hour}, claim(bare, func(c *evidence.Claim) { c.CreatedAt = old }), evidence.Unknown, evidence.PIDExists},
		{"... aged, age never counts", lock.File{StaleAfter: never}, claim(bare, func(c *evidence.Claim) { c.CreatedAt = old }), evidence.Unknown, evidence.PIDExists},
		{"... aged, by a field that is none of its program's", lock.File{}, func(t *testing.T, path string) {
			putFile(t, path, fmt.Appendf(nil, `{"pid":%d,"created_at":%q,"renewed_at":%q}`, bare.PID, old.Format(time.RFC3339), time.Now().Format(time.RFC3339)), time.Time{})
		}, evidence.Dead, evidence.Aged},
		{"elsewhere, aged but renewed", lock.File{}, claim(elsewhere, func(c *evidence.Claim) { c.CreatedAt, c.RenewedAt = old, time.Now() }), evidence.Unknown, evidence.ForeignHost},
		{"elsewhere, renewed before it was created counts from the creation", lock.File{}, claim(elsewhere, func(c *evidence.Claim) { c.RenewedAt = old }), evidence.Unknown, evidence.ForeignHost},
		{"elsewhere, not renewed for its own span", lock.File{}, claim(elsewhere, func(c *evidence.Claim) { c.CreatedAt, c.StaleAfter = time.Now().Add(-time.Minute), time.Second }), evidence.Dead, evidence.Aged},
		{"elsewhere, not renewed for ours, but its own is longer", lock.File{StaleAfter: time.Hour}, claim(elsewhere, func(c *evidence.Claim) { c.CreatedAt, c.StaleAfter = old, 1e6*time.Hour }), evidence.Unknown, evidence.ForeignHost},
		{"elsewhere, of one who never ages", lock.File{}, claim(elsewhere, func(c *evidence.Claim) { c.CreatedAt, c.StaleAfter = old, -1 }), evidence.Unknown, evidence.ForeignHost},
		{"elsewhere, its span over, but age never counts", lock.File{StaleAfter: never}, claim(elsewhere, func(c *evidence.Claim) { c.CreatedAt, c.StaleAfter = old, 1 }), evidence.Unknown, evidence.ForeignHost},
		{"ours, without boot and namespace", lock.File{StaleAfter: never}, claim(nobody, func(c *evidence.Claim) { c.Nonce = "X" }), evidence.Unknown, evidence.ForeignHost},
		{"earlier boot", lock.File{StaleAfter: never}, claim(self, func(c *evidence.Claim) { c.BootID, c.KernelLock = "another", "other:1:2" }), evidence.Dead, evidence.MachineRestarted},
		{"another machine of this name, maker did not trust", lock.File{StaleAfter: never}, claim(self, func(c *evidence.Claim) { c.BootID = "another" }), evidence.Unknown, evidence.ForeignHost},
		{"foreign host", lock.File{}, claim(nobody, func(c *evidence.Claim) { c.BootID, c.Hostname = "another", "elsewhere" }), evidence.Unknown, evidence.ForeignHost},
		{"foreign host, without a boot id", lock.File{}, claim(nobody, func(c *evidence.Claim) { c.Hostname = "elsewhere" }), evidence.Unknown, evidence.ForeignHost},
		{"foreign host, aged", lock.File{}, claim(self, func(c *evidence.Claim) { c.BootID, c.Hostname, c.CreatedAt = "another", "elsewhere", old }), evidence.Dead, evidence.Aged},
		{"foreign host, its kernel lock free", lock.File{StaleAfter: never}, claim(self, func(c *evidence.Claim) { c.Hostname, c.PIDNamespace, c.KernelLock = "elsewhere", 1, "own" }), evidence.Dead, evidence.KernelLockFree},
		{"foreign host, its kernel lock free, the volume attached here since", lock.File{StaleAfter: never}, claim(self, func(c *evidence.Claim) { c.Hostname, c.BootID, c.KernelLock = "elsewhere", "another", "moved" }), evidence.Dead, evidence.KernelLockFree},
		{"foreign host, renewed within that second", lock.File{StaleAfter: time.Second}.WithClock(func() time.Time { return longAgo.Add(1900 * time.Millisecond) }), claim(elsewhere, func(c *evidence.Claim) { c.CreatedAt, c.RenewedAt = longAgo, longAgo }), evidence.Unknown, evidence.ForeignHost},
		{"foreign host, renewed before that second", lock.File{StaleAfter: time.Second}.WithClock(func() time.Time { return longAgo.Add(2100 * time.Millisecond) }), claim(elsewhere, func(c *evidence.Claim) { c.CreatedAt, c.RenewedAt = longAgo, longAgo }), evidence.Dead, evidence.Aged},
		{"this boot under another host name is here", lock.File{}, claim(self, func(c *evidence.Claim) { c.Hostname = "elsewhere" }), evidence.Held, evidence.SameProcess},
		{"foreign pid namespace", lock.File{}, claim(dead, func(c *evidence.Claim) { c.PIDNamespace = 1 }), evidence.Unknown, evidence.ForeignNamespace},
		{"foreign pid namespace, aged", lock.File{}, claim(dead, func(c *evidence.Claim) { c.PIDNamespace, c.CreatedAt = 1, old }), evidence.Dead, evidence.Aged},
		{"foreign pid namespace, under a lock that can't be asked about, aged", lock.File{}, claim(dead, func(c *evidence.Claim) { c.PIDNamespace, c.KernelLock, c.CreatedAt = 1, "other:1:2", old }), evidence.Unknown, evidence.ForeignNamespace},
		{"incomplete", lock.File{StaleAfter: never}, content(`{"pid":1`, time.Time{}, marked), evidence.Dead, evidence.Incomplete},
		{"incomplete, empty", lock.File{StaleAfter: never}, content("", time.Time{}, marked), evidence.Dead, evidence.Incomplete},
		{"marked, and not ours", lock.File{StaleAfter: never}, content("a letter", time.Time{}, marked), evidence.Unknown, evidence.Unreadable},
		{"marked, and not ours, nobody said that age counts", lock.File{}, content("a letter", longAgo, marked), evidence.Unknown, evidence.NotALockFile},
		{"unreadable", lock.File{StaleAfter: time.Hour}, content("{}", time.Time{}, plain), evidence.Unknown, evidence.Unreadable},
		{"unreadable, aged", lock.File{StaleAfter: time.Hour}.WithClock(later), content("{}", time.Time{}, plain), evidence.Dead, evidence.Aged},
		{"unreadable, written before any boot", lock.File{StaleAfter: 1e6 * time.Hour}, content("{}", longAgo, plain), evidence.Unknown, evidence.Unreadable},
		{"unreadable, nobody said that age counts", lock.File{}, content("{}", longAgo, plain), evidence.Unknown, evidence.NotALockFile},
		{"empty", lock.File{}, content("", time.Time{}, plain), evidence.Unknown, evidence.Unreadable},
		{"empty, written before any boot", lock.File{StaleAfter: never}, content("", longAgo, plain), evidence.Unknown, evidence.Unreadable},
		{"NULs, just written", lock.File{StaleAfter: never}, content("\x00\x00", time.Time{}, plain), evidence.Unknown, evidence.Unreadable},
		{"NULs", lock.File{StaleAfter: never}, content("\x00\x00", longAgo, plain), evidence.Dead, evidence.PowerLost},
		{"NULs and something else", lock.File{StaleAfter: time.Hour}, content("\x00{", longAgo, plain), evidence.Dead, evidence.Aged},
		{"claims of fallback mode are judged alike", lock.File{}.WithoutKernelLock(), claim(self, nil), evidence.Held, evidence.SameProcess},
		{"fallback, pid reused", lock.File{}.WithoutKernelLock(), claim(dead, nil), evidence.Dead, evidence.PIDReused},
		{"fallback, the mark taken away by a hand", lock.File{}.WithoutKernelLock(), func(t *testing.T, path string) {
			claim(self, func(c *evidence.Claim) { c.KernelLock = "own" })(t, path)
			check(t, os.Chmod(path, 0o600))
		}, evidence.Held, evidence.SameProcess},
		{"fallback, earlier boot", lock.File{}.WithoutKernelLock(), claim(self, func(c *evidence.Claim) { c.BootID = "another" }), evidence.Unknown, evidence.ForeignHost},
		{"fallback, incomplete", lock.File{}.WithoutKernelLock(), content("", time.Time{}, marked), evidence.Unknown, evidence.Unreadable},
		{"fallback, NULs", lock.File{StaleAfter: 1e6 * time.Hour}.WithoutKernelLock(), content("\x00", longAgo, plain), evidence.Unknown, evidence.Unreadable},
		{"fallback, a readers' claim", lock.File{}.WithoutKernelLock(), claim(self, func(c *evidence.Claim) { c.KernelLock, c.Mode = "own", "shared" }), evidence.Held, evidence.SameProcess},
	} {
		t.Run(test.name, func(t *testing.T) {
			switch {
			case test.evidence == evidence.Incomplete, test.name == "this process, its mark taken away":
				needsMarks(t)
			case test.evidence == evidence.PowerLost:
				needsLeases(t)
			}
			dir := t.TempDir()
			file := test.file
			file.Path = filepath.Join(dir, "lock")
			test.put(t, file.Path)
			before := treeState(t, dir)
			beforeAcquire := treeState(t, dir, "lock.flock")
			status := must(file.Inspect(context.Background()))(t)
			if status.State != test.state || status.Evidence != test.evidence {
				t.Errorf("Inspect: %s, %q; want %s, %q", status.State, status.Evidence, test.state, test.evidence)
			}
			sameTree(t, before, treeState(t, dir))

			held, err := file.TryAcquire(context.Background())
			if test.state == evidence.Dead {
				check(t, err)
				equal(t, getClaim(t, file.Path).Nonce, held.Info().Nonce, "on disk")
				isAbsent(t, file.Path+".reclaim")
				letGo(t, held)
				return
			}
			l := asLocked(t, err)
			if l.Evidence != test.evidence || l.State != test.state {
				t.Errorf("TryAcquire: %s, %q; want %s, %q", l.State, l.Evidence, test.state, test.evidence)
			}
			equal(t, l.Info == nil, status.Info == nil, "holder is", l.Info, "for TryAcquire,", status.Info, "for Inspect")
			sameTree(t, beforeAcquire, treeState(t, dir, "lock.flock"))
		})
	}
}

// mark marks a file as ours are.
func mark(t *testing.T, path string) {
	t.Helper()
	check(t, os.Chmod(path, 0o600|os.ModeSticky))
}

// TestInspect_WhileHeld: the state is held, the evidence the kernel lock, and
// looking disturbs nobody.
func TestInspect_WhileHeld(t *testing.T) { // guards: S7
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock"), Cmd: "work"}
	held := tryHold(t, file)
	before := treeState(t, dir)
	status, err := file.Inspect(context.Background())
	check(t, err)
	if status.State != evidence.Held || status.Evidence != evidence.KernelLockHeld || status.Info == nil || status.Info.Cmd != "work" {
		t.Errorf("status is %+v", status)
	}
	sameTree(t, before, treeState(t, dir))
	letGo(t, held)

	before = treeState(t, dir)
	if status, err = file.Inspect(context.Background()); err != nil || status.State != evidence.Free || status.Info != nil {
		t.Errorf("after Release: %+v, %v", status, err)
	}
	sameTree(t, before, treeState(t, dir))

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	wantErr(t, errOf(file.Inspect(ended)), context.Canceled, "with a context that is over")
}

// TestInspect_RemovedMeanwhile: what was removed after it was opened is nobody's lock any
// more, and no dead holder's.
func TestInspect_RemovedMeanwhile(t *testing.T) {
	f := queued(t)
	leaveDeadClaim(t, f.Path)
	looker := f.Park(func(step string) {
		if step == lock.StepPeeked {
			check(t, os.Remove(f.Path))
		}
	})
	if s, err := looker.Inspect(t.Context()); err != nil || s.State != evidence.Free || s.Info != nil {
		t.Errorf("%+v, %v; want it free", s, err)
	}
}

// TestInspect_ItsFileRemoved: a lock whose file was removed by hand is still held, by whoever
// has the queue, readers too, and nobody is named dead or free.
func TestInspect_ItsFileRemoved(t *testing.T) {
	for name, shared := range map[string]bool{"exclusive": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			f := queued(t)
			f.Shared = shared
			held := tryHold(t, f)
			check(t, os.Remove(f.Path))
			wantStatus(t, inspect(t, f), evidence.Held, evidence.KernelLockHeld)
			wantErr(t, held.Release(), lock.ErrLost)
			equal(t, inspect(t, f).State, evidence.Free, "after Release")
		})
	}
}
