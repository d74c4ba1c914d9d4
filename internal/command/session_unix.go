//go:build unix

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A keeper listens at a socket, whose name is the nonce, in a folder that is this user's
// alone: so nobody else can ask.

// checkSessions returns an error where no session can be begun.
func checkSessions() error {
	_, err := sessionDir()
	return err
}

// dialSession connects to the keeper of a session. It looks wherever this user's keepers may
// listen. The error is errNoSession if there is none. A dead one's socket is removed. A
// folder that can't be one of sockets is an error only if none of the others has it.
func dialSession(nonce string) (net.Conn, error) {
	none := errNoSession
	for _, dir := range sessionDirs() {
		if err := checkOwnFolder(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			none = err
			continue
		}
		at := filepath.Join(dir, nonce)
		if len(at) > maxSocketPath { // none was ever made there
			continue
		}
		c, err := net.DialTimeout("unix", at, answerWithin)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, fs.ErrNotExist):
		case strings.Contains(err.Error(), "refused"): // as in clearSocket
			_ = os.Remove(at) // no other keeper ever has that name
		default:
			return nil, err
		}
	}
	return nil, none
}

// sessionDirs are the folders in which keepers of this user may listen, the best one first.
func sessionDirs() (dirs []string) {
	// Under su or sudo the variable may still be another user's.
	if base := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) && isOwn(base) {
		dirs = append(dirs, filepath.Join(base, "holdfast"))
	}
	temp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return dirs
	}
	return append(dirs, filepath.Join(temp, fmt.Sprintf("holdfast-%d", os.Geteuid())))
}

// sessionDir returns the folder in which a new keeper listens. It makes the folder.
func sessionDir() (string, error) {
	dir := sessionDirs()[0]
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("the folder for sockets of sessions: %w", err)
	}
	if len(dir)+1+len("ABCDEFGHIJKLMNOPQRSTUVWXYZ") > maxSocketPath {
		return "", fmt.Errorf("the path of a socket has room for %d bytes, and %s takes too many of them; set XDG_RUNTIME_DIR to a shorter one", maxSocketPath, dir)
	}
	return dir, checkOwnFolder(dir)
}

// maxSocketPath is the least of any system, without the NUL (macOS and the BSDs).
const maxSocketPath = 103

// listenForSession listens at the socket of a session, which closing removes.
func listenForSession(nonce string) (l net.Listener, err error) {
	dir, err := sessionDir()
	if err != nil {
		return nil, err
	}
	ownerOnly(func() { l, err = net.Listen("unix", filepath.Join(dir, nonce)) })
	return l, err
}

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
