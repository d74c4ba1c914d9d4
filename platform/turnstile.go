package platform

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
	fd  int
	dev uint64
	ino uint64
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

// IsOf reports whether the turnstile is that of the file with this identity,
// which must exist.
func (t *Turnstile) IsOf(id FileID) bool { return t.dev == id.Dev && t.ino == id.Ino }

// Open lets the next one through. Opening a nil Turnstile does nothing.
func (t *Turnstile) Open() {
	if t != nil {
		openTurnstile(t)
	}
}
