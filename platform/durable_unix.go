//go:build unix

package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives the file to the old one's owner and group, as far as that is permitted, and
// returns the mode that it is to have.
func keepOwner(f *os.File, old fs.FileInfo) (fs.FileMode, error) {
	was := old.Sys().(*syscall.Stat_t)
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	is := info.Sys().(*syscall.Stat_t)
	// One by one: a process that may not give away a file may still set its group.
	var group, owner error
	if is.Gid != was.Gid {
		group = f.Chown(-1, int(was.Gid))
	}
	if is.Uid != was.Uid {
		owner = f.Chown(int(was.Uid), -1)
	}
	for _, err := range []error{group, owner} {
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return 0, err
		}
	}
	mode := old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	if group != nil {
		mode &^= 0o070 &^ (mode & 0o007 << 3) // ours gets no more than everybody has
	}
	if group != nil || owner != nil {
		mode = mode.Perm() // what was to run as somebody else must not run as us
	}
	return mode, nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // a filesystem that can't sync a folder
	}
	return errors.Join(err, d.Close())
}
