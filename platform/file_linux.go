//go:build !portable

package platform

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const keepsMarks = true

// A descriptor is bare: package os would ask for it to be polled, in five further system
// calls, and a regular file can't be polled.
type descriptor struct{ fd int } // -1 once it is closed

// open: opening the file non-blocking makes no difference to a regular file, but a FIFO, or a
// lease, would block. Source: open(2), fcntl(2) F_SETLEASE.
func open(path string, flag int) (*File, error) {
	return newFile(path, flag|unix.O_NONBLOCK, 0o600)
}

func create(path string, mark bool, perm fs.FileMode) (*File, error) {
	mode := uint32(perm.Perm())
	if mark {
		mode |= unix.S_ISVTX
	}
	return newFile(path, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, mode)
}

// createUnnamed: O_TMPFILE is of Linux 3.11, and not of every filesystem (overlay has it since 6.1).
func createUnnamed(path string, perm fs.FileMode) (*File, error) {
	f := &File{path: path}
	err := again(func() (err error) {
		f.fd, err = openPath(filepath.Dir(path), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, uint32(perm.Perm())|unix.S_ISVTX)
		return err
	})
	if err != nil {
		return nil, f.error("open", err)
	}
	return f, nil
}

// giveName: an open file can be linked by its descriptor alone since Linux 6.10, by the user that has
// opened it; before that, by /proc. Source: open(2), O_TMPFILE; linkat(2), AT_EMPTY_PATH.
func (d *descriptor) giveName(path string) error {
	err := again(func() error { return unix.Linkat(d.fd, "", unix.AT_FDCWD, path, unix.AT_EMPTY_PATH) })
	if err == nil || err == unix.EEXIST {
		return err
	}
	return again(func() error {
		return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(d.fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	})
}

func newFile(path string, flag int, mode uint32) (*File, error) {
	f := &File{path: path}
	err := again(func() (err error) {
		f.fd, err = openPath(path, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	switch {
	case err == nil:
	case err == unix.EAGAIN:
		return nil, f.error("open", ErrLeased)
	case err == unix.ELOOP, err == unix.ENXIO, err == unix.EISDIR: // a link, a socket, a folder
		return nil, f.error("open", ErrNotRegular)
	default:
		return nil, f.error("open", err)
	}
	return f, nil
}

func (d *descriptor) closed() bool { return d.fd < 0 }

func (d *descriptor) close() error {
	fd := d.fd
	d.fd = -1
	return unix.Close(fd)
}

func (d *descriptor) stat() (Info, FileID, error) { return statx(d.fd, "", unix.AT_EMPTY_PATH) }

func look(path string) (Info, FileID, error) {
	info, id, err := statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return Info{}, FileID{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return info, id, nil
}

func isThere(path string) bool {
	_, _, err := statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil
}

// statx has a filesystem that caches (FUSE, NFS) ask its server: what it has cached of a file
// may be from before the file was removed elsewhere. Source: statx(2), Linux 4.11.
func statx(dir int, path string, flags int) (Info, FileID, error) {
	var x unix.Statx_t
	err := again(func() error {
		return statPath(dir, path, flags|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &x)
	})
	if err == unix.ENOSYS || err == unix.EPERM { // a kernel, or a sandbox, that does not know it
		return fstatat(dir, path, flags)
	}
	info := Info{Mode: modeOf(uint32(x.Mode)), Size: int64(x.Size), Links: uint64(x.Nlink),
		Modified: time.Unix(x.Mtime.Sec, int64(x.Mtime.Nsec)), Changed: x.Ctime.Sec*1e9 + int64(x.Ctime.Nsec), Owner: int(x.Uid)}
	return info, FileID{Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino}, err
}

func fstatat(dir int, path string, flags int) (Info, FileID, error) {
	var st unix.Stat_t
	err := again(func() error { return unix.Fstatat(dir, path, &st, flags) })
	info := Info{Mode: modeOf(st.Mode), Size: st.Size, Links: uint64(st.Nlink),
		Modified: time.Unix(st.Mtim.Unix()), Changed: st.Ctim.Nano(), Owner: int(st.Uid)}
	return info, FileID{Dev: uint64(st.Dev), Ino: st.Ino}, err
}

func modeOf(st uint32) fs.FileMode {
	mode := fs.FileMode(st & 0o777)
	if st&unix.S_IFMT != unix.S_IFREG {
		mode |= fs.ModeIrregular // of whatever kind
	}
	if st&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

func (d *descriptor) readAt(data []byte, offset int64) (n int, err error) {
	err = again(func() (err error) { n, err = unix.Pread(d.fd, data, offset); return err })
	return n, err
}

// writeAt goes on after a write of less than was asked for. Writing the rest then says why.
func (d *descriptor) writeAt(data []byte, offset int64) error {
	for len(data) > 0 {
		n := 0
		err := again(func() (err error) { n, err = unix.Pwrite(d.fd, data, offset); return err })
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}

func (d *descriptor) sync() error {
	return again(func() error { return unix.Fsync(d.fd) })
}

func (d *descriptor) unmark() error {
	info, _, err := d.stat()
	if err != nil {
		return err
	}
	return d.chmod(info.Mode.Perm())
}

// chmod keeps the mark, if mode has it.
func (d *descriptor) chmod(mode fs.FileMode) error {
	st := uint32(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		st |= unix.S_ISVTX
	}
	return again(func() error { return unix.Fchmod(d.fd, st) })
}

func hasDefaultACL(folder string) bool {
	size, err := unix.Getxattr(folder, "system.posix_acl_default", nil)
	return err == nil && size > 0
}

func (d *descriptor) beingWritten() (bool, error)    { return d.refusesLease(unix.F_RDLCK) }
func (d *descriptor) isOpenElsewhere() (bool, error) { return d.refusesLease(unix.F_WRLCK) }

// refusesLease asks for a lease, and gives it up at once. By a signal, the kernel tells a
// process that has a lease that somebody opens the file. SIGIO would end a process that does
// not catch it; SIGURG harms none.
func (d *descriptor) refusesLease(kind int) (bool, error) {
	fd := uintptr(d.fd)
	if _, err := unix.FcntlInt(fd, unix.F_SETSIG, int(unix.SIGURG)); err != nil {
		return false, err
	}
	defer unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
	switch _, err := unix.FcntlInt(fd, unix.F_SETLEASE, kind); err {
	case nil:
		return false, nil
	case unix.EAGAIN:
		return true, nil
	case unix.EINVAL: // a filesystem without leases
		return false, errors.ErrUnsupported
	default:
		return false, err
	}
}

// renameNew uses renameat2(2), of Linux 3.15. A filesystem that does not know the flag (NFS,
// some of FUSE) gives EINVAL, some sandboxes EPERM.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS || err == unix.EPERM {
		err = errors.ErrUnsupported
	}
	return err
}

func removeFile(path string) error { return unlinkPath(path) }

func replaceFile(from, to string) error { return os.Rename(from, to) }

// isNoLinks: EPERM is what link(2) says of vfat.
func isNoLinks(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) || errors.Is(err, errors.ErrUnsupported)
}

func isNoLocks(err error) bool { return errors.Is(err, unix.ENOLCK) }
