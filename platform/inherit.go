package platform

import "os"

// A kernel lock belongs to an open file, and not to the process that took it. A child that
// inherits the open file has the lock as well. The lock stays until the last process that has
// the file has closed it, or ended. But the first of them to unlock it unlocks it for all.

// Inheritable returns another descriptor of f's open file, for exec.Cmd.ExtraFiles. In this
// process it is close-on-exec. The caller closes it. The error matches
// errors.ErrUnsupported where locks can't be handed on.
func (f *File) Inheritable() (*os.File, error) {
	handed, err := f.inheritable()
	return handed, f.error("dup", err)
}

// CloseLocked closes the file, and leaves its lock to the processes that have inherited it. If
// there are none, the lock is free. Closing again does nothing.
func (f *File) CloseLocked() error {
	if f == nil || f.closed() {
		return nil
	}
	f.LeaveTurnstile()
	f.locked = false
	return f.error("close", f.close())
}

// Inherited returns what this process hands to every child at a descriptor above 2, as its own
// parent wanted it; nil if there is nothing. The caller closes it.
func Inherited(number int) *os.File { return inherited(number) }

// Inherits reports whether this process has the lock of a file by an open file that it has
// inherited. False where that can't be told.
func Inherits(id FileID) bool { return inherits(id) }

// HasLeft reports whether the taker of a file's lock, by the kernel's list, is known to have
// no open file any more through which it has that lock. Others have it then. False where that
// can't be told. It looks at each process once for each KernelLocks.
func (l KernelLocks) HasLeft(taker int, id FileID) bool {
	return l.hasLeft != nil && l.hasLeft(taker, id)
}

// An Heir is a process that has inherited a kernel lock: it has the open file through which
// another process took it.
type Heir struct {
	PID   int
	Taker int // the pid that took the lock, dead or alive; 0 where the kernel does not say
}

// Heirs returns the processes that have inherited the lock of a file, as far as this one may
// look at their open files. It looks at all processes, once for each KernelLocks.
func (l KernelLocks) Heirs(id FileID) []Heir {
	if l.heirs == nil {
		return nil
	}
	return l.heirs(id)
}
