//go:build linux

package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

var longAgo = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)

// deadAndMarked is a lock whose holder, another program, is dead, with a marker
// beside it that holds what is given.
func deadAndMarked(t *testing.T, marker string) (f lock.File, path string) {
	t.Helper()
	f = signed(t, "me")
	f.StaleAfter = -1
	putFile(t, f.Path, []byte(`{"owner":"other","pid":2147483646,"when":"2020-01-02T03:04:05Z"}`), time.Time{})
	path = f.Path + ".reclaim"
	putFile(t, path, []byte(marker), longAgo)
	return f, path
}

// recovered is that the lock is to be had, and that nothing is left but its sibling.
func recovered(t *testing.T, f lock.File) {
	t.Helper()
	letGo(t, tryHold(t, f))
	equal(t, names(t, filepath.Dir(f.Path)), "lock.flock", "left behind")
}

// respected is that the lock is not to be had, because of the marker, which stays as
// it is, and so does the dead claim.
func respected(t *testing.T, f lock.File) {
	t.Helper()
	untouched(t, filepath.Dir(f.Path), func() {
		wantStatus(t, asLocked(t, tryErr(t, f)).Status, evidence.Unknown, evidence.BeingReclaimed)
	})
}

// TestAbandoned_Recovered: an empty marker that nobody has open for writing was left by
// a process that died.
func TestAbandoned_Recovered(t *testing.T) { // guards: S9
	needsLeases(t)
	f, _ := deadAndMarked(t, "")
	recovered(t, f)

	t.Run("somebody reads it", func(t *testing.T) {
		f, marker := deadAndMarked(t, "")
		open := must(os.Open(marker))(t)
		defer open.Close()
		recovered(t, f)
	})
	t.Run("of a clock that was set back since", func(t *testing.T) {
		f, marker := deadAndMarked(t, "")
		future := time.Now().Add(1000 * time.Hour)
		check(t, os.Chtimes(marker, future, future))
		recovered(t, f)
	})
	t.Run("read-only", func(t *testing.T) {
		f, marker := deadAndMarked(t, "")
		check(t, os.Chmod(marker, 0o444))
		recovered(t, f)
	})
}

// TestAbandoned_MakerKilled: while the process that made the marker lives, and has it
// open, the marker is respected; once it is killed, it is recovered.
func TestAbandoned_MakerKilled(t *testing.T) {
	needsLeases(t)
	f, marker := deadAndMarked(t, "")
	check(t, os.Remove(marker))
	maker := start(t, "marker-maker", marker)
	maker.Expect("made")
	respected(t, f)
	maker.Kill()
	check(t, os.Chtimes(marker, longAgo, longAgo))
	recovered(t, f)
}

func init() { roles["marker-maker"] = makeMarker }

// makeMarker makes a marker like a program that knows no more than that it is to be
// created and kept open.
func makeMarker(path string, orders *bufio.Scanner) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("made")
	orders.Scan() // for ever
	f.Close()
}

// TestAbandoned_Respected: a marker that may be somebody's is nobody else's.
func TestAbandoned_Respected(t *testing.T) { // guards: S9
	for name, flag := range map[string]int{"for writing": os.O_WRONLY, "for both": os.O_RDWR, "for appending": os.O_WRONLY | os.O_APPEND} {
		t.Run("open "+name, func(t *testing.T) {
			needsLeases(t)
			f, marker := deadAndMarked(t, "")
			open := must(os.OpenFile(marker, flag, 0))(t)
			respected(t, f)
			check(t, open.Close())
			recovered(t, f)
		})
	}
	for _, text := range []string{"\n", "\x00", "x", `{"owner":"other"}`} {
		t.Run("not empty", func(t *testing.T) {
			f, _ := deadAndMarked(t, text)
			respected(t, f)
		})
	}
	for name, make := range map[string]func(path string) error{
		"folder":  func(path string) error { return os.Mkdir(path, 0o755) },
		"FIFO":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"symlink": func(path string) error { return os.Symlink("nothing", path) },
		"symlink to an empty file": func(path string) error {
			return errors.Join(os.WriteFile(path+"ed", nil, 0o600), os.Symlink(path+"ed", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, marker := deadAndMarked(t, "")
			check(t, errors.Join(os.Remove(marker), make(marker)))
			respected(t, f)
		})
	}
	t.Run("without the kernel lock", func(t *testing.T) {
		f, _ := deadAndMarked(t, "")
		respected(t, f.WithoutKernelLock())
	})
}

// TestAbandoned_NotOurs: whether somebody else's file is open can only be asked by
// root and its owner; without an answer the marker is respected.
func TestAbandoned_NotOurs(t *testing.T) {
	testkit.NeedsRoot(t, "make a file of another user's")
	const dirVar = "HOLDFAST_TEST_DIR"
	if !testkit.IsChild() { // what only root can make
		f, marker := deadAndMarked(t, "")
		dir := filepath.Dir(f.Path)
		check(t, errors.Join(os.Chown(marker, 1, 1), os.Chmod(marker, 0o644), os.Chmod(f.Path, 0o644),
			os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o755)))
		t.Setenv(dirVar, dir)
	}
	if !asNobody(t) {
		return
	}
	f := signed(t, "me")
	f.Path = filepath.Join(os.Getenv(dirVar), "lock")
	f.StaleAfter = -1
	respected(t, f)
}

