package platform

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// listKernelLocks reads lines of the form
//
//	1: FLOCK  ADVISORY  WRITE 1234 fd:00:131090 0 EOF
//
// A line with "->" after its number is a waiter's. Source: proc_pid_locks(5),
// fs/locks.c lock_get_status.
func listKernelLocks() (KernelLocks, error) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	locks := KernelLocks{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) < 6 || field[1] != "FLOCK" {
			continue
		}
		var file lockedFile
		if _, err := fmt.Sscanf(field[5], "%x:%x:%d", &file.major, &file.minor, &file.ino); err == nil {
			locks[file] = struct{}{}
		}
	}
	return locks, lines.Err()
}

func (id FileID) locked() lockedFile {
	return lockedFile{major: unix.Major(id.Dev), minor: unix.Minor(id.Dev), ino: id.Ino}
}
