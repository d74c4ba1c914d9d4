//go:build unix

package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// isNotRegular tells what open(2) says of a link, a socket and a folder.
func isNotRegular(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EISDIR)
}

// isNoLinks: see File.Link. EPERM is what link(2) says of vfat.
func isNoLinks(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EMLINK) || errors.Is(err, errors.ErrUnsupported)
}

// isNoLocks: see File.TryLock.
func isNoLocks(err error) bool { return errors.Is(err, syscall.ENOLCK) }

// removeFile calls unlink(2) itself: os.Remove would go on to rmdir(2), and a
// directory at a lock's path is somebody else's lock.
func removeFile(path string) error {
	if err := again(func() error { return syscall.Unlink(path) }); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// again makes a system call anew as long as a signal ends it.
func again(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

func replaceFile(from, to string) error { return os.Rename(from, to) }
