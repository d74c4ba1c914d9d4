package platform

import (
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// newFile is a bare descriptor, for the reason that openFile gives.
type newFile struct {
	path string
	fd   int // -1 once it is closed
}

func create(path string, incomplete bool) (NewFile, error) {
	mode := uint32(0o600)
	if incomplete {
		mode = 0o200
	}
	f := &newFile{path: path}
	err := again(func() (err error) {
		f.fd, err = unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode)
		return err
	})
	if err != nil {
		return nil, f.error("create", err)
	}
	return f, nil
}

func (f *newFile) error(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.path, Err: err}
}

func (f *newFile) Write(p []byte) (int, error) {
	return f.writeAll(p, func(rest []byte, _ int) (int, error) { return unix.Write(f.fd, rest) })
}

func (f *newFile) WriteAt(p []byte, at int64) (int, error) {
	return f.writeAll(p, func(rest []byte, done int) (int, error) { return unix.Pwrite(f.fd, rest, at+int64(done)) })
}

// writeAll goes on after a write of less than was asked for, the rest of which then
// says why.
func (f *newFile) writeAll(p []byte, write func(rest []byte, done int) (int, error)) (done int, err error) {
	for done < len(p) {
		n := 0
		err := again(func() (err error) { n, err = write(p[done:], done); return err })
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return done, f.error("write", err)
		}
		done += n
	}
	return done, nil
}

func (f *newFile) Stat() (fs.FileInfo, error) {
	info := &newInfo{name: filepath.Base(f.path)}
	if err := again(func() error { return syscall.Fstat(f.fd, &info.st) }); err != nil {
		return nil, f.error("stat", err)
	}
	return info, nil
}

func (f *newFile) MarkComplete() error {
	return f.error("chmod", again(func() error { return unix.Fchmod(f.fd, 0o600) }))
}

func (f *newFile) Close() error {
	if f.fd < 0 {
		return nil
	}
	fd := f.fd
	f.fd = -1
	return f.error("close", unix.Close(fd))
}

// newInfo describes a newFile, which is regular.
type newInfo struct {
	name string
	st   syscall.Stat_t
}

func (i *newInfo) Name() string       { return i.name }
func (i *newInfo) Size() int64        { return i.st.Size }
func (i *newInfo) Mode() fs.FileMode  { return fs.FileMode(i.st.Mode).Perm() }
func (i *newInfo) ModTime() time.Time { return time.Unix(i.st.Mtim.Unix()) }
func (i *newInfo) IsDir() bool        { return false }
func (i *newInfo) Sys() any           { return &i.st }

// sameInfo is os.SameFile, which knows only what package os describes.
func sameInfo(a, b fs.FileInfo) bool {
	x, okX := a.Sys().(*syscall.Stat_t)
	y, okY := b.Sys().(*syscall.Stat_t)
	return okX && okY && x.Dev == y.Dev && x.Ino == y.Ino
}
