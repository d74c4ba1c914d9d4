//go:build !portable

package platform

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const ownLocks = true

func (d *descriptor) lock(_ string, mode Mode, wait bool) error {
	how := unix.LOCK_EX
	if mode == Shared {
		how = unix.LOCK_SH
	}
	if !wait {
		how |= unix.LOCK_NB
	}
	err := again(func() error { return unix.Flock(d.fd, how) })
	if err == unix.EWOULDBLOCK {
		return ErrBusy
	}
	return err
}

func (d *descriptor) unlock() error {
	return again(func() error { return unix.Flock(d.fd, unix.LOCK_UN) })
}

// hasTurnstile asks once, of a file that is always there.
var hasTurnstile = sync.OnceValue(func() bool {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &unix.Flock_t{Type: unix.F_WRLCK}) == nil
})

func (d *descriptor) lockByte1(wait bool) error {
	cmd := unix.F_OFD_SETLK
	if wait {
		cmd = unix.F_OFD_SETLKW
	}
	err := d.byteLock(cmd, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 1, Len: 1})
	if err == unix.EAGAIN || err == unix.EACCES {
		return ErrBusy
	}
	return err
}

// unlockByte1 can't fail in a way that keeps the lock.
func (d *descriptor) unlockByte1() {
	_ = d.byteLock(unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart, Start: 1, Len: 1})
}

// byteLocked: a length of 0 means the whole file.
func (d *descriptor) byteLocked(start, length int64) (bool, error) {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: start, Len: length}
	err := d.byteLock(unix.F_OFD_GETLK, &l)
	return l.Type != unix.F_UNLCK, err
}

func (d *descriptor) byteLock(cmd int, l *unix.Flock_t) error {
	return again(func() error { return unix.FcntlFlock(uintptr(d.fd), cmd, l) })
}

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
	locks := KernelLocks{held: map[FileID][]int{}, waiting: map[FileID][]int{}}
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
		file, err := parseLocked(field[5])
		if err != nil {
			continue
		}
		of := locks.held
		if waits {
			of = locks.waiting
		}
		pid, _ := strconv.Atoi(field[4])
		of[file] = append(of[file], max(0, pid))
	}
	return locks, lines.Err()
}

// parseLocked reads major and minor number in hexadecimal, and an inode in decimal.
func parseLocked(s string) (FileID, error) {
	major, rest, _ := strings.Cut(s, ":")
	minor, ino, _ := strings.Cut(rest, ":")
	maj, err1 := strconv.ParseUint(major, 16, 32)
	min, err2 := strconv.ParseUint(minor, 16, 32)
	n, err3 := strconv.ParseUint(ino, 10, 64)
	return FileID{Dev: unix.Mkdev(uint32(maj), uint32(min)), Ino: n}, errors.Join(err1, err2, err3)
}

// hasOnlyLock goes through /proc/<pid>/fdinfo, where the flags of a descriptor, in octal,
// and the locks of its open file are told:
//
//	flags:	02404002
//	lock:	1: FLOCK  ADVISORY  WRITE 1234 fd:00:131090 0 EOF
//
// Source: proc_pid_fdinfo(5), fs/proc/fd.c seq_show, fs/locks.c show_fd_locks.
func hasOnlyLock(pid int, id FileID) bool {
	const ours = unix.O_NOFOLLOW | unix.O_NONBLOCK
	folder := "/proc/" + strconv.Itoa(pid) + "/fdinfo/"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	found := false
	for _, entry := range entries {
		info, err := os.ReadFile(folder + entry.Name())
		if err != nil {
			continue // closed since
		}
		var flags uint64
		for line := range strings.Lines(string(info)) {
			field := strings.Fields(line)
			if len(field) == 2 && field[0] == "flags:" {
				flags, _ = strconv.ParseUint(field[1], 8, 64)
			}
			if len(field) < 7 || field[0] != "lock:" || field[2] != "FLOCK" {
				continue
			}
			file, err := parseLocked(field[6])
			if err != nil || found || file != id || flags&ours != ours {
				return false
			}
			found = true
		}
	}
	return found
}
