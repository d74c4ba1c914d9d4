//go:build unix

package pgtest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Unprivileged returns what makes the server run as an ordinary user, as it refuses to run as
// root: nothing, for a user that is not root.
func Unprivileged() *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid := owner()
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func owner() (uid, gid int) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return uid, gid
		}
	}
	return 65534, 65534
}

// giveAway makes a folder the server's, which others may enter for its socket.
func giveAway(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil || os.Getuid() != 0 {
		return err
	}
	uid, gid := owner()
	return os.Chown(dir, uid, gid)
}
