//go:build unix && !linux

package platform

import (
	"io/fs"
	"os"
	"syscall"
)

// sameFile reports whether id, which was found at path, and info are of one file.
func sameFile(id FileID, _ string, info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && id.Dev == uint64(st.Dev) && id.Ino == uint64(st.Ino)
}

// createFile opens the file itself: os.OpenFile would ask for it to be
// polled, in five further system calls, which a regular file can't be.
func createFile(path string, incomplete bool) (*os.File, error) {
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
