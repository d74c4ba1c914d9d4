//go:build js || wasip1

package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openNoFollow is not passed on to Node.js. Open has looked before.
const openNoFollow, openNonBlock = 0, 0

const keepsMarks = false

func openFile(path string, flag int, _ bool, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag|openNoFollow|openNonBlock, perm)
}

func describe(_ string, info fs.FileInfo, _ *os.File) (Info, FileID, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Info{}, FileID{}, fs.ErrInvalid
	}
	i := infoOf(info)
	i.Links = uint64(st.Nlink)
	return i, FileID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
}

func removeFile(path string) error { return syscall.Unlink(path) }

func renameNew(string, string) error { return errors.ErrUnsupported }

func replaceFile(from, to string) error { return os.Rename(from, to) }

func isNotRegular(error) bool { return false }

func isNoLinks(error) bool { return true }

func isNoLocks(error) bool { return false }
