package lock_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

func init() {
	closeAll = func(path string) {
		for fd := range 1024 {
			if to, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil && strings.HasPrefix(to, path) {
				syscall.Close(fd)
			}
		}
	}
}

func TestStoppedHolderKeepsLock(t *testing.T) { // guards: E8
	path := filepath.Join(t.TempDir(), ".lock")
	stopped := start(t, "holder", path)
	stopped.Do("try", "held")
	stopped.Stop()
	locked := wantLocked(t, path)
	if locked.Evidence != evidence.KernelLockHeld || locked.Info == nil || locked.Info.PID != stopped.Cmd.Process.Pid {
		t.Errorf("got %v, want the stopped process named, and the kernel lock as evidence", locked)
	}
}

// TestOwnLock_DyingHolder: a holder whose kernel lock is free, and whose process is still
// there, is on its way out, and waited for a little.
func TestOwnLock_DyingHolder(t *testing.T) { // guards: S7
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: -1}
	holder := start(t, "member", f.Path)
	holder.Do("try", "held")
	holder.Do("close all", "closed") // as the kernel does when a process ends
	ended := false
	held, err := f.Park(func(step string) {
		if step == lock.StepDying {
			ended = true
			holder.Cmd.Process.Kill() // which takes effect a little later
		}
	}).TryAcquire(t.Context())
	if err != nil || !ended {
		t.Fatalf("%v; was it found alive: %v", err, ended)
	}
	letGo(t, held)
}

// TestOwnLock_Contradiction: the kernel lock is free, and the process lives. Two proofs that
// contradict each other are none.
func TestOwnLock_Contradiction(t *testing.T) { // guards: E1
	f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), StaleAfter: time.Nanosecond}
	holder := start(t, "member", f.Path)
	holder.Do("try", "held")
	holder.Do("close all", "closed")
	if l := notHad(t, f); l.Evidence != evidence.SameProcess || l.Info == nil || l.Info.PID != holder.Cmd.Process.Pid {
		t.Errorf("%+v", l)
	}
	holder.Kill()
	letGo(t, tryHold(t, f))
}
