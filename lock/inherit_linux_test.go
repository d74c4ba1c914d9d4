package lock_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// inherit is shareFile for callers who close it. The file may have lost its name, if the
// process has no other that has it.
func inherit(t *testing.T, pid int, path string) (ours int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Skip("needs pidfds, to share an open file: ", err)
	}
	defer unix.Close(pidfd)
	for at := range 2 * 1024 {
		fd, name := at%1024, path
		if at >= 1024 {
			name += " (deleted)"
		}
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || to != name {
			continue
		}
		if ours, err = unix.PidfdGetfd(pidfd, fd, 0); err != nil {
			t.Skip("needs the right to share an open file of a child's child: ", err)
		}
		return ours
	}
	t.Fatalf("pid %d does not have %s open", pid, path)
	return 0
}
