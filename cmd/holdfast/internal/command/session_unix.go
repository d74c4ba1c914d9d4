//go:build unix

package command

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A keeper is asked to release the lock by SIGUSR1. Every other signal that ends it may come
// from a system that shuts down, or a terminal that closes, and says nothing of the work.
const releaseSignal = syscall.SIGUSR1

// releaseRequests returns a channel of requests to release the lock.
func releaseRequests() chan os.Signal {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, releaseSignal)
	return asked
}

// openRequests makes the keeper of a session reachable. A signal needs no more than its pid.
func openRequests(string, chan<- os.Signal) error { return nil }

// requestRelease asks a keeper to release the lock: by its pidfd, where the system has those.
func requestRelease(keeper *os.Process, _ string) error { return keeper.Signal(releaseSignal) }

// detached has a process started in a session of its own, without a terminal, and without
// any file that this one was handed: a lock of "holdfast run" above, a pipe of the shell.
func detached() (*syscall.SysProcAttr, error) {
	const most = 1 << 16
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, e := range entries {
			if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
				syscall.CloseOnExec(fd)
			}
		}
	} else {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return nil, os.NewSyscallError("getrlimit", err)
		}
		for fd := 3; fd < int(min(uint64(limit.Cur), most)); fd++ {
			syscall.CloseOnExec(fd)
		}
	}
	return &syscall.SysProcAttr{Setsid: true}, nil
}

// ignorePipes has writing to a pipe that nobody reads be an error, and not our end.
func ignorePipes() { signal.Ignore(syscall.SIGPIPE) }

// outputIsClosed reports whether standard output was closed when this program was started. Go's
// run-time opens /dev/null in its place, for reading and writing. A caller's own /dev/null is
// mostly for writing alone, and is as good an output as any; one for both can't be told
// from none.
func outputIsClosed() bool {
	const accessMode = syscall.O_RDONLY | syscall.O_WRONLY | syscall.O_RDWR
	null, err := os.Stat(os.DevNull)
	ours, err2 := os.Stdout.Stat()
	if err != nil || err2 != nil {
		return err2 != nil
	}
	flags, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_GETFL, 0)
	return err == nil && os.SameFile(null, ours) && flags&accessMode == syscall.O_RDWR
}
