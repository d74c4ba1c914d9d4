package lock

import (
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/rule"
	"github.com/holdfast-go/holdfast/platform"
)

// DefaultStaleAfter, two hours, is the age beyond which a claim that proves nothing is taken
// for a dead holder's.
const DefaultStaleAfter = lockfile.DefaultStaleAfter

// File is a lock, named by the path of its lock file. The zero value works once
// Path is set; a File may be copied, and used by several goroutines at once.
type File struct {
	// Path is the lock file, for example "data/.lock". Beside it appear
	// Path+".flock", the sibling, which stays (see Tidy), and for moments
	// Path+".reclaim". The folder must exist and be writable.
	Path string

	// Cmd is kept in the lock file, to tell people what the holder is doing: at most 8 KiB.
	Cmd string

	// Shared acquires the lock for a reader. Any number of readers have it together, but not
	// beside an exclusive holder. Readers respect the queue: a reader that comes after a waiting
	// writer waits behind it, or is refused (on Linux). Without a trustworthy kernel lock, and on
	// Windows, shared means exclusive. A Dir has methods for that, and ignores it in its File.
	Shared bool

	// OwnerPID, if set, is the process for whose life this one has the lock. The lock file tells
	// people: they see a session of that process. Nothing else follows from it. A holder whose
	// owner ends before it calls ReleaseAsDied.
	OwnerPID int

	// StaleAfter is the age beyond which a claim that proves nothing is taken for a dead
	// holder's: one from another host, or another program's, whose pid another process may have
	// by now. A negative value means never. Age plays no part for a holder that is proven alive.
	//
	// 0 means DefaultStaleAfter. A value that the caller sets also lets age decide on a file
	// whose content is no claim, nor the beginning of one. Without it such a file stays: it may
	// be somebody's data, put there by mistake.
	//
	// In fallback mode, and on filesystems that are not trusted, the holder renews its claim
	// three times in this span. The claim names the span for others.
	StaleAfter time.Duration

	// Perm is the mode of the lock file and what lies beside it, whatever the umask: 0660 for a
	// group, 0666 for all. 0 means 0600, for one user (and root). All users of a lock must have
	// the same, and write permission for its folder. Where the folder has a default ACL, what
	// that takes away stays away. An existing sibling with fewer rights is an error that matches
	// fs.ErrPermission, and keeps its mode.
	//
	// With 0640 or 0644 others share the lock as well, and can't write to each other's lock
	// files: users that may read can write only the sibling, the queue of all.
	Perm fs.FileMode

	// Tidy removes the sibling at release, so that a lock which is never used again leaves
	// nothing. It stays if somebody else has it open, or if a fence is in it, or a word of a
	// death that is for the next holder (see FileHold.Predecessor). Tidy is for locks of which
	// there is one for each of many ids: Dir sets it. Without it the sibling stays, which saves
	// the next holder from making it anew.
	//
	// The sibling also stays where it can't be told for certain that nobody needs it: on Windows,
	// on filesystems that are not trusted, and for a user that may not remove it, or does not own
	// it. Func Tidy removes the siblings of folders.
	Tidy bool

	// Nested has Do and TryDo call fn at once, with the caller's own context and a nil hold, where
	// this process has the lock already from a process above: see HeldAbove. Without it they fail there with
	// ErrReentrant.
	Nested bool

	// RequireKernelLock makes acquiring fail with errors.ErrUnsupported where the kernel can't
	// prove whether a holder lives. Otherwise rules on pid and age decide there.
	RequireKernelLock bool

	// Observe, if set, is told what becomes of the lock: see Event. It is told of a wait when that
	// begins, and once more if it lasts, in another goroutine, and not after Acquire has returned.
	Observe func(Event)

	// Format, if set, makes the lock file one that other programs, with a format of their own,
	// understand.
	Format *Format

	// Of Dir.At: the space's folder, which acquiring makes, with the one above it.
	space string

	// Only tests set these: park is called at each step of the protocol;
	// noKernelLock makes this a system without kernel locks; unprepared has a waiter make its lock
	// file when its turn has come, step by step.
	park         func(step string)
	noticeAfter  time.Duration // in place of the constant, if it is not 0
	noKernelLock bool
	unprepared   bool
}

// Format says how lock files of other programs differ from holdfast's own. Each field may be
// nil.
type Format struct {
	// Fields returns further fields of the claim, by name; evidence.Claim's own names are refused
	// with ErrInvalidName. It must give the same for the same Nonce, as a renewal calls it again.
	Fields func(evidence.Claim) map[string]string
	// Parse reads a lock file, of this program or another. A file for which it returns an error
	// stays locked, whatever its age, as it is nobody's to remove, save what a crash of holdfast
	// left half written. Parse must understand what Fields makes. It must set CreatedAt, to a
	// time of its choice where the file has none. Otherwise the error is ErrInvalidName.
	Parse func(data []byte) (evidence.Claim, error)
	// Rule is that program's rule on claims that prove nothing. It is for packages of this
	// module: see lock/repolock.
	Rule *rule.Rule
}

func (f File) mode() platform.Mode {
	if f.Shared {
		return platform.Shared
	}
	return platform.Exclusive
}
