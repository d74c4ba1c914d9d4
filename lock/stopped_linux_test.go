package lock_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

func TestStoppedHolderKeepsLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	stopped := start(t, "holder", path)
	stopped.do("try", "held")
	if err := stopped.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitForState(t, stopped.cmd.Process.Pid, 'T')
	locked := wantLocked(t, path)
	if locked.Evidence != lock.KernelLockHeld || locked.Info == nil || locked.Info.PID != stopped.cmd.Process.Pid {
		t.Errorf("got %v, want the stopped process named, and the kernel lock as evidence", locked)
	}
}

// waitForState waits until /proc shows a process in a state.
func waitForState(t *testing.T, pid int, state byte) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.Index(stat, ')'); stat[i+2] == state {
			return
		}
	}
	t.Fatalf("pid %d never got to state %c", pid, state)
}
