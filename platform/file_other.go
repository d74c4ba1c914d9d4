//go:build js || plan9 || wasip1

package platform

import (
	"io/fs"
	"os"
)

const openNonBlock = 0

func identifyFile(path string) (FileID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return FileID{}, err
	}
	id, ok := identity(info)
	if !ok {
		return FileID{}, &fs.PathError{Op: "lstat", Path: path, Err: fs.ErrInvalid}
	}
	return id, nil
}

func sameFile(id FileID, _ string, info fs.FileInfo) bool {
	other, ok := identity(info)
	return ok && id.Dev == other.Dev && id.Ino == other.Ino
}

func createFile(path string, incomplete bool) (*os.File, error) {
	mode := fs.FileMode(0o600)
	if incomplete {
		mode = 0o200
	}
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
}

func markComplete(f *os.File) error { return f.Chmod(0o600) }

// isIncomplete sees no mark where there are no modes: on wasip1, for which
// package syscall makes up 0600, and under Node.js on Windows.
func isIncomplete(info fs.FileInfo) bool { return info.Mode() == 0o200 }

// isNoLocks: see lockError. There are no locks to be had anyway.
func isNoLocks(error) bool { return false }

// replaceFile is not atomic on Plan 9, which can't rename over a file: package os
// removes the one at to first. Nor can it move a file to another folder there.
func replaceFile(from, to string) error { return os.Rename(from, to) }

func renameNew(from, to string) error { return linkNew(from, to) }
