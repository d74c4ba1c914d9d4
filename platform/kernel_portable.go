//go:build !linux || portable

package platform

import "errors"

// Turnstiles, and the kernel's list of locks, are Linux's.

func hasTurnstile() bool { return false }

func (d *descriptor) lockByte1(bool) error { return errors.ErrUnsupported }
func (d *descriptor) unlockByte1()         {}

func (d *descriptor) byteLocked(_, _ int64) (bool, error) { return false, errors.ErrUnsupported }

func listKernelLocks() (KernelLocks, error) { return KernelLocks{}, errors.ErrUnsupported }

func (id FileID) locked() lockedFile { return lockedFile{} }

func hasOnlyLock(int, FileID) bool { return false }
