package platform

import (
	"errors"
	"path/filepath"
	"time"
)

// A kernel lock is one that the kernel keeps for an open file: flock(2) on Unix, LockFileEx on
// Windows. The kernel drops it when the last descriptor of that open file is closed, so when
// its owner dies, however it dies.
//
// Each acquisition opens the file anew, so that two goroutines of one process exclude each
// other just as two processes do.

// ErrBusy is returned by TryLock and TryTurnstile, as it is, when another open file is
// in the way.
var ErrBusy = errors.New("kernel lock is held")

// Mode says whether a kernel lock admits others of its kind.
type Mode uint8

const (
	Exclusive Mode = iota
	Shared
)

// OwnLocks reports whether a file that is locked can still be read and removed by
// others. On Windows it can't be.
const OwnLocks = ownLocks

// TryLock takes the kernel lock of the file without waiting. If f has it in another mode,
// TryLock first lets go of that, and after an error it is gone.
//
// The error is ErrBusy when another open file has a conflicting lock, and matches
// errors.ErrUnsupported when this system, or the filesystem, has no kernel locks.
//
// Source: flock(2), LockFileEx.
func (f *File) TryLock(mode Mode) error { return f.take(mode, false) }

// WaitLock is TryLock, but waits in the kernel's queue for as long as it takes, with a thread
// of the process parked in the kernel. It can't be interrupted: after a signal it waits on.
// Where the path of f leads elsewhere by now, the error may be ErrBusy, as systems other than
// Linux lock the file by its path.
func (f *File) WaitLock(mode Mode) error { return f.take(mode, true) }

func (f *File) take(mode Mode, wait bool) error {
	err := f.lock(f.path, mode, wait)
	f.locked = err == nil
	if err == nil || err == ErrBusy {
		return err
	}
	return f.lockError(err)
}

// lockError says why a lock could not be asked for.
func (f *File) lockError(err error) error {
	// NFS without a lock daemon answers ENOLCK, but so does a kernel that is short of memory.
	// Only the former may pass for "no kernel locks here".
	if isNoLocks(err) {
		if fsys, ferr := FilesystemOf(filepath.Dir(f.path)); ferr != nil || !fsys.Trusted {
			err = errors.Join(err, errors.ErrUnsupported)
		}
	}
	return f.error("flock", err)
}

// Unlock drops the lock; without one it does nothing. After an error, which the kernel gives
// only for a filesystem that has gone away, the lock may still be held.
func (f *File) Unlock() error {
	if !f.locked {
		return nil
	}
	if err := f.unlock(); err != nil {
		return f.error("unlock", err)
	}
	f.locked = false
	return nil
}

// The turnstile of a file is a place at the head of the queue for its kernel lock: a lock on
// byte 1, which one open file can have. flock(2) wakes waiters in their order, but lets any
// newcomer in before them. A waiter that first takes the turnstile, and keeps it until it has
// the kernel lock, meets no newcomers.
//
// Byte-range locks of an open file ("OFD locks", Linux 3.15) and flock(2) do not see each
// other on local filesystems. On NFS they do, so the turnstile is for trusted filesystems
// only. The kernel opens it when its owner dies.

// HasTurnstile reports whether this system has turnstiles.
func HasTurnstile() bool { return hasTurnstile() }

// TryTurnstile takes the turnstile of the file without waiting; ErrBusy if another open
// file has it.
func (f *File) TryTurnstile() error { return f.takeTurnstile(false) }

// WaitTurnstile takes the turnstile, waiting for it with a thread of the process parked in the
// kernel. It can't be interrupted.
func (f *File) WaitTurnstile() error { return f.takeTurnstile(true) }

func (f *File) takeTurnstile(wait bool) error {
	err := f.lockByte1(wait)
	if err == nil {
		f.turnstile.Store(true)
	}
	if err == ErrBusy {
		return err
	}
	return f.error("turnstile", err)
}

// TurnstileTaken reports whether another open file has the turnstile.
func (f *File) TurnstileTaken() (bool, error) {
	taken, err := f.byteLocked(1, 1)
	return taken, f.error("turnstile", err)
}

// LeaveTurnstile lets the next waiter through, and takes back what SayWaiting said. Without
// either it does nothing.
func (f *File) LeaveTurnstile() {
	if f.turnstile.Swap(false) {
		f.unlockBytes() // before the file is closed, for the reason that Close gives
	}
}

// SayWaiting has the kernel's list of locks say since when a waiter waits for this file, until
// LeaveTurnstile. It is for files that have a turnstile, and does nothing where the system has
// none.
func (f *File) SayWaiting(since time.Time) {
	f.turnstile.Store(true)
	f.sayWaiting(since)
}

// AnyWaits reports whether another open file has the turnstile, or says that its owner waits
// (SayWaiting). False where the system doesn't tell.
func (f *File) AnyWaits() bool {
	waits, err := f.byteLocked(1, 0)
	return err == nil && waits
}

// HasByteLock reports whether another open file has a byte-range lock (fcntl(2), lockf(3)) in the
// file, other than by SayWaiting. Such locks don't see kernel locks, nor kernel locks them. False
// where the system doesn't tell.
func (f *File) HasByteLock() bool {
	locked, err := f.byteLocked(0, earliestWord)
	return err == nil && locked
}

// earliestWord is the first offset that means a time (see SayWaiting), and not a byte.
const earliestWord = 1 << 60

// KernelLocks is a snapshot of the kernel's own list of locks, where the system
// publishes one (Linux, /proc/locks). The zero value knows of none.
type KernelLocks struct {
	holders map[FileID][]int
	anyWait bool
	waiters func(FileID) []Waiter
	// see inherit.go
	heirs   func(FileID) []Heir
	hasLeft func(taker int, id FileID) bool
}

// ListKernelLocks reads the kernel's list of flock(2) locks that are held. An error means that
// there is no list.
//
// However short the list, reading it takes 7 to 20 ms, unless it was read just before: the
// kernel first waits for an RCU grace period. A caller that looks, or waits anyway, can afford
// it; one that acquires can't. Source: fs/locks.c locks_start, percpu_down_write.
func ListKernelLocks() (KernelLocks, error) { return listKernelLocks() }

// Held reports that the file is locked by flock(2). False says little: the list leaves out
// locks whose owner is not visible in the reader's pid namespace, and on some filesystems
// (btrfs, overlay) it names files in another way than stat.
func (l KernelLocks) Held(id FileID) bool { return len(l.Holders(id)) > 0 }

// Holders returns one pid for each flock(2) lock on the file; 0 where the kernel does not say
// whose lock it is. A lock outlives the process that took it, as long as a child has the open
// file.
func (l KernelLocks) Holders(id FileID) []int { return l.holders[id] }

// AnyWait reports whether anyone waits for any file's lock, or turnstile.
func (l KernelLocks) AnyWait() bool { return l.anyWait }

// A Waiter waits, with a thread in the kernel, for a file's lock or its turnstile.
type Waiter struct {
	PID   int       // 0 where it is not known
	Since time.Time // zero where the waiter has not said (SayWaiting)
}

// Waiters returns all waiters for a file: those at the lock, in the kernel's order, before
// those at the turnstile, by their own word. To find the latter it looks, once for each
// KernelLocks, at all processes.
func (l KernelLocks) Waiters(id FileID) []Waiter {
	if l.waiters == nil {
		return nil
	}
	return l.waiters(id)
}
