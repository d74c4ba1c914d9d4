package platform

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func changeTime(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Ctim.Nano() }

// identifyFile uses statx(2), of Linux 4.11, for the time of birth. Where it is
// missing (older kernels, some sandboxes) lstat has the rest.
func identifyFile(path string) (FileID, error) {
	var st unix.Statx_t
	err := again(func() error {
		return unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st)
	})
	switch err {
	case nil:
		id := FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
		if st.Mask&unix.STATX_BTIME != 0 {
			id.Birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
		}
		return id, nil
	case unix.ENOSYS, unix.EPERM:
		info, err := os.Lstat(path)
		if err != nil {
			return FileID{}, err
		}
		st := info.Sys().(*syscall.Stat_t)
		return FileID{Dev: uint64(st.Dev), Ino: st.Ino}, nil
	}
	return FileID{}, &fs.PathError{Op: "statx", Path: path, Err: err}
}

// renameNew uses renameat2(2), of Linux 3.15. A filesystem that does not know the
// flag (NFS, some of FUSE) gives EINVAL, some sandboxes EPERM.
func renameNew(from, to string) error {
	err := again(func() error {
		return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	})
	switch err {
	case nil:
		return nil
	case unix.EINVAL, unix.ENOSYS, unix.EPERM:
		return linkNew(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

func beingWritten(path string) (bool, error) {
	f, err := OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close() // which gives up the lease, too
	switch _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err {
	case nil:
		return false, nil
	case unix.EAGAIN:
		return true, nil
	case unix.EINVAL: // a filesystem without leases
		return false, &fs.PathError{Op: "lease", Path: path, Err: errors.ErrUnsupported}
	default:
		return false, &fs.PathError{Op: "lease", Path: path, Err: err}
	}
}
