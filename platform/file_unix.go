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

// sameFile reports whether id, which was found at path, and info are of one file.
func sameFile(id FileID, _ string, info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && id.Dev == uint64(st.Dev) && id.Ino == uint64(st.Ino)
}

// create opens the file itself: os.OpenFile would ask for it to be
// polled, in five further system calls, which a regular file can't be.
func create(path string, incomplete bool) (*os.File, error) {
	mode := uint32(0o600)
	if incomplete {
		mode = 0o200
	}
	for {
		fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY|syscall.O_CLOEXEC, mode)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != syscall.EINTR {
			return nil, &fs.PathError{Op: "create", Path: path, Err: err}
		}
	}
}

func markComplete(f *os.File) error { return f.Chmod(0o600) }

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
