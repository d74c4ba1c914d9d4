package lock_test

import (
	"os"

	"github.com/holdfast-go/holdfast/platform"
)

// lockFile opens a file, or makes it, and takes its kernel lock.
func lockFile(path string, mode platform.Mode) (*platform.File, error) {
	f, err := platform.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := f.TryLock(mode); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// peek returns platform.ErrBusy if somebody has the kernel lock of a file.
func peek(path string) error {
	f, err := platform.Open(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.TryLock(platform.Exclusive)
}

// takeTurnstile opens a file, or makes it, and takes its turnstile.
func takeTurnstile(path string) (*platform.File, error) {
	f, err := platform.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := f.TryTurnstile(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
