package platform

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// ErrBusy is returned by TryKernelLock when another open file has a
// conflicting lock.
var ErrBusy = errors.New("kernel lock is held")

// Mode says whether a kernel lock admits others of its kind.
type Mode uint8

const (
	Exclusive Mode = iota
	Shared
)

// A KernelLock is a lock that the kernel keeps for one open file: flock(2) on
// Unix, LockFileEx on Windows. The kernel drops it when the last descriptor of
// that open file is closed, so when its owner dies, however it dies.
//
// Each acquisition opens the file anew, so that two goroutines of one process
// exclude each other just as two processes do. Descriptors are close-on-exec.
// The owner of a KernelLock must keep it, and unlock it: one that becomes
// unreachable may be dropped by the garbage collector, or by nothing before the
// process ends. Its methods may be called by several goroutines at once.
type KernelLock struct {
	file *openFile
	mu   sync.Mutex // guards over, and the kernel's lock
	over bool
}

// TryKernelLock opens the regular file at path read-write, creating it with
// mode 0600 if it is absent, and takes its kernel lock without waiting.
// A symbolic link in the last element of path is not followed.
//
// It returns ErrBusy when another open file has a conflicting lock, and an
// error that matches errors.ErrUnsupported when this system, or the filesystem
// of path, has no kernel locks. On failure nothing is held, though the file may
// have been created.
//
// Source: flock(2), LockFileEx.
func TryKernelLock(path string, mode Mode) (*KernelLock, error) {
	return lockKernel(path, os.O_RDWR|os.O_CREATE, mode, false)
}

// WaitKernelLock is TryKernelLock, but waits in the kernel's queue for as long
// as it takes, with a thread of the process parked in the kernel. It cannot be
// interrupted: after a signal it waits on.
func WaitKernelLock(path string, mode Mode) (*KernelLock, error) {
	return lockKernel(path, os.O_RDWR|os.O_CREATE, mode, true)
}

// PeekKernelLock tells whether anybody has the kernel lock of the file at path,
// by taking it for an instant: nil means that nobody had, ErrBusy that somebody
// does. It creates nothing, and needs only permission to read.
func PeekKernelLock(path string) error {
	k, err := lockKernel(path, os.O_RDONLY, Exclusive, false)
	if err != nil && err != ErrBusy {
		// NFSv4 has no exclusive lock for a file that is open for reading. There,
		// nobody has a shared one.
		k, err = lockKernel(path, os.O_RDONLY, Shared, false)
	}
	if err != nil {
		return err
	}
	return k.Unlock()
}

func lockKernel(path string, flag int, mode Mode, wait bool) (*KernelLock, error) {
	if !kernelLocks {
		return nil, &fs.PathError{Op: "flock", Path: path, Err: errors.ErrUnsupported}
	}
	file, err := openToLock(path, flag)
	if err != nil {
		return nil, lockError(path, err)
	}
	defer file.done()
	return file.kernelLock(mode, wait)
}

// kernelLock returns a lock that keeps the file open by itself. One open file can have
// one lock: if it has one, or is closed, the path is opened anew.
func (f *openFile) kernelLock(mode Mode, wait bool) (*KernelLock, error) {
	if !f.join() {
		return lockKernel(f.path, os.O_RDWR|os.O_CREATE, mode, wait)
	}
	if err := f.lock(mode, wait); err != nil {
		f.leave()
		return nil, lockError(f.path, err)
	}
	return &KernelLock{file: f}, nil
}

// lockError tells "unsupported" from "busy" and from real errors.
func lockError(path string, err error) error {
	if err == ErrBusy {
		return err
	}
	// ENOLCK is what NFS without a lock daemon answers, but also a kernel that
	// is short of memory. Only the former may pass for "no kernel locks here".
	if isNoLocks(err) {
		if fsys, ferr := FilesystemOf(filepath.Dir(path)); ferr != nil || !fsys.Trusted {
			err = errors.Join(err, errors.ErrUnsupported)
		}
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return err
	}
	return &fs.PathError{Op: "flock", Path: path, Err: err}
}

// At returns the identity of the file at path, and whether that is the locked
// one. A path that leads to nothing is an error that matches fs.ErrNotExist.
func (k *KernelLock) At(path string) (FileID, bool, error) {
	id, err := identifyFile(path)
	if err != nil {
		return FileID{}, false, err
	}
	// Device and inode suffice: the locked file is open, so its inode number
	// can't have been used again.
	return id, k.file.is(id, path), nil
}

// Unlock drops the lock, then closes the file: closing alone would not do, as
// a child of this process between fork and exec still has the file open. The
// file itself is left where it is. After an error, which the kernel gives only
// for a filesystem that has gone away, the lock may still be held. Unlocking
// again does nothing.
func (k *KernelLock) Unlock() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return nil
	}
	if err := k.file.unlock(); err != nil {
		return &fs.PathError{Op: "unlock", Path: k.file.path, Err: err}
	}
	k.end()
	return nil
}

// end is called once, with nothing locked. The caller has k.mu.
func (k *KernelLock) end() {
	k.over = true
	k.file.leave()
}

// TurnExclusive lets go of a shared lock, and then tries for an exclusive one on the
// same open file, even if that is no longer the one at the path. It reports whether
// nobody else had a lock on that file: if so the lock is exclusive now, and if not it
// is over. After an error it is as before.
func (k *KernelLock) TurnExclusive() (alone bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false, nil
	}
	if err := k.file.unlock(); err != nil {
		return false, &fs.PathError{Op: "unlock", Path: k.file.path, Err: err}
	}
	if k.file.lock(Exclusive, false) != nil {
		k.end()
		return false, nil
	}
	return true, nil
}

// KernelLocks is a snapshot of the kernel's own list of locks, where the system
// publishes one (Linux, /proc/locks). The zero value knows of none.
type KernelLocks struct {
	held    map[lockedFile]struct{}
	waiting map[lockedFile][]int
}

// lockedFile is a file as /proc/locks names it: device numbers, inode.
type lockedFile struct {
	major, minor uint32
	ino          uint64
}

// ListKernelLocks reads the kernel's list of flock(2) locks that are held. It
// disturbs nobody. An error means that there is no list.
func ListKernelLocks() (KernelLocks, error) { return listKernelLocks() }

// Held reports that the file is locked by flock(2). False says little: the list
// leaves out locks whose owner is not visible in the reader's pid namespace, and
// on some filesystems (btrfs, overlay) it names files in another way than stat.
func (l KernelLocks) Held(id FileID) bool {
	_, held := l.held[id.locked()]
	return held
}

// Waiting returns one pid for everyone who waits, with a thread in the kernel, for a
// file's lock or its turnstile; 0 where the kernel does not say whose thread it is.
func (l KernelLocks) Waiting(id FileID) []int { return l.waiting[id.locked()] }