// TestAbandoned_LockFileIsNot: a lock file, other than a marker, may be empty and not
// open, and is nobody's to remove.
func TestAbandoned_LockFileIsNot(t *testing.T) {
	f := signed(t, "me")
	f.StaleAfter = -1
	putFile(t, f.Path, nil, longAgo)
	untouched(t, filepath.Dir(f.Path), func() {
		equal(t, asLocked(t, tryErr(t, f)).Evidence, evidence.NotALockFile, "evidence")
	})
}

// TestAbandoned_ClaimChanged: under the marker, be it one that was recovered, the dead
// claim is read again; whoever has come since keeps the lock.
func TestAbandoned_ClaimChanged(t *testing.T) { // guards: S8
	needsLeases(t)
	f, _ := deadAndMarked(t, "")
	winner := `{"owner":"winner","pid":1,"when":"2020-01-02T03:04:05Z"}`
	f = f.Park(func(step string) {
		if step == lock.StepMarkerWritten {
			putFile(t, f.Path, []byte(winner), time.Time{})
		}
	})
	if locked := asLocked(t, tryErr(t, f)); locked.Info == nil || locked.Info.Cmd != "winner" {
		t.Errorf("held by %+v", locked.Info)
	}
	equal(t, string(getFile(t, f.Path)), winner, "the winner's claim is now")
	equal(t, names(t, filepath.Dir(f.Path)), "lock lock.flock", "left")
}

// TestAbandoned_Crash: a reclaimer that finds an abandoned marker is killed at each of
// its steps; the next one needs no hand.
func TestAbandoned_Crash(t *testing.T) { // guards: S10
	needsLeases(t)
	for _, step := range lock.ReclaimSteps {
		path := filepath.Join(t.TempDir(), ".lock")
		leaveDeadClaim(t, path)
		putFile(t, path+".reclaim", nil, longAgo)
		parked := start(t, "parker", path)
		parked.Do(step, "parked")
		parked.Kill()
		takeOver(t, path)
		equal(t, names(t, filepath.Dir(path)), ".lock.flock", step, "left behind")
	}
}

// TestAbandoned_SomebodysData: a wait for a file of somebody's data, whose waiter has gone, lets
// go of it when it comes, though the data bear the mark, and age counts.
func TestAbandoned_SomebodysData(t *testing.T) {
	f := queued(t)
	f.StaleAfter = time.Hour
	putFile(t, f.Path, []byte("somebody's data"), time.Time{})
	check(t, os.Chmod(f.Path, 0o600|os.ModeSticky))
	theirs, err := platform.Open(f.Path, os.O_RDONLY)
	check(t, err)
	defer theirs.Close()
	check(t, theirs.TryLock(platform.Exclusive))
	ctx, cancel := context.WithCancel(t.Context())
	came := beginAcquire(t, ctx, f)
	parkedIs(t, 1)
	cancel()
	if o := get(t, came); !errors.Is(o.err, context.Canceled) {
		t.Error(o.err)
	}
	check(t, theirs.Unlock())
	parkedIs(t, 0)
	if string(getFile(t, f.Path)) != "somebody's data" {
		t.Error("they are gone")
	}
}
