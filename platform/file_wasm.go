//go:build js || wasip1

package platform

import (
	"io/fs"
	"syscall"
)

func identity(info fs.FileInfo, err error) (FileID, error) {
	if err != nil {
		return FileID{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}, fs.ErrInvalid
	}
	return FileID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

// removeFile: see the one for Unix.
func removeFile(path string) error {
	if err := syscall.Unlink(path); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}
