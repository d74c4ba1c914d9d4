//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package platform

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func identify(pid int) (Process, error) {
	p := Process{PID: pid}
	if Probe(p) == Gone {
		return p, os.ErrProcessDone
	}
	return p, nil
}

// watchExit has the kernel tell by kqueue. The event is tied to the process that has the
// pid now, and not to the number. A zombie is no process to it. Source: kqueue(2).
func watchExit(p Process, gone func()) (stop func(), err error) {
	kq, err := unix.Kqueue()
	if err != nil {
		return nil, os.NewSyscallError("kqueue", err)
	}
	unix.CloseOnExec(kq)
	var event unix.Kevent_t
	unix.SetKevent(&event, p.PID, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	event.Fflags = unix.NOTE_EXIT
	if _, err := unix.Kevent(kq, []unix.Kevent_t{event}, nil, nil); err != nil {
		unix.Close(kq)
		if err == unix.ESRCH {
			return nil, os.ErrProcessDone
		}
		return nil, errors.ErrUnsupported // another user's
	}
	var stopped atomic.Bool
	go func() {
		defer unix.Close(kq)
		// Not every system has an event by which to end the wait.
		limit := unix.NsecToTimespec(int64(time.Second))
		events := make([]unix.Kevent_t, 1)
		for !stopped.Load() {
			if n, _ := unix.Kevent(kq, nil, events, &limit); n > 0 {
				gone()
				return
			}
		}
	}()
	return func() { stopped.Store(true) }, nil
}
