package platform

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

// User returns the name of the user by whose rights this process works, or the user's number
// where there is no name here. It is looked up again only when the user changes.
func User() string {
	uid := os.Geteuid() // a process may change it
	known := lastUser.Load()
	if known == nil || known.uid != uid {
		known = &aUser{uid, UserName(uid)}
		lastUser.Store(known)
	}
	return known.name
}

type aUser struct {
	uid  int
	name string
}

var lastUser atomic.Pointer[aUser]

// UserName returns the name of a user, or the number where the name is not known.
func UserName(uid int) string {
	if name := userName(uid); name != "" {
		return name
	}
	if uid < 0 {
		return ""
	}
	return strconv.Itoa(uid)
}

// WorkingDir returns this process's working directory; "" where that has no name.
func WorkingDir() string { return workingDir() }

// KeptBySticky reports whether this process may not remove the file at path, of this owner,
// though it may write to the folder: in a sticky folder (/tmp) only the file's owner, the
// folder's and root may.
func KeptBySticky(path string, owner int) bool {
	self := os.Geteuid()
	if self <= 0 || owner == self {
		return false
	}
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	return err == nil && info.Mode()&fs.ModeSticky != 0 && ownerOf(info) != self
}
