package platform

import (
	"io"
	"io/fs"
	"os"
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
	file, err := openToLock(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	cmd := unix.F_OFD_SETLK
	if wait {
		cmd = unix.F_OFD_SETLKW
	}
	switch err := file.lockByte1(cmd, unix.F_WRLCK); err {
	case nil:
		return &Turnstile{file: file}, nil
	case unix.EAGAIN, unix.EACCES:
		file.done()
		return nil, ErrBusy
	default:
		file.done()
		return nil, &fs.PathError{Op: "turnstile", Path: path, Err: err}
	}
}

// tryUnqueued asks for the turnstile, without taking it: whoever takes it from then on
// came later.
func tryUnqueued(path string) (*KernelLock, error) {
	file, err := openToLock(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	defer file.done()
	byte1 := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 1, Len: 1}
	err = again(func() error { return unix.FcntlFlock(uintptr(file.fd), unix.F_OFD_GETLK, &byte1) })
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "turnstile", Path: path, Err: err}
	case byte1.Type != unix.F_UNLCK:
		return nil, ErrBusy
	}
	return file.kernelLock(Exclusive, false)
}

// openTurnstile unlocks before it closes, for the reason that KernelLock.Unlock
// gives. Neither can fail in a way that keeps the lock.
func openTurnstile(file *openFile) {
	_ = file.lockByte1(unix.F_OFD_SETLK, unix.F_UNLCK)
	file.done()
}

func (f *openFile) lockByte1(cmd int, kind int16) error {
	byte1 := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: 1, Len: 1}
	return again(func() error { return unix.FcntlFlock(uintptr(f.fd), cmd, &byte1) })
}
