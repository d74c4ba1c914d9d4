// Package lockfile answers one question: who has the lock? It rests on two rules, and keeps
// them.
//
//	A  A process that joins, replaces or removes a lock file (or a marker) has the kernel
//	   lock of that very file: exclusive, or shared to join as a reader. A process that
//	   creates one takes its lock first, and waits for those that only look.
//	B  With that lock, the process checks whether the path still leads to that file, and
//	   acts on the path only if it does.
//
// So no participant removes or replaces another's file: for that it needs the lock that the
// file's owner has (A). A file that is locked, and not at the path, is nobody's lock (B). The
// fate of the sibling decides only who is next. A program that knows none of this can remove
// any file at any time.
//
// A and B are kept where a file is created (create), or prepared and given its name (Prepare,
// publish), where an existing one is locked and read (LookLocked), and where one is removed
// (Remove; for files of our own RemoveOwn, clear, discard and Abandon). On Windows a locked file
// can't be read, and an open one can't be removed. There the sibling's lock stands for the lock
// of every file beside it.
package lockfile

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// A Lock is where one lock lies, how its files are made, and by which rules its holder is
// judged. It does not change.
type Lock struct {
	Path   string // absolute
	Marker string // path of the marker
	// Stands is the path of the file whose kernel lock stands for those of all others, on a
	// system where a lock file has none of its own.
	Stands string
	Fsys   platform.Filesystem
	// NoKernelLock makes this a system without kernel locks, for tests.
	NoKernelLock bool

	// What our claims say, and how they are made.
	Cmd      string
	OwnerPID int
	Perm     fs.FileMode
	Fields   func(evidence.Claim) map[string]string    // further ones; nil: none
	Parse    func(data []byte) (evidence.Claim, error) // another program's format; nil: ours

	// StaleAfter is as in lock.File: 0 is DefaultStaleAfter, and less than 0 never.
	StaleAfter time.Duration
	Clock      func() time.Time                              // nil: the system's
	Amend      func(c *evidence.Said, facts *evidence.Facts) // another program's rule; nil: none

	Parker   Parker
	Clearing *Clearing
	At       func(step string) // told which step has been reached; may be nil
}

// DefaultStaleAfter is the age beyond which a claim that proves nothing is taken for a dead
// holder's.
const DefaultStaleAfter = 2 * time.Hour

// A Parker has threads that wait in the kernel.
type Parker interface {
	// ParkAlone calls wait in a thread, or otherwise at once if there are too many.
	ParkAlone(wait, otherwise func())
}

// MarkerSuffix is that of a marker, behind the lock file's name.
const MarkerSuffix = ".reclaim"

var (
	// ErrInvalidName, ErrLost: see package lock.
	ErrInvalidName = errors.New("invalid name")
	ErrLost        = errors.New("lock lost: it is no longer ours")
	// ErrMoved says that a path leads elsewhere by now, so that the caller must look again.
	ErrMoved = fail.ErrMoved
)

func (l *Lock) at(step string) {
	if l.At != nil && step != "" {
		l.At(step)
	}
}

// Now is the time, by the clock that was asked for.
func (l *Lock) Now() time.Time {
	if l.Clock != nil {
		return l.Clock()
	}
	return time.Now()
}

// Span is StaleAfter, or its default.
func (l *Lock) Span() time.Duration {
	if l.StaleAfter == 0 {
		return DefaultStaleAfter
	}
	return l.StaleAfter
}

// OwnLocks reports whether the holder of a lock file has its own lock. Otherwise the sibling's
// stands for it (Windows). In fallback mode nothing does; that is known only when a lock is
// asked for.
func (l *Lock) OwnLocks() bool { return platform.OwnLocks && !l.NoKernelLock }

// Shares reports whether readers can have the lock together. Where own locks are missing, or
// prove nothing, shared means exclusive.
func (l *Lock) Shares() bool { return l.OwnLocks() && l.Fsys.Trusted }

