package platform

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const kernelLocks = true

// An openFile is a file that is opened to be locked, by a KernelLock, a Turnstile, or
// both at once: the kernel keeps flock(2) and byte-range locks for one open file side
// by side. It is closed when none of them needs it any more.
//
// It is a bare descriptor: package os would ask for it to be polled, which a regular
// file can't be, and prepare for its being garbage.
type openFile struct {
	path  string
	fd    int
	dev   uint64
	ino   uint64
	users atomic.Int32
	// locked is set by the one user who has, or asks for, the kernel lock: a second
	// flock(2) would convert that of the first.
	locked atomic.Bool
}

// openToLock opens a regular file, for its caller as the first user. That it is opened
// non-blocking makes no difference to its locks, but a FIFO would block. A regular file
// says EAGAIN when somebody has a lease on it, which only an open that waits can break.
func openToLock(path string, flag int) (*openFile, error) {
	flag |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	var fd int
	open := func() (err error) { fd, err = unix.Open(path, flag, 0o600); return err }
	err := again(open)
	if err == unix.EAGAIN {
		flag &^= unix.O_NONBLOCK
		err = again(open)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	if err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := &openFile{path: path, fd: fd, dev: uint64(st.Dev), ino: st.Ino}
	f.users.Store(1)
	return f, nil
}

// again makes a system call anew as long as a signal ends it.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// join makes its caller a user, the one who locks the file, unless there is one or the
// file is closed already. That user leaves.
func (f *openFile) join() bool {
	for {
		n := f.users.Load()
		if n == 0 {
			return false
		}
		if f.users.CompareAndSwap(n, n+1) {
			break
		}
	}
	if f.locked.CompareAndSwap(false, true) {
		return true
	}
	f.done()
	return false
}

func (f *openFile) leave() {
	f.locked.Store(false)
	f.done()
}

// done is called once by each user.
func (f *openFile) done() {
	if f.users.Add(-1) == 0 {
		unix.Close(f.fd)
	}
}

func (f *openFile) lock(mode Mode, wait bool) error {
	how := unix.LOCK_EX
	if mode == Shared {
		how = unix.LOCK_SH
	}
	if !wait {
		how |= unix.LOCK_NB
	}
	err := f.flock(how)
	if err == unix.EWOULDBLOCK {
		return ErrBusy
	}
	return err
}

func (f *openFile) unlock() error { return f.flock(unix.LOCK_UN) }

func (f *openFile) flock(how int) error {
	return again(func() error { return unix.Flock(f.fd, how) })
}

// is reports whether id is the open file's.
func (f *openFile) is(id FileID, _ string) bool { return f.dev == id.Dev && f.ino == id.Ino }

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
		file, err := parseLocked(field[5])
		if err != nil {
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

// parseLocked reads major and minor number in hexadecimal, and an inode in decimal.
func parseLocked(s string) (lockedFile, error) {
	major, rest, _ := strings.Cut(s, ":")
	minor, ino, _ := strings.Cut(rest, ":")
	maj, err1 := strconv.ParseUint(major, 16, 32)
	min, err2 := strconv.ParseUint(minor, 16, 32)
	n, err3 := strconv.ParseUint(ino, 10, 64)
	return lockedFile{uint32(maj), uint32(min), n}, errors.Join(err1, err2, err3)
}

func (id FileID) locked() lockedFile {
	return lockedFile{major: unix.Major(id.Dev), minor: unix.Minor(id.Dev), ino: id.Ino}
}
