package platform

import (
	"io/fs"
	"os"
	"syscall"
)

// identity: a path number names one file of a server, and a file that takes a
// removed one's name has another. Source: intro(5).
func identity(info fs.FileInfo, err error) (FileID, error) {
	if err != nil {
		return FileID{}, err
	}
	d, ok := info.Sys().(*syscall.Dir)
	if !ok {
		return FileID{}, fs.ErrInvalid
	}
	return FileID{Dev: uint64(d.Type)<<32 | uint64(d.Dev), Ino: d.Qid.Path}, nil
}

// removeFile has to look first, as remove(5) takes empty directories as well. One
// that is put there in between is removed.
func removeFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "remove", Path: path, Err: syscall.EISDIR}
	}
	if err := syscall.Remove(path); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}
