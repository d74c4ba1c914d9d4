package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Break removes the lock file of a holder that is dead, as acquiring would, and
// returns what it found. A free lock is left as it is, without error; when the
// holder is alive, or may be, the error is an *ErrLocked and nothing is changed.
func (f File) Break(ctx context.Context) (Status, error) {
	before, err := f.Inspect(ctx)
	if err != nil || before.State == StateFree {
		return before, err
	}
	held, err := f.TryAcquire(ctx)
	if err != nil {
		return before, err
	}
	// What we took over counts, not what was there a moment ago.
	found := Status{Path: held.Path(), State: StateFree, Evidence: NoLockFile}
	if dead := held.attempt.reclaimed; dead != nil {
		found.State, found.Evidence, found.Holder = StateDead, dead.Evidence, dead.Info
	}
	return found, held.Release()
}

// BreakForce removes the lock file whatever is known of its holder, provided that
// its claim has this nonce: the caller has seen this very claim, and answers for
// its holder. When the claim is another one, the error is an *ErrLocked and
// nothing is changed. It returns what it found.
//
// A holder that lives learns of it at Release (ErrLost). Its kernel lock can't be
// broken, and keeps others out until it lets go or dies.
func (f File) BreakForce(ctx context.Context, nonce string) (Status, error) {
	before, err := f.Inspect(ctx)
	if err != nil || before.State == StateFree {
		return before, err
	}
	if nonce == "" || before.Holder == nil || before.Holder.Nonce != nonce {
		return before, &ErrLocked{Path: before.Path, Info: before.Holder, Verdict: Unknown, Evidence: OtherNonce, now: time.Now()}
	}
	// The holder may release at any moment, and another acquire. So the file is
	// taken aside first, in one step, and goes only if it is what was meant; or
	// else back, as it was.
	aside := before.Path + markerSuffix + "." + newNonce()
	err = os.Rename(before.Path, aside)
	if errors.Is(err, fs.ErrNotExist) {
		return Status{Path: before.Path, State: StateFree, Evidence: NoLockFile}, nil
	} else if err != nil {
		return before, pathError("break", before.Path, err)
	}
	found, err := look(aside)
	if err == nil && found.claim != nil && found.claim.Nonce == nonce {
		return before, ignoreAbsent(platform.Remove(aside))
	}
	if err := os.Link(aside, before.Path); err != nil {
		return before, pathError("put back", before.Path, err)
	}
	locked := &ErrLocked{Path: before.Path, Verdict: Unknown, Evidence: OtherNonce, now: time.Now()}
	if found != nil {
		locked.Info = found.claim
	}
	return before, also(locked, ignoreAbsent(platform.Remove(aside)))
}
