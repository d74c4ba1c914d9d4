//go:build unix

package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner leaves the file its maker's where that can't be helped; kept is then
// false.
func keepOwner(f *os.File, old fs.FileInfo) (kept bool, err error) {
	was := old.Sys().(*syscall.Stat_t)
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	is := info.Sys().(*syscall.Stat_t)
	// One by one: who may not give away a file may still set its group.
	var group, owner error
	if is.Gid != was.Gid {
		group = f.Chown(-1, int(was.Gid))
	}
	if is.Uid != was.Uid {
		owner = f.Chown(int(was.Uid), -1)
	}
	for _, err := range []error{group, owner} {
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return false, err
		}
	}
	return group == nil && owner == nil, nil
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // a filesystem that has no such thing
	}
	return errors.Join(err, d.Close())
}
