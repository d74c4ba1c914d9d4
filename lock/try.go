package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
	"github.com/holdfast-go/holdfast/platform"
)

// TryAcquire takes the lock if it is free, or if the holder is dead, and does not wait. It
// takes no place in the queue, and may get in before the waiters.
//
// On success the lock file names this process, and the FileHold releases it. When the lock is
// held, or may be, the error is a *LockedError. With any error nothing is held, and nothing of
// others' has been changed; the sibling may have been created, and claims of dead holders
// removed.
//
// A lock that another goroutine of the same process holds is contention like any other. Under
// a context of a FileHold of this very lock, the *LockedError matches ErrReentrant.
func (f File) TryAcquire(ctx context.Context) (*FileHold, error) {
	a, err := f.attempt(f.mode(), impatient(pace.Tries))
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fail.At("acquire", a.file.Path, fail.Context(ctx))
	}
	if err := a.reentrant(ctx); err != nil {
		return nil, err
	}
	held, err := a.acquire(ctx)
	if err == nil && ctx.Err() != nil { // cancel beats acquire
		return nil, fail.Join(fail.At("acquire", a.file.Path, fail.Context(ctx)), held.ReleaseUnused())
	}
	return held, err
}

// impatient is the patience of TryAcquire. It outwaits only what passes in an instant: others
// that are between two steps or only look.
type impatient int

func (p impatient) lockSibling(ctx context.Context, a *attempt) (*platform.File, error) {
	for try := 1; ; try++ {
		f, err := a.sibling.Try(a.take.Mode, try == int(p))
		if err == nil {
			return f, nil
		}
		var locked *LockedError
		betweenSteps := true
		switch {
		case err == platform.ErrBusy:
			locked, betweenSteps = a.kernelHolder(f)
		case err == queue.ErrOthersWait:
			locked = a.locked(a.file.Path, nil, evidence.Held, evidence.OthersWait)
		case err == errMoved:
			locked = a.locked(a.file.Path, nil, evidence.Unknown, evidence.Unproven)
		case errors.Is(err, platform.ErrLeased):
			locked = a.locked(a.file.Path, nil, evidence.Unknown, evidence.Leased)
		default:
			return nil, fail.Join(fmt.Errorf("lock: %w", err), f.Close())
		}
		_ = f.Close() // it has no lock
		if !betweenSteps || try == int(p) {
			return nil, locked
		}
		a.at(lockfile.StepBusy)
		if pace.Sleep(ctx, pace.Passage); ctx.Err() != nil {
			return nil, fail.At("acquire", a.file.Path, fail.Context(ctx))
		}
	}
}

func (p impatient) won() {}

func (p impatient) waiter() lockfile.Waiter { return nil }

func (p impatient) tries() int { return int(p) }

func (p impatient) lookAgain(ctx context.Context, a *attempt, looked int, locked *LockedError) error {
	switch {
	case locked != nil:
		return locked
	case looked == pace.Moves:
		return a.locked(a.file.Path, nil, evidence.Unknown, evidence.Unproven)
	}
	pace.Sleep(ctx, pace.Passage)
	return nil
}

// kernelHolder describes the holder of the busy kernel lock of the sibling, which may be nil.
// betweenSteps says that the holder has no claim on disk (yet, or any more): another look may
// find the lock free, or its holder known.
func (p *place) kernelHolder(sibling *platform.File) (locked *LockedError, betweenSteps bool) {
	f, err := p.Look(p.file.Path)
	if err != nil {
		return p.lockedByKernel(p.file.Path, nil, sibling), true
	}
	defer f.Close()
	locked = p.lockedByKernel(p.file.Path, f, sibling)
	return locked, locked.Info == nil && locked.Gone == nil && !locked.Shared
}
