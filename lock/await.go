package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/holdfast-go/holdfast/platform"
)

// AwaitFree waits until nobody has the lock, and takes it from nobody. It stands in the queue
// as an Acquire does: behind those who came before, and before those who come after. When
// its turn has come, and nobody has the lock, it lets go. A lock whose holder is dead is free,
// and stays as it is; one that a dead holder has left to its children is not.
//
// After nil the lock was free at one moment since the call, and may be somebody's by now. No
// lock file has been made. Nor is a TryAcquire of that moment refused: it outwaits what
// passes in an instant. The sibling has been made only if the lock file was there without it.
//
// When ctx ends during the wait, the error is Acquire's. So is any other error, ErrReentrant
// among them. RequireKernelLock counts as it does there.
func (f File) AwaitFree(ctx context.Context) error {
	p, err := f.locate()
	if errors.Is(err, fs.ErrNotExist) && f.isOfDir() {
		return nil // nobody has acquired anything in that space yet
	} else if err != nil {
		return err
	}
	if ctx.Err() == nil && isAbsent(p.file.Path) && isAbsent(p.sibling) {
		return nil // nor this lock
	}
	w, err := f.standInLine(ctx, platform.Exclusive)
	if err != nil {
		return err
	}
	defer w.attempt.tidyUp()
	defer w.leave()
	if err = w.attempt.awaitFree(ctx); err != nil && ctx.Err() != nil {
		err = w.gaveUp(ctx, err)
	}
	return err
}

// awaitFree lets go of the queue after each look. Whoever comes while a holder is waited for
// who has no kernel lock, or one who is dying, is so in nobody's way but theirs.
func (a *attempt) awaitFree(ctx context.Context) error {
	if a.file.RequireKernelLock && (!a.fsys.Trusted || a.file.noKernelLock) {
		return a.unsupported()
	}
	for round := 1; ; round++ {
		if ctx.Err() != nil {
			return pathError("await", a.file.Path, contextError(ctx))
		}
		err := a.takeSibling(ctx)
		a.leaveTurnstile()
		if err == nil {
			err = joined(a.checkFree(ctx), a.siblingLock.Close())
			a.siblingLock = nil
		}
		var locked *ErrLocked
		if !errors.As(err, &locked) && err != errMoved {
			return err
		}
		if err := a.patience.lookAgain(ctx, a, round, locked); err != nil {
			return err
		}
	}
}

// checkFree looks at the lock file from our place at the head of the queue. It returns nil if
// nobody has the lock, an *ErrLocked if somebody has it, or may have it, and errMoved if
// another look at once is worth it. It waits for those who have the lock file's own lock.
func (a *attempt) checkFree(ctx context.Context) error {
	if isAbsent(a.file.Path) {
		return nil
	}
	f, err := a.lookLocked(ctx, a.file.Path, platform.Exclusive)
	if err != nil {
		return err
	}
	// Nobody is to be refused because of us, who only look. A TryAcquire that finds the queue
	// busy goes by the claim, dead or not; one that finds the own lock busy tries again. So
	// the queue goes first. Nor do we wait for a dying process.
	if a.hasOwnLocks() {
		_ = a.siblingLock.Close() // called again by our caller
	}
	at, cancel := context.WithCancel(ctx)
	cancel()
	s := Status{Info: f.holder()}
	s.State, s.Evidence = a.judge(at, f, a.kernelFactOf(f))
	if s.State == StateDead {
		a.inspectMarker(at, noList, &s) // another program's: of ours nobody gets here
	}
	a.at(stepJudged)
	if a.hasOwnLocks() && f.file != nil {
		a.giveBack(f.file, a.file.Path, platform.Exclusive, nil)
	} else {
		_ = f.close() // it has no lock
	}
	if s.State == StateDead {
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
