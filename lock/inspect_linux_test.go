//go:build !portable

package lock_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// TestInspect_Descriptors: the descriptors in a claim spare a look at all the locks of the
// machine, and change no answer. If they are wrong, missing, or hostile, the kernel's list
// tells.
func TestInspect_Descriptors(t *testing.T) {
	f := queued(t)
	holder := start(t, "member", f.Path)
	holder.Do("try", "held")
	status := inspect(t, f)
	if status.Info == nil || status.Info.LockFD <= 0 || status.Info.QueueFD <= 0 {
		t.Fatalf("the claim has no descriptors: %+v", status.Info)
	}
	claim, err := os.ReadFile(f.Path)
	check(t, err)
	own := fmt.Appendf(nil, `"lock_fd":%d`, status.Info.LockFD)
	queue := fmt.Appendf(nil, `"queue_fd":%d`, status.Info.QueueFD)
	ctx, cancel := context.WithCancel(t.Context())
	waiter := beginAcquire(t, ctx, f)
	parkedIs(t, 1)
	for name, change := range map[string][2][]byte{
		"as they are":       {own, own},
		"of another file":   {own, fmt.Appendf(nil, `"lock_fd":%d`, status.Info.QueueFD)},
		"of nothing":        {own, []byte(`"lock_fd":99`)},
		"negative":          {own, []byte(`"lock_fd":-8`)},
		"out of all bounds": {own, []byte(`"lock_fd":9223372036854775807`)},
		"no queue":          {queue, []byte(`"queue_fd":0`)},
		"another queue":     {queue, fmt.Appendf(nil, `"queue_fd":%d`, status.Info.LockFD)},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, os.WriteFile(f.Path, bytes.Replace(claim, change[0], change[1], 1), 0o600))
			s := inspect(t, f)
			if s.State != lock.StateHeld || s.Evidence != lock.EvidenceKernelLockHeld || s.Info == nil || s.Info.PID != holder.Cmd.Process.Pid {
				t.Errorf("%+v", s)
			}
			if !slices.ContainsFunc(s.Waiters, func(p lock.Process) bool { return p.PID == os.Getpid() }) {
				t.Errorf("the waiter is not seen: %+v", s.Waiters)
			}
		})
	}
	cancel()
	get(t, waiter)
	check(t, os.WriteFile(f.Path, claim, 0o600))
	holder.Kill()
	parkedIs(t, 0)
	// Descriptors of a process that has others by now, or none, prove nothing.
	if s := inspect(t, f); s.State == lock.StateHeld {
		t.Errorf("its holder was killed: %+v", s)
	}
	other := lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
	held := tryHold(t, other)
	defer letGo(t, held)
	mine := held.Info()
	text := fmt.Sprintf(`{"pid":%d,"created_at":"2026-01-02T03:04:05Z","holdfast":1,"released":false,"boot_id":%q,"pid_ns":%d,"start":1,"pidfd":1,"hostname":%q,"kernel_lock":"ext4:1:2","lock_fd":%d,"queue_fd":%d}`,
		os.Getpid(), mine.BootID, mine.PIDNamespace, mine.Hostname, mine.LockFD, mine.QueueFD)
	check(t, os.WriteFile(f.Path, []byte(text), 0o600))
	if s := inspect(t, f); s.State == lock.StateHeld {
		t.Errorf("its descriptors are locks of another file: %+v", s)
	}
}
