package platform

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// listKernelLocks reads lines of the form
//
//	1: FLOCK  ADVISORY  WRITE 1234 fd:00:131090 0 EOF
//	1: -> FLOCK  ADVISORY  WRITE 1235 fd:00:131090 0 EOF
//	2: -> OFDLCK ADVISORY  WRITE -1 fd:00:131090 1 1
//
// where the arrow marks a waiter's. A lock of an open file has no pid. Source: proc_pid_locks(5),
// fs/locks.c lock_get_status.
func listKernelLocks() (KernelLocks, error) {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return KernelLocks{}, err
	}
	defer f.Close()
	locks := KernelLocks{held: map[lockedFile]struct{}{}, waiting: map[lockedFile][]int{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		waits := len(field) > 1 && field[1] == "->"
		if waits {
			field = field[1:]
		}
		if len(field) < 6 || field[1] != "FLOCK" && !(waits && field[1] == "OFDLCK") {
			continue
		}
		var file lockedFile
		if _, err := fmt.Sscanf(field[5], "%x:%x:%d", &file.major, &file.minor, &file.ino); err != nil {
			continue
		}
		if waits {
			pid, _ := strconv.Atoi(field[4])
			locks.waiting[file] = append(locks.waiting[file], max(0, pid))
		} else {
			locks.held[file] = struct{}{}
		}
	}
	return locks, lines.Err()
}

func (id FileID) locked() lockedFile {
	return lockedFile{major: unix.Major(id.Dev), minor: unix.Minor(id.Dev), ino: id.Ino}
}
