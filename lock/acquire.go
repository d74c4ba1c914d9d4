package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/platform"
)

// The protocol, in the order in which an acquisition goes through it:
//
//	1  takeSibling      the kernel lock on the sibling: the queue
//	2  Taker.Create     the lock file, marked, with its own lock, and then the claim; or the
//	                    file that was prepared while it waited, whole
//	3  Taker.TakeOver   a file that is there already: its own lock, a judgement, reclaim
//
// What it rests on is in package lockfile: all that is needed to believe that there are never
// two holders. Package queue decides only who is next.

// An attempt is one try for a lock, or one wait for it. It belongs to one goroutine until
// it becomes part of a FileHold.
type attempt struct {
	place
	take     lockfile.Taker
	patience patience
	begun    time.Time

	// siblingLock is the sibling, open and locked. It is nil before step 1, and in fallback
	// mode.
	siblingLock *platform.File
	siblingInfo platform.Info // of siblingLock, as we found it
	siblingGone bool          // siblingLock was removed since, or replaced

	// reclaimed is the dead holder that the lock was taken over from; nil if it was free.
	reclaimed *lockfile.Dead
	// untold is reclaimed, if that could not be written into the sibling.
	untold *lockfile.Dead
}

// patience is the difference between Acquire and TryAcquire: how long to wait for others.
type patience interface {
	// lockSibling is step 1: it opens and locks the sibling.
	lockSibling(ctx context.Context, a *attempt) (*platform.File, error)
	// won is called when the lock has come, before anybody is told.
	won()
	// waiter waits for lock files; without one (nil) tries says how often they are looked at.
	waiter() lockfile.Waiter
	tries() int
	// lookAgain waits before the next look. looked counts the looks so far. locked is the holder
	// that the last look found, which has no kernel lock; nil if others have just moved
	// something. It returns the error to give up with.
	lookAgain(ctx context.Context, a *attempt, looked int, locked *LockedError) error
}

func (f File) attempt(mode platform.Mode, patience patience) (*attempt, error) {
	if err := f.makeFolders(); err != nil {
		return nil, err
	}
	p, err := f.locate()
	if err != nil {
		return nil, err
	}
	if !p.Shares() {
		mode = platform.Exclusive
	}
	lockfile.KnowSelf()
	a := &attempt{place: p, patience: patience, begun: time.Now()}
	a.take = lockfile.Taker{Lock: &a.Lock, Mode: mode, Nonce: lockfile.NewNonce(), Face: a, Waiter: patience.waiter(), Tries: patience.tries()}
	return a, nil
}

// acquire goes through the protocol. On failure nothing is held, and no file of ours left.
func (a *attempt) acquire(ctx context.Context) (held *FileHold, err error) {
	if a.file.RequireKernelLock && (!a.Fsys.Trusted || a.file.noKernelLock) {
		return nil, a.unsupported()
	}
	defer func() {
		a.take.DropPrepared()
		if held == nil {
			err = fail.Join(err, a.siblingLock.Close())
			a.sibling.TidyUp(a.tidier())
		}
	}()
	if err := a.takeSibling(ctx); err != nil {
		return nil, err
	}
	for round := 1; ; round++ {
		if ctx.Err() != nil { // cancel beats acquire
			return nil, fail.At("acquire", a.file.Path, fail.Context(ctx))
		}
		own, err := a.take.Create(ctx)
		a.leaveTurnstile()
		if err == nil {
			return a.hold(own), nil
		}
		var locked *LockedError
		if errors.Is(err, fs.ErrExist) {
			var dead *lockfile.Dead
			if own, dead, err = a.take.TakeOver(ctx); own != nil {
				return a.hold(own), nil
			}
			a.reclaimed = cmp.Or(dead, a.reclaimed)
		}
		switch {
		case err == nil: // the dead holder's file is gone: create ours
			continue
		case errors.As(err, &locked):
		case err != errMoved:
			return nil, err
		default: // the queue may have moved as well, with its folder
			if err := a.takeSibling(ctx); err != nil {
				return nil, err
			}
		}
		if err := a.patience.lookAgain(ctx, a, round, locked); err != nil {
			return nil, err
		}
	}
}

// takeSibling is step 1: a place in the queue. Called again, it keeps a sibling that is
// still there.
func (a *attempt) takeSibling(ctx context.Context) error {
	if a.file.noKernelLock {
		a.take.FallBack()
		return nil
	}
	if a.siblingLock != nil {
		if stands, err := a.siblingLock.IsAt(a.sibling.Path); err != nil || stands {
			return err
		}
		if err := a.siblingLock.Close(); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		a.siblingLock = nil
	}
	for round := 1; ; round++ {
		f, err := a.patience.lockSibling(ctx, a)
		if err != nil && f != nil {
			_ = f.Close() // it has no lock
		}
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			if a.file.RequireKernelLock {
				return a.unsupported()
			}
			a.take.FallBack()
			return nil
		case err != nil:
			return err
		}
		a.at(stepSiblingLocked)
		// The sibling may have been removed before we had its lock (see queue.Sibling.TidyHeld), and
		// others may stand at a new one. Then there would be two queues, and one would look empty
		// to a tidier.
		info, err := f.Stat()
		if err == nil && info.Links > 0 {
			a.siblingLock, a.siblingInfo, a.siblingGone = f, info, false
			a.take.Standing = f
			a.at(stepSiblingChecked)
			return nil
		}
		if err := fail.Join(err, f.Close()); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if err := a.patience.lookAgain(ctx, a, round, nil); err != nil {
			return fail.At("acquire", a.file.Path, errors.New("the file beside it, "+siblingSuffix+", keeps being replaced"))
		}
	}
}

// leaveTurnstile lets the next waiter come to the sibling. A waiter keeps the turnstile until
// now, and not only until it has the sibling. So a holder that has just released, and comes
// back at once, finds the turnstile taken, and stands behind those that have waited.
func (a *attempt) leaveTurnstile() {
	if a.siblingLock != nil {
		a.siblingLock.LeaveTurnstile()
	}
}

// Refuse makes a *LockedError: see lockfile.Face.
func (a *attempt) Refuse(r lockfile.Refusal) error {
	if r.ByKernel {
		locked := a.lockedByKernel(r.Path, r.Found, a.siblingLock)
		locked.Evidence = r.Evidence
		return locked
	}
	locked := a.locked(r.Path, r.Found, r.State, r.Evidence)
	if r.Found != nil && r.Evidence != evidence.BeingReclaimed {
		a.addNote(locked, a.siblingLock)
	}
	return locked
}

func (a *attempt) unsupported() error {
	return fmt.Errorf("lock: %s on %s: no trustworthy kernel lock: %w", a.file.Path, a.Fsys.Kind, errors.ErrUnsupported)
}

// lockedByKernel describes a lock whose file is locked, perhaps by another than the claim
// names: that process may be gone.
func (p *place) lockedByKernel(path string, f *lockfile.Finding, sibling *platform.File) *LockedError {
	locked := p.locked(path, nil, evidence.Held, evidence.KernelLockHeld)
	who := p.whoHas(f, new(kernelList))
	locked.Info, locked.Gone, locked.Shared, locked.Processes = who.info, who.gone, who.shared, who.processes
	p.addNote(locked, sibling)
	return locked
}

func (p *place) locked(path string, f *lockfile.Finding, s evidence.State, e evidence.Evidence) *LockedError {
	locked := &LockedError{Status: Status{Path: path, State: s, Evidence: e}, now: p.Now()}
	if f != nil {
		locked.Info = f.Holder()
	}
	return locked
}
