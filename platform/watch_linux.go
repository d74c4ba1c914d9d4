package platform

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

func identify(pid int) (Process, error) {
	p := Process{PID: pid, PIDNamespace: Self().PIDNamespace, TimeNamespace: Self().TimeNamespace}
	fd, err := openPidfd(pid)
	if err == nil {
		defer unix.Close(fd)
		p.PIDFD = pidfdInode(fd)
	} else if !errors.Is(err, errors.ErrUnsupported) {
		return p, err
	}
	if procIsOurs() {
		p.Start, _ = startTime(strconv.Itoa(pid)) // 0 where it can't be seen
	}
	// Only if the process is still there is the start time that we read its own.
	if err == nil && exited(fd) || err != nil && Probe(p) == Gone {
		return p, os.ErrProcessDone
	}
	return p, nil
}

// openPidfd opens a pidfd. The error is os.ErrProcessDone if there is no such process, or
// errors.ErrUnsupported where the kernel or a sandbox has none to give.
func openPidfd(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch err {
	case nil:
		return fd, nil
	case unix.ESRCH, unix.EINVAL, unix.ENOENT: // see probe
		return -1, os.ErrProcessDone
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return -1, err
	}
	return -1, errors.ErrUnsupported
}

// watchExit waits for a pidfd to become readable, in the run-time's own poller.
func watchExit(p Process, gone func()) (stop func(), err error) {
	fd, err := openPidfd(p.PID)
	if err != nil {
		return nil, err
	}
	same := compareStart(p) != Replaced
	if ino := pidfdInode(fd); ino != 0 && p.PIDFD != 0 {
		same = ino == p.PIDFD
	}
	if !same || exited(fd) {
		unix.Close(fd)
		return nil, os.ErrProcessDone
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile has it polled
		unix.Close(fd)
		return nil, errors.ErrUnsupported
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, errors.ErrUnsupported
	}
	var stopped atomic.Bool
	over := make(chan struct{})
	go func() {
		defer f.Close()
		if raw.Read(func(fd uintptr) bool { return exited(int(fd)) }) == nil {
			gone()
			return
		}
		if stopped.Load() {
			return
		}
		// The run-time can't poll it (a sandbox's pidfd).
		stop, err := pollExit(p, gone)
		switch {
		case errors.Is(err, os.ErrProcessDone):
			gone()
		case err == nil:
			<-over
			stop()
		}
	}()
	return func() { stopped.Store(true); f.Close(); close(over) }, nil
}
