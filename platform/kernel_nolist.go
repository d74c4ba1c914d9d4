//go:build !linux

package platform

import "errors"

func listKernelLocks() (KernelLocks, error) { return KernelLocks{}, errors.ErrUnsupported }

func (id FileID) locked() lockedFile { return lockedFile{} }