// marks reports whether lock files bear marks here. On an overlay they don't: the folder
// underneath shows the same files, and neither side can judge the own locks of the other. A
// file without a claim does not say on which side it was made.
func (l *Lock) marks() bool {
	return platform.KeepsMarks && l.Fsys.Trusted && l.Fsys.Kind != "overlay" && !l.NoKernelLock
}

// A Taker acquires a lock, or removes what a dead holder has left. It belongs to one goroutine
// at a time.
type Taker struct {
	*Lock
	Mode     platform.Mode
	Nonce    string // of its claims
	Fallback bool   // the kernel has no locks here
	// Standing is the file at Stands, open and locked; nil where it is not needed.
	Standing *platform.File
	Face     Face
	// Waiter waits for files that others have locked. Without one (nil) the Taker outwaits what
	// passes in an instant: Tries looks.
	Waiter Waiter
	Tries  int

	refusal error     // the last that Face has made
	ready   chan *Own // what Prepare makes: one Own, or nil; nil without Prepare
}

// A Face makes of what is found what its users see.
type Face interface {
	// Refuse makes the error of a lock that is held, or may be.
	Refuse(Refusal) error
	// Remember is told of a dead holder before its lock file goes.
	Remember(Dead)
}

// A Refusal says why the lock can't be acquired.
type Refusal struct {
	Path     string   // the lock file, or a marker that is in the way
	Found    *Finding // open; nil if there is nothing to read
	State    evidence.State
	Evidence evidence.Evidence
	// ByKernel says that the file is locked, perhaps by another than the claim names: that
	// process may be gone.
	ByKernel bool
}

// Dead is a holder that was judged dead.
type Dead struct {
	Claim    *evidence.Claim // nil if it left none
	Evidence evidence.Evidence
}

// A Waiter waits for the own lock of f, which was opened at path. With the lock it returns f,
// or another open file of the same. It returns nil if f was left to a thread that waits. The
// error is ErrMoved when the path leads elsewhere by now, and platform.ErrBusy when it no
// longer waits for the holder.
type Waiter interface {
	LockOwn(ctx context.Context, f *platform.File, path string, mode platform.Mode) (*platform.File, error)
}

func (t *Taker) refuse(r Refusal) error {
	t.refusal = t.Face.Refuse(r)
	return t.refusal
}

// isRefused reports whether an error is, or wraps, what refuse has returned last.
func (t *Taker) isRefused(err error) bool { return t.refusal != nil && errors.Is(err, t.refusal) }

// lockOwn takes the own lock of f.
func (t *Taker) lockOwn(ctx context.Context, f *platform.File, path string, mode platform.Mode) (*platform.File, error) {
	if t.Waiter != nil {
		return t.Waiter.LockOwn(ctx, f, path, mode)
	}
	return f, t.LockSoon(ctx, f, path, mode, t.Tries)
}

// FallBack goes on without kernel locks, where shared means exclusive.
func (t *Taker) FallBack() {
	t.DropPrepared()
	t.Fallback, t.Mode = true, platform.Exclusive
}

// LockSoon takes the own lock of f, and outwaits only what passes in an instant.
func (l *Lock) LockSoon(ctx context.Context, f *platform.File, path string, mode platform.Mode, tries int) error {
	for try := 1; ; try++ {
		err := f.TryLock(mode)
		if err != platform.ErrBusy {
			return err
		}
		if at, err := f.IsAt(path); err != nil || !at {
			return cmp.Or(err, ErrMoved)
		}
		if try == tries {
			return platform.ErrBusy
		}
		l.at(StepBusy)
		if pace.Sleep(ctx, pace.Passage); ctx.Err() != nil {
			return fail.At("acquire", path, fail.Context(ctx))
		}
	}
}

// IsBeside reports whether this package gives a suffix to a marker, or to what is made beside
// one.
func IsBeside(suffix string) bool {
	further, is := strings.CutPrefix(suffix, MarkerSuffix)
	if further == "" || further == ".new" {
		return is
	}
	further, dotted := strings.CutPrefix(further, ".")
	return is && dotted && (isAll(further, 2*16, "0123456789abcdef") || isAll(further, nonceLength, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
}

func isAll(s string, length int, of string) bool {
	return len(s) == length && strings.Trim(s, of) == ""
}
