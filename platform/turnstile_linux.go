package platform

import (
	"io"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"
)

// hasTurnstile asks once, of a file that is always there.
var hasTurnstile = sync.OnceValue(func() bool {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &unix.Flock_t{Type: unix.F_WRLCK}) == nil
})

func takeTurnstile(path string, wait bool) (*Turnstile, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	for err == unix.EINTR {
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	cmd := unix.F_OFD_SETLK
	if wait {
		cmd = unix.F_OFD_SETLKW
	}
	byte1 := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 1, Len: 1}
	err = unix.FcntlFlock(uintptr(fd), cmd, &byte1)
	for err == unix.EINTR {
		err = unix.FcntlFlock(uintptr(fd), cmd, &byte1)
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "turnstile", Path: path, Err: ErrNotRegular}
	}
	if err == nil {
		return &Turnstile{fd: fd, dev: uint64(st.Dev), ino: st.Ino}, nil
	}
	unix.Close(fd)
	if err == unix.EAGAIN || err == unix.EACCES {
		return nil, ErrBusy
	}
	return nil, &fs.PathError{Op: "turnstile", Path: path, Err: err}
}

// openTurnstile unlocks before it closes, for the reason that KernelLock.Unlock
// gives. Neither can fail in a way that keeps the lock.
func openTurnstile(t *Turnstile) {
	byte1 := unix.Flock_t{Type: unix.F_UNLCK, Whence: io.SeekStart, Start: 1, Len: 1}
	_ = unix.FcntlFlock(uintptr(t.fd), unix.F_OFD_SETLK, &byte1)
	_ = unix.Close(t.fd)
}
