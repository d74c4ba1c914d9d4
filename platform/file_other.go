//go:build !linux || portable

package platform

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/gofrs/flock"
)

// A descriptor is a file as package os has it, and the lock that package flock keeps on
// it, in an open file of its own.
type descriptor struct {
	file  *os.File // nil once it is closed
	flag  int      // to open it again, for its lock
	flock *flock.Flock
}

func open(path string, flag int) (*File, error) {
	f, err := openFile(path, flag, false, 0o600)
	return newFile(path, flag&^os.O_CREATE, f, err)
}

func create(path string, mark bool, perm fs.FileMode) (*File, error) {
	f, err := openFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, mark, perm)
	return newFile(path, os.O_RDWR, f, err)
}

func newFile(path string, flag int, file *os.File, err error) (*File, error) {
	f := &File{path: path, descriptor: descriptor{file: file, flag: flag}}
	if isNotRegular(err) {
		return nil, f.error("open", ErrNotRegular)
	} else if err != nil {
		return nil, err
	}
	return f, nil
}

func createUnnamed(path string, _ fs.FileMode) (*File, error) {
	return nil, &fs.PathError{Op: "open", Path: path, Err: errors.ErrUnsupported}
}

func (d *descriptor) giveName(string) error { return errors.ErrUnsupported }

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (d *descriptor) closed() bool { return d.file == nil }

func (d *descriptor) close() error {
	file := d.file
	d.file = nil
	return file.Close()
}

func (d *descriptor) stat() (Info, FileID, error) {
	info, err := d.file.Stat()
	if err != nil {
		return Info{}, FileID{}, err
	}
	return describe(d.file.Name(), info, d.file)
}

func look(path string) (Info, FileID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Info{}, FileID{}, err
	}
	return describe(path, info, nil)
}

// infoOf leaves out the sticky bit, which here only an administrator, or another program,
// may set.
func infoOf(info fs.FileInfo) Info {
	return Info{Mode: info.Mode() &^ fs.ModeSticky, Size: info.Size(), Modified: info.ModTime(), Links: 1, Owner: -1}
}

func (d *descriptor) readAt(data []byte, offset int64) (int, error) {
	n, err := d.file.ReadAt(data, offset)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

func (d *descriptor) writeAt(data []byte, offset int64) error {
	_, err := d.file.WriteAt(data, offset)
	return err
}

func (d *descriptor) sync() error   { return d.file.Sync() }
func (d *descriptor) unmark() error { return errors.ErrUnsupported }

// chmod does nothing on Windows, where a mode says only whether a file is read-only.
func (d *descriptor) chmod(mode fs.FileMode) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return d.file.Chmod(mode.Perm())
}

func hasDefaultACL(string) bool { return false }

func (d *descriptor) beingWritten() (bool, error)    { return false, errors.ErrUnsupported }
func (d *descriptor) isOpenElsewhere() (bool, error) { return false, errors.ErrUnsupported }
