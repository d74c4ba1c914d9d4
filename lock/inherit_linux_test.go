package lock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inherit is shareFile for callers who close it. The file may have lost its name.
func inherit(t *testing.T, pid int, path string) (ours int) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Skip("needs pidfds, to share an open file: ", err)
	}
	defer unix.Close(pidfd)
	for fd := range 1024 {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if err != nil || strings.TrimSuffix(to, " (deleted)") != path {
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
