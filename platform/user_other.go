//go:build !linux

package platform

import (
	"io/fs"
	"os"
	"os/user"
	"strconv"
)

func userName(uid int) string {
	u, err := user.Current()
	if err == nil && uid >= 0 && u.Uid != strconv.Itoa(uid) {
		u, err = user.LookupId(strconv.Itoa(uid))
	}
	if err != nil {
		return ""
	}
	return u.Username
}

func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

// ownerOf: sticky folders are looked at on Linux alone; elsewhere removing tells.
func ownerOf(fs.FileInfo) int { return os.Geteuid() }
