//go:build darwin || dragonfly || freebsd || illumos || netbsd || openbsd || windows

package platform

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/gofrs/flock"
)

// kernelLocks: these systems bind a lock to an open file.
const kernelLocks = true

// An openFile is a file that is opened to be locked: package flock opens it when it
// is, and closes it again when it isn't. There are no turnstiles here, which would
// share it, and so no readers, who would turn exclusive on the same open file.
type openFile struct {
	path  string
	flock *flock.Flock
	info  fs.FileInfo
}

func openToLock(path string, flag int) (*openFile, error) {
	how := flock.SetFlag(flag | openNoFollow | openNonBlock)
	return &openFile{path: path, flock: flock.New(path, how, flock.SetPermissions(0o600))}, nil
}

func (f *openFile) join() bool { return true }

func (f *openFile) leave() {}

func (f *openFile) done() {}

// lock leaves nothing locked when it fails. The runtime's handlers are installed with
// SA_RESTART, which flock(2) honours; a handler installed by C code in the process may
// not be.
func (f *openFile) lock(mode Mode, wait bool) error {
	err := f.lockOnce(mode, wait)
	for errors.Is(err, syscall.EINTR) {
		err = f.lockOnce(mode, wait)
	}
	if err != nil {
		return err
	}
	if f.info, err = f.flock.Stat(); err == nil && !f.info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return errors.Join(err, f.unlock())
	}
	return nil
}

func (f *openFile) lockOnce(mode Mode, wait bool) error {
	try := f.flock.TryLock
	switch {
	case wait && mode == Shared:
		return f.flock.RLock()
	case wait:
		return f.flock.Lock()
	case mode == Shared:
		try = f.flock.TryRLock
	}
	locked, err := try()
	if err == nil && !locked {
		return ErrBusy
	}
	return err
}

func (f *openFile) unlock() error {
	err := f.flock.Unlock()
	for errors.Is(err, syscall.EINTR) {
		err = f.flock.Unlock()
	}
	return err
}

// is reports whether id, which was found at path, is the locked file's.
func (f *openFile) is(id FileID, path string) bool { return sameFile(id, path, f.info) }
