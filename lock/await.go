package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/platform"
)

// AwaitFree waits until nobody has the lock, and does not take it. It stands in the queue as
// an Acquire does: behind earlier waiters, and before later ones. When its turn has come, and
// nobody has the lock, it lets go. A lock whose holder is dead is free, and stays as it is;
// one that a dead holder has left to its children is not.
//
// After nil the lock was free at one moment since the call, and may be taken by now. No lock
// file has been made. Nor is a TryAcquire of that moment refused: it outwaits what passes in
// an instant. The sibling has been made only if the lock file was there without it.
//
// When ctx ends during the wait, the error is Acquire's. So is any other error, such as
// ErrReentrant. RequireKernelLock counts as it does there.
func (f File) AwaitFree(ctx context.Context) error {
	p, err := f.locate()
	if errors.Is(err, fs.ErrNotExist) && f.isOfDir() {
		return nil // nobody has acquired anything in that space yet
	} else if err != nil {
		return err
	}
	if ctx.Err() == nil && isAbsent(p.file.Path) && isAbsent(p.sibling.Path) {
		return nil // nor this lock
	}
	w, err := f.standInLine(ctx, platform.Exclusive)
	if err != nil {
		return err
	}
	defer w.attempt.sibling.TidyUp(w.attempt.tidier())
	defer w.leave()
	if err = w.attempt.awaitFree(ctx); err != nil && ctx.Err() != nil {
		err = w.gaveUp(ctx, err)
	}
	return err
}

// awaitFree lets go of the queue after each look. So while it waits for a dying holder, or one
// without a kernel lock, it is in no newcomer's way.
func (a *attempt) awaitFree(ctx context.Context) error {
	if a.file.RequireKernelLock && (!a.Fsys.Trusted || a.file.noKernelLock) {
		return a.unsupported()
	}
	for round := 1; ; round++ {
		if ctx.Err() != nil {
			return fail.At("await", a.file.Path, fail.Context(ctx))
		}
		err := a.takeSibling(ctx)
		a.leaveTurnstile()
		if err == nil {
			err = fail.Join(a.checkFree(ctx), a.siblingLock.Close())
			a.siblingLock = nil
		}
		var locked *LockedError
		if !errors.As(err, &locked) && err != errMoved {
			return err
		}
		if err := a.patience.lookAgain(ctx, a, round, locked); err != nil {
			return err
		}
	}
}

// checkFree looks at the lock file from our place at the head of the queue. It returns nil if
// the lock is free, a *LockedError if it is held, or may be, and errMoved if another look at
// once is worth it. It waits for any process that has the lock file's own lock.
func (a *attempt) checkFree(ctx context.Context) error {
	if isAbsent(a.file.Path) {
		return nil
	}
	f, err := a.take.LookLocked(ctx, a.file.Path, platform.Exclusive)
	if err != nil {
		return err
	}
	// We only look, so nobody is to be refused because of us. A TryAcquire that finds the queue
	// busy goes by the claim, dead or not; one that finds the own lock busy tries again. So we
	// leave the queue first. Nor do we wait for a dying process.
	if a.take.HasOwnLocks() {
		_ = a.siblingLock.Close() // called again by our caller
	}
	at, cancel := context.WithCancel(ctx)
	cancel()
	s := Status{Info: f.Holder()}
	s.State, s.Evidence = a.Judge(at, f, a.take.KernelFact(f))
	if s.State == evidence.Dead {
		a.inspectMarker(at, noList(), &s) // another program's: no reclaimer of ours gets here
	}
	a.at(lockfile.StepJudged)
	if a.take.HasOwnLocks() && f.File != nil {
		a.GiveBack(f.File, a.file.Path, platform.Exclusive, nil)
	} else {
		_ = f.Close() // it has no lock
	}
	if s.State == evidence.Dead {
		return nil
	}
	locked := a.locked(a.file.Path, nil, s.State, s.Evidence)
	locked.Info = s.Info
	return locked
}

func isAbsent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
