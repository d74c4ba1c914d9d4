//go:build unix

package command

import "syscall"

// ownerOnly has fn make files that only their owner may use, from the first moment: a
// socket that is changed afterwards can be reached by others until then. The mask is the
// whole process's.
func ownerOnly(fn func()) {
	mask := syscall.Umask(0o177)
	defer syscall.Umask(mask)
	fn()
}
