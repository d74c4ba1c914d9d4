//go:build unix && (!linux || portable)

package platform

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	openNoFollow = syscall.O_NOFOLLOW
	openNonBlock = syscall.O_NONBLOCK
)

// keepsMarks: the BSDs let only root make a regular file sticky.
const keepsMarks = false

func createFile(path string, _ bool) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

func identify(f *os.File) (FileID, error) { return identity(f.Stat()) }

func identifyAt(_ string, info fs.FileInfo) (FileID, error) { return identity(info, nil) }

func identity(info fs.FileInfo, err error) (FileID, error) {
	if err != nil {
		return FileID{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return FileID{Dev: uint64(st.Dev), Ino: uint64(st.Ino)}, nil
}

func links(info fs.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }

func renameNew(from, to string) error { return linkNew(from, to) }

func isMarked(fs.FileInfo) bool { return false }
