package lock

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// Break removes the lock file of a dead holder, as acquiring would, and returns what it
// found. A free lock is left as it is, without error. When the holder is alive, or may be,
// the error is a *LockedError and the lock file is left alone.
func (f File) Break(ctx context.Context) (Status, error) {
	before, err := f.Inspect(ctx)
	if err != nil || before.State == evidence.Free {
		return before, err
	}
	held, err := f.orAsThere().TryAcquire(ctx)
	if err != nil {
		return before, err
	}
	// What we took over counts, and not what was there a moment ago.
	found := Status{Path: held.Path(), State: evidence.Free, Evidence: evidence.NoLockFile, Fence: before.Fence}
	if dead := held.attempt.reclaimed; dead != nil {
		found.State, found.Evidence, found.Info = evidence.Dead, dead.Evidence, dead.Claim
	}
	return found, held.ReleaseUnused()
}

// BreakForce removes the lock file of a holder that may be alive or dead, if its claim has
// this nonce: the caller has seen this very claim, and answers for its holder. It returns what
// it found. A free lock is left as it is, without error.
//
// When the claim is another one, or its holder is proven alive (by the kernel lock of the
// file, or by the process), the error is a *LockedError and nothing is changed. Ending that
// process is the way to free the lock.
//
// A holder that lives after all learns of it at Release (ErrLost).
func (f File) BreakForce(ctx context.Context, nonce string) (Status, error) {
	before, err := f.Inspect(ctx)
	if err != nil || before.State == evidence.Free {
		return before, err
	}
	a, err := f.attempt(platform.Exclusive, impatient(pace.Tries))
	if err != nil {
		return before, err
	}
	if !platform.OwnLocks { // the sibling's stands for it
		if err := a.takeSibling(ctx); err != nil {
			return before, err
		}
		defer a.siblingLock.Close()
	}
	there, err := a.take.LookLocked(ctx, a.file.Path, platform.Exclusive)
	if err == errMoved {
		return a.inspect(ctx, noList())
	} else if err != nil {
		return before, err
	}
	if nonce == "" || there.Claim == nil || there.Claim.Nonce != nonce {
		err = a.locked(a.file.Path, there, evidence.Unknown, evidence.OtherNonce)
	} else if state, why := a.Judge(ctx, there, a.take.KernelFact(there)); state == evidence.Held {
		err = a.locked(a.file.Path, there, state, why)
	} else if err = a.take.Remove(ctx, a.file.Path, there, lockfile.StepReread); err == errMoved {
		err = a.locked(a.file.Path, nil, evidence.Unknown, evidence.OtherNonce)
	}
	var locked *LockedError
	if err != nil && !errors.As(err, &locked) {
		err = fail.At("break", a.file.Path, err)
	}
	return before, fail.Join(err, there.Close())
}
