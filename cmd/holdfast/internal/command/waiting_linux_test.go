package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// TestWaiters: who waits is told by status and list, by pid and since when.
func TestWaiters(t *testing.T) {
	testkit.NeedsKernelList(t)
	path := filepath.Join(t.TempDir(), "a.lock")
	holder, err := lock.File{Path: path}.TryAcquire(t.Context())
	testkit.Check(t, err)
	defer holder.Release() // of a test that is skipped
	var waiters []*process
	for range 2 { // one at the lock, and one at the turnstile
		waiters = append(waiters, start(t, "run", path, "--", "true"))
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			s, err := lock.File{Path: path}.Inspect(t.Context())
			testkit.Check(t, err)
			if len(s.Waiters) == len(waiters) {
				break
			}
			if time.Now().After(deadline) {
				t.Skip("needs a temporary folder on a filesystem whose files /proc/locks names (ext4, xfs, tmpfs)")
			}
		}
	}
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, "waiting", "2: pid ")
	var pids []string
	for _, w := range waiters {
		pids = append(pids, fmt.Sprint(w.cmd.Process.Pid))
		wantText(t, stdout, "pid "+fmt.Sprint(w.cmd.Process.Pid), " for ")
	}
	stdout, _ = wantCode(t, exitOK, "list", "--waiting", filepath.Dir(path))
	wantText(t, stdout, append(pids, "waiting", "1 lock: 1 held, 0 free, 0 dead, 0 unknown; 2 waiting")...)
	line, _ := wantCode(t, exitHeld, "status", "--json", path)
	var s lock.Status
	if err := json.Unmarshal([]byte(line), &s); err != nil || len(s.Waiters) != 2 || s.Waiters[1].PID != waiters[1].cmd.Process.Pid || s.Waiters[1].Since.IsZero() {
		t.Errorf("%s, %v", line, err)
	}
	testkit.Check(t, holder.Release())
	for _, w := range waiters {
		if code, _, stderr := w.finish(); code != exitOK {
			t.Error(code, stderr)
		}
	}
}

// TestReadersAreNamed: those who read, and not the first of them, who has left.
func TestReadersAreNamed(t *testing.T) {
	testkit.NeedsKernelList(t)
	path := filepath.Join(t.TempDir(), "a.lock")
	first, err := lock.File{Path: path, Shared: true}.TryAcquire(t.Context())
	testkit.Check(t, err)
	defer first.Release() // of a test that is skipped
	second, err := lock.File{Path: path, Shared: true}.TryAcquire(t.Context())
	testkit.Check(t, err)
	defer second.Release()
	if s, err := (lock.File{Path: path}).Inspect(t.Context()); err != nil || len(s.Processes) != 2 {
		t.Skip("needs a temporary folder on a filesystem whose files /proc/locks names (ext4, xfs, tmpfs): ", err)
	}
	stdout, _ := wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, "readers   2: pid "+fmt.Sprint(os.Getpid()), "wait for them")
	testkit.Check(t, first.Release())
	stdout, _ = wantCode(t, exitHeld, "status", path)
	wantText(t, stdout, "readers   1: pid "+fmt.Sprint(os.Getpid()))
	testkit.Check(t, second.Release())
}
