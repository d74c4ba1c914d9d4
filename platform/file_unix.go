//go:build unix

package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const (
	openNoFollow = syscall.O_NOFOLLOW
	openNonBlock = syscall.O_NONBLOCK
)

func isIncomplete(info fs.FileInfo) bool { return info.Mode() == 0o200 }

// isNoLocks: see lockError.
func isNoLocks(err error) bool { return errors.Is(err, syscall.ENOLCK) }

// removeFile calls unlink(2) itself: os.Remove would go on to rmdir(2), and a
// directory at a lock's path is somebody else's lock.
func removeFile(path string) error {
	for {
		err := syscall.Unlink(path)
		if err == nil {
			return nil
		}
		if err != syscall.EINTR {
			return &fs.PathError{Op: "remove", Path: path, Err: err}
		}
	}
}

func replaceFile(from, to string) error { return os.Rename(from, to) }
