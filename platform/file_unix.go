//go:build unix && (!linux || portable)

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

// keepsMarks: the BSDs let only root make a regular file sticky.
const keepsMarks = false

func openFile(path string, flag int, _ bool, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag|openNoFollow|openNonBlock, perm)
}

func describe(_ string, info fs.FileInfo, _ *os.File) (Info, FileID, error) {
	i, st := infoOf(info), info.Sys().(*syscall.Stat_t)
	i.Links, i.Owner = uint64(st.Nlink), int(st.Uid)
	return i, FileID{Dev: uint64(st.Dev), Ino: uint64(st.Ino)}, nil
}

func removeFile(path string) error { return syscall.Unlink(path) }

func renameNew(string, string) error { return errors.ErrUnsupported }

func replaceFile(from, to string) error { return os.Rename(from, to) }

// isNotRegular tells what open(2) says of a link, a socket and a folder.
func isNotRegular(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EISDIR)
}

// isNoLinks: EPERM is what link(2) says of a filesystem that has none.
func isNoLinks(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EMLINK) || errors.Is(err, errors.ErrUnsupported)
}

func isNoLocks(err error) bool { return errors.Is(err, syscall.ENOLCK) }
