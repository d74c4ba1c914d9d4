package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStock_Threads: a thread that waits in the kernel is found.
func TestStock_Threads(t *testing.T) {
	if _, err := os.ReadFile("/proc/self/syscall"); err != nil {
		t.Skip("needs /proc/PID/syscall, to see what threads wait for: ", err)
	}
	path := filepath.Join(t.TempDir(), "lock")
	holder, err := os.Create(path)
	Check(t, err)
	defer holder.Close()
	Check(t, unix.Flock(int(holder.Fd()), unix.LOCK_EX))
	before := takeStock()
	waiter, err := os.Open(path)
	Check(t, err)
	defer waiter.Close()
	done := make(chan error)
	go func() { done <- unix.Flock(int(waiter.Fd()), unix.LOCK_EX) }()
	Eventually(t, "the thread is found", func() bool {
		return strings.Contains(strings.Join(takeStock().beyond(before), "\n"), fmt.Sprint("is in system call ", unix.SYS_FLOCK))
	})
	Check(t, unix.Flock(int(holder.Fd()), unix.LOCK_UN))
	Check(t, <-done)
}
