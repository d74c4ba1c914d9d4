package lock

import (
	"io/fs"
	"time"
)

// DefaultStaleAfter is the age beyond which a claim that proves nothing is taken
// for a dead holder's.
const DefaultStaleAfter = 2 * time.Hour

// File is a lock, named by the path of its lock file. The zero value works once
// Path is set; a File may be copied, and used by several goroutines at once.
type File struct {
	// Path is the lock file, for example "data/.lock". Beside it appear
	// Path+".flock", the sibling, which stays (see Tidy), and for moments
	// Path+".reclaim". The folder must exist and be writable.
	Path string

	// Cmd is kept in the lock file, to tell people what the holder is doing: at most 8 KiB.
	Cmd string

	// OwnerPID, if set, is the process for whose life this one has the lock. The lock file
	// tells people: they see a session of that process. Nothing else follows from it. A holder
	// whose owner ends before it calls ReleaseAsDied.
	OwnerPID int

	// StaleAfter is the age beyond which a claim that proves nothing is taken for a dead
	// holder's: one from another host, or another program's, whose pid another process may
	// have by now. A negative value means never. Age plays no part for a holder that is
	// proven alive.
	//
	// 0 means DefaultStaleAfter. A value that the caller sets also lets age decide on a
	// file whose content is no claim, nor the beginning of one. Without it such a file
	// stays: it may be somebody's data, put there by mistake.
	//
	// In fallback mode, and on filesystems that are not trusted, the holder renews its
	// claim three times in this span. The claim names the span for others.
	StaleAfter time.Duration

	// Perm is the mode of the lock file and what lies beside it, whatever the umask: 0660 for
	// a group, 0666 for all. 0 means 0600, for one user (and root). All users of a lock must
	// have the same, and write permission for its folder. Where the folder has a default
	// ACL, what that takes away stays away. A sibling that is there with fewer rights is an
	// error that matches fs.ErrPermission, and keeps its mode; unless it is certain to be this
	// user's.
	//
	// With 0640 or 0644 others share the lock as well, and can't write to each other's lock
	// files: only the sibling, the queue of all, can be written by those who may read.
	Perm fs.FileMode

	// Tidy removes the sibling at release, if nobody else has it open, no fence is in it, and
	// no word of a death that is for the next holder (see FileHold.Predecessor),
	// so that a lock which is never used again leaves nothing. It is for locks of which
	// there is one for each of many ids: Dir sets it. Without it the sibling stays, which
	// saves the next holder from making it anew.
	//
	// Where it can't be told for certain that nobody needs the sibling, it stays: on Windows
	// and on filesystems that are not trusted; and for who may not remove it, or does not
	// own it. Func Tidy removes those of folders.
	Tidy bool

	// Nested has Do, DoShared and TryDo call fn at once, with the caller's own context, where
	// this process has the lock already from a process above: see HeldAbove. Without it
	// they fail there with ErrReentrant.
	Nested bool

	// RequireKernelLock makes acquiring fail with ErrUnsupported where the kernel can't
	// prove whether a holder lives. Otherwise rules on pid and age decide there.
	RequireKernelLock bool

	// OnWait, if set, is called when an Acquire, or AwaitFree, has waited for OnWaitAfter (0
	// means a second), with the holder who is in the way. It is called at most once, in
	// another goroutine, and not after Acquire has returned. Acquire waits for it to return.
	OnWait      func(*ErrLocked)
	OnWaitAfter time.Duration

	// Observer, if set, is told what becomes of the lock.
	Observer Observer

	// Format, if set, makes the lock file one that other programs, with a format of their
	// own, understand.
	Format *Format

	// Of RepoLock:
	repoID   string // not empty: its rules on bare claims count
	clock    func() time.Time
	pidAlive func(int) bool
	pidAlone bool // age proves nothing of another program's claim

	// Of Dir.At: the space's folder, which acquiring makes, with the one above it.
	space string

	// Only tests set these: park is called at each step of the protocol;
	// noKernelLock makes this a system without kernel locks.
	park         func(step)
	noKernelLock bool
}

// Format is how lock files of other programs differ from holdfast's own. Each field may be
// nil.
type Format struct {
	// Fields returns further fields of the claim, by name; LockInfo's own names are refused
	// with ErrInvalidName. It must give the same for the same Nonce, as a renewal calls it
	// again.
	Fields func(LockInfo) map[string]string
	// Parse reads a lock file, of this program or another. A file for which it returns an
	// error is nobody's to remove, save what a crash of holdfast left half written: it
	// stays locked, whatever its age. It must understand what Fields makes, and set CreatedAt,
	// be it to a time that it chooses where the file has none: else the error is ErrInvalidName.
	Parse func(data []byte) (LockInfo, error)
}

// ownParse reports whether the File has a way of its own to read lock files.
func (f File) ownParse() bool { return f.Format != nil && f.Format.Parse != nil }
