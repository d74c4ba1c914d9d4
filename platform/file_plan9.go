package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const openNoFollow, openNonBlock = 0, 0 // there are neither symbolic links nor FIFOs

const keepsMarks = false

func openFile(path string, flag int, _ bool, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag|openNoFollow|openNonBlock, perm)
}

// describe: a path number names one file of a server, and a file that takes a removed one's
// name has another. Source: intro(5).
func describe(_ string, info fs.FileInfo, _ *os.File) (Info, FileID, error) {
	d, ok := info.Sys().(*syscall.Dir)
	if !ok {
		return Info{}, FileID{}, fs.ErrInvalid
	}
	return infoOf(info), FileID{Dev: uint64(d.Type)<<32 | uint64(d.Dev), Ino: d.Qid.Path}, nil
}

// removeFile has to look first, as remove(5) takes empty directories as well. One
// that is put there in between is removed.
func removeFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	return syscall.Remove(path)
}

// replaceFile is not atomic, as a file can't be renamed over another: package os removes the
// one at to first. Nor can it move a file to another folder.
func replaceFile(from, to string) error { return os.Rename(from, to) }

func renameNew(string, string) error { return errors.ErrUnsupported }

func isNotRegular(error) bool { return false }

func isNoLinks(error) bool { return true }

func isNoLocks(error) bool { return false }
