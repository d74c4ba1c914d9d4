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
// returns what was found before. A free lock is left as it is, without error;
// when the holder is alive, or may be, the error is an *ErrLocked and nothing is
// changed.
func (f File) Break(ctx context.Context) (Status, error) {
	before, err := f.Inspect(ctx)
	if err != nil || before.State == StateFree {
		return before, err
	}
	held, err := f.TryAcquire(ctx)
	if err != nil {
		return before, err
	}
	return before, held.Release()
}

// BreakForce removes the lock file whatever is known of its holder, provided that
// its claim has this nonce: the caller has seen this very claim, and answers for
// its holder. When the claim is another one, the error is an *ErrLocked and
// nothing is changed.
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
	a, err := f.begin(platform.Exclusive)
	if err != nil {
		return before, err
	}
	marker, err := a.takeMarker(ctx, a.markerPath())
	if err != nil {
		return before, err
	}
	defer a.discard(a.markerPath(), marker)
	// The holder may release at any moment, and another acquire: they don't heed
	// the marker. So the file is taken aside first, in one step, over the marker,
	// and goes only if it is what was meant; or else back, as it was.
	err = platform.Replace(a.file.Path, a.markerPath())
	if errors.Is(err, fs.ErrNotExist) {
		return before, nil
	} else if err != nil {
		return before, pathError("break", a.file.Path, err)
	}
	found, err := look(a.markerPath())
	if err == nil && found.claim != nil && found.claim.Nonce == nonce {
		return before, nil
	}
	if err := os.Link(a.markerPath(), a.file.Path); err != nil {
		return before, pathError("put back", a.file.Path, err)
	}
	return before, a.locked(a.file.Path, found, Unknown, OtherNonce)
}
