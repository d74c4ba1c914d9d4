//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package platform

import "errors"

// There are no file locks on Plan 9, js/wasm and wasip1, and those of AIX and Solaris
// belong to the process: there, closing any descriptor of the file, even by a library
// that only looked at it, drops the lock. Nobody's life can be staked on that.
const ownLocks = false

func (d *descriptor) lock(string, Mode, bool) error { return errors.ErrUnsupported }
func (d *descriptor) unlock() error                 { return nil }
