package tests

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
)

// TestBetweenEventAndFile: a process is killed by SIGKILL in the system call that
// would have changed the claim's file, when the event is in the ledger. What it did
// stands; the next operation repairs the file, and appends no second event.
func TestBetweenEventAndFile(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace, to kill a process between two system calls")
	}
	for _, step := range []struct {
		do, file, call string
		after          time.Duration
		events         int
	}{
		{"claim", ".1.lock.holdfast-tmp", "openat", 0, 1},
		{"claim", ".1.lock.holdfast-tmp", "fsync", 0, 1},
		{"claim", ".1.lock.holdfast-tmp", "rename,renameat,renameat2", 0, 1},
		{"release", "1.lock", "unlink,unlinkat", 0, 2},
		{"reap", "1.lock", "unlink,unlinkat", time.Hour, 2},
	} {
		t.Run(step.do+" "+step.call, func(t *testing.T) {
			dir := t.TempDir()
			m := &claims.Manager{Dir: dir, Now: func() time.Time { return time.Now().Add(-step.after) }}
			if step.do != "claim" {
				check(t, errOf(m.Claim(t.Context(), "1", "dead")))
			}
			before := claimFiles(t, dir)
			cmd := play(t, "claim-once", dir, step.do)
			cmd.Args = append([]string{"strace", "-f", "-o", filepath.Join(t.TempDir(), "trace"), "-P", filepath.Join(dir, "locks", step.file),
				"-e", "trace=" + step.call, "-e", "inject=" + step.call + ":error=EIO:signal=SIGKILL", cmd.Path}, cmd.Args[1:]...)
			cmd.Path = strace
			err := cmd.Run()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != -1 && exit.ExitCode() != 137 {
				if exit != nil && len(claimEvents(t, dir)) == step.events-1 {
					t.Skipf("needs to be allowed to trace: %v", err)
				}
				t.Fatalf("it was not killed: %v", err)
			}

			// The event is there, and the file is as it was.
			events := claimEvents(t, dir)
			if len(events) != step.events {
				t.Fatalf("%d events, want %d", len(events), step.events)
			}
			left, _ := filepath.Glob(filepath.Join(dir, "locks", "*.lock"))
			if len(left) != len(before) {
				t.Fatalf("files: %v, before: %v", left, before)
			}

			m.Now = nil
			if ended, err := m.Reap(t.Context()); err != nil || len(ended) > 0 {
				t.Errorf("reaped %v, %v", ended, err)
			}
			agree(t, dir)
			if got := claimEvents(t, dir); len(got) != step.events {
				t.Errorf("%d events more: %v", len(got)-step.events, got)
			}
		})
	}
}
