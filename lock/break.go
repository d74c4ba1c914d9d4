package lock

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/platform"
)

// Break removes the lock file of a dead holder, as acquiring would, and returns what it
// found. A free lock is left as it is, without error. When the holder is alive, or may be,
// the error is an *ErrLocked and the lock file is left alone.
func (f File) Break(ctx context.Context) (Status, error) {
	before, err := f.Inspect(ctx)
	if err != nil || before.State == StateFree {
		return before, err
	}
	held, err := f.orAsThere().TryAcquire(ctx)
	if err != nil {
		return before, err
	}
	// What we took over counts, not what was there a moment ago.
	found := Status{Path: held.Path(), State: StateFree, Evidence: EvidenceNoLockFile, Fence: before.Fence}
	if dead := held.attempt.reclaimed; dead != nil {
		found.State, found.Evidence, found.Info = StateDead, dead.Evidence, dead.Info
	}
	return found, held.ReleaseUnused()
}

// BreakForce removes the lock file of a holder who may be alive or dead, if its claim has
// this nonce: the caller has seen this very claim, and answers for its holder. It returns
// what it found. A free lock is left as it is, without error.
//
// When the claim is another one, or its holder is proven alive (by the kernel lock of the
// file, or by the process), the error is an *ErrLocked and nothing is changed. Ending that
// process is the way to free the lock.
//
// A holder that lives after all learns of it at Release (ErrLost).
func (f File) BreakForce(ctx context.Context, nonce string) (Status, error) {
	before, err := f.Inspect(ctx)
	if err != nil || before.State == StateFree {
		return before, err
	}
	a, err := f.attempt(platform.Exclusive, impatient{tries: passageTries})
	if err != nil {
		return before, err
	}
	if !platform.OwnLocks { // the sibling's stands for it
		if err := a.takeSibling(ctx); err != nil {
			return before, err
		}
		defer a.siblingLock.Close()
	}
	there, err := a.lookLocked(ctx, a.file.Path, platform.Exclusive)
	if err == errMoved {
		return a.inspect(ctx, noList)
	} else if err != nil {
		return before, err
	}
	if nonce == "" || there.claim == nil || there.claim.Nonce != nonce {
		err = a.locked(a.file.Path, there, StateUnknown, EvidenceOtherNonce)
	} else if state, evidence := a.judge(ctx, there, a.kernelFactOf(there)); state == StateHeld {
		err = a.locked(a.file.Path, there, state, evidence)
	} else if err = a.remove(ctx, a.file.Path, there, stepReread); err == errMoved {
		err = a.locked(a.file.Path, nil, StateUnknown, EvidenceOtherNonce)
	}
	var locked *ErrLocked
	if err != nil && !errors.As(err, &locked) {
		err = pathError("break", a.file.Path, err)
	}
	return before, joined(err, there.close())
}
