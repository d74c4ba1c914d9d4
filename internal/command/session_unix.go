//go:build unix

package command

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

const hasSessions = true

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

// isOwn reports whether a folder is this user's.
func isOwn(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir() && int(info.Sys().(*syscall.Stat_t).Uid) == os.Geteuid()
}

// checkOwnFolder returns an error unless a folder is this user's alone, and no link.
func checkOwnFolder(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder, and so no place for sockets of sessions", dir)
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return fmt.Errorf("%s is another user's, and so no place for sockets of sessions", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is open to other users (mode %#o), and so no place for sockets of sessions", dir, info.Mode().Perm())
	}
	return nil
}
