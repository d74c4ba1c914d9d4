package lock

import (
	"time"
)

// DefaultStaleAfter is the age beyond which a claim that proves nothing is taken
// for a dead holder's.
const DefaultStaleAfter = 2 * time.Hour

// File is a lock, named by the path of its lock file. The zero value works once
// Path is set; a File may be copied, and used by several goroutines at once.
type File struct {
	// Path is the lock file, for example "data/.lock". Beside it appear
	// Path+".flock", which stays, and for moments Path+".reclaim". The folder must
	// exist and be writable.
	Path string

	// Cmd is kept in the lock file, to tell people what the holder is doing. It
	// may have up to 8 KiB.
	Cmd string

	// StaleAfter is the age beyond which a claim that proves nothing (another
	// program's, whose pid another process may have by now; or one from another host)
	// is taken for a dead holder's. A negative value means never. The age of a holder
	// that is proven alive plays no part.
	//
	// 0 means DefaultStaleAfter; but only a value that the caller has set lets
	// age decide on a file whose content is no claim, nor the beginning of one, as
	// that may be somebody's data, put there by mistake.
	//
	// In fallback mode, and on filesystems that are not trusted, the holder
	// renews its claim three times in this span, which its claim names for others.
	StaleAfter time.Duration

	// RequireKernelLock makes acquiring fail with ErrUnsupported where the
	// kernel can't prove whether a holder lives, rather than go by its rules on
	// pid and age.
	RequireKernelLock bool

	// OnWait, if set, is called when an Acquire has waited for OnWaitAfter (0
	// means a second), with who is in the way. It is called once at most, in
	// another goroutine, and not after Acquire has returned; Acquire waits for
	// it to return.
	OnWait      func(*ErrLocked)
	OnWaitAfter time.Duration

	// Observer, if set, is told what becomes of the lock.
	Observer Observer

	// Format, if set, makes the lock file one that other programs understand, which
	// have a format of their own.
	Format *Format

	// Of RepoLock:
	repoID   string // not empty: its rules on bare claims count
	clock    func() time.Time
	pidAlive func(int) bool

	// Of Dir.At: the space's folder, which acquiring makes, and the one that it is in.
	space string

	// Only tests set these: park is called at each step of the protocol;
	// noKernelLock makes this a system without kernel locks.
	park         func(step)
	noKernelLock bool
}

// Format is what other programs' lock files have, that holdfast's have not. Each of its
// fields may be nil.
type Format struct {
	// Fields returns what the claim is to have beyond LockInfo's own fields, by
	// name. It must give the same for the same Nonce, as it is called again when a
	// claim is renewed.
	Fields func(LockInfo) map[string]string
	// Parse reads what is in a lock file, of this program or another. What it
	// returns an error for is nobody's to remove: it stays locked, whatever its
	// age. It must understand what Fields makes.
	Parse func(data []byte) (LockInfo, error)
}

// ownParse reports whether the File has a way of its own to read lock files.
func (f File) ownParse() bool { return f.Format != nil && f.Format.Parse != nil }
