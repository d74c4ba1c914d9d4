//go:build !linux || portable

package platform

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

// ownLocks: LockFileEx locks are mandatory.
const ownLocks = runtime.GOOS != "windows"

// closeUnlocks: gofrs/flock opens the file once more, and closes that descriptor only when it
// has unlocked it.
const closeUnlocks = false

// lock has package flock open the file at path, and makes sure that it is the same. If it is
// not, some other file may have been locked for an instant.
func (d *descriptor) lock(path string, mode Mode, wait bool) error {
	if err := d.unlock(); err != nil {
		return err
	}
	d.flock = flock.New(path, flock.SetFlag(d.flag|openNoFollow|openNonBlock), flock.SetPermissions(0o600))
	err := again(func() error { return d.lockOnce(mode, wait) })
	if errors.Is(err, fs.ErrNotExist) {
		return ErrBusy // it has no name any more
	} else if err != nil {
		return err
	}
	locked, err := d.flock.Stat()
	var own fs.FileInfo
	if err == nil {
		own, err = d.file.Stat()
	}
	switch {
	case err != nil:
		return errors.Join(err, d.unlock())
	case !os.SameFile(locked, own):
		if err := d.unlock(); err != nil {
			return err
		}
		return ErrBusy
	}
	return nil
}

func (d *descriptor) lockOnce(mode Mode, wait bool) error {
	try := d.flock.TryLock
	switch {
	case wait && mode == Shared:
		return d.flock.RLock()
	case wait:
		return d.flock.Lock()
	case mode == Shared:
		try = d.flock.TryRLock
	}
	locked, err := try()
	if err == nil && !locked {
		return ErrBusy
	}
	return err
}

func (d *descriptor) unlock() error {
	if d.flock == nil {
		return nil
	}
	return again(d.flock.Unlock)
}

// Turnstiles, and the kernel's list of locks, are Linux's.

func hasTurnstile() bool { return false }

func (d *descriptor) lockByte1(bool) error { return errors.ErrUnsupported }
func (d *descriptor) unlockBytes()         {}
func (d *descriptor) sayWaiting(time.Time) {}

func (d *descriptor) byteLocked(_, _ int64) (bool, error) { return false, errors.ErrUnsupported }

func listKernelLocks() (KernelLocks, error) { return KernelLocks{}, errors.ErrUnsupported }
