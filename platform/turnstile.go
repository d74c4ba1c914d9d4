package platform

import "sync/atomic"

// A Turnstile is a place at the head of the queue for the kernel lock of one
// file: a lock on byte 1 of that file, which one open file can have. flock(2)
// wakes those who wait in their order, but lets any newcomer in before them. Who
// first takes the turnstile, and keeps it until the kernel lock is won, meets no
// newcomers.
//
// Byte-range locks of an open file ("OFD locks", Linux 3.15) and flock(2) do not
// see each other on local filesystems. On NFS they do, so the turnstile is for
// trusted filesystems only. The kernel opens it when its owner dies.
type Turnstile struct {
	file *openFile
	open atomic.Bool
}

// HasTurnstile reports whether this system has turnstiles.
func HasTurnstile() bool { return hasTurnstile() }

// TryTurnstile takes the turnstile of the file at path, creating it with mode
// 0600 if it is absent, without waiting; it returns ErrBusy if another open file
// has it.
func TryTurnstile(path string) (*Turnstile, error) { return takeTurnstile(path, false) }

// WaitTurnstile takes the turnstile and waits for it with a thread of the process
// parked in the kernel. It cannot be interrupted.
func WaitTurnstile(path string) (*Turnstile, error) { return takeTurnstile(path, true) }

// TryUnqueued is TryKernelLock for an exclusive lock, but lets those who are in the
// queue go first: it returns ErrBusy, too, while another open file has the turnstile.
func TryUnqueued(path string) (*KernelLock, error) { return tryUnqueued(path) }

// TryKernelLock takes the kernel lock of the turnstile's own file, wherever that lies by
// now, without waiting. The lock and the turnstile share one open file, and end in any
// order. Once there is such a lock, or the turnstile is open without one, it is the
// function of this name.
func (t *Turnstile) TryKernelLock(mode Mode) (*KernelLock, error) {
	return t.file.kernelLock(mode, false)
}

// WaitKernelLock is TryKernelLock, but waits, as the function of this name does. The
// turnstile may be opened in the meantime, by another goroutine too.
func (t *Turnstile) WaitKernelLock(mode Mode) (*KernelLock, error) {
	return t.file.kernelLock(mode, true)
}

// Open lets the next one through. Opening a nil Turnstile, or one that is open, does
// nothing.
func (t *Turnstile) Open() {
	if t != nil && !t.open.Swap(true) {
		openTurnstile(t.file)
	}
}
