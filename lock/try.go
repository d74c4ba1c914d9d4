package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// TryAcquire takes the lock if nobody has it, or if the holder is dead, and does not wait.
// It takes no place in the queue, and may get in before the waiters.
//
// On success the lock file names this process, and the FileHold releases it. When somebody
// has the lock, or may have it, the error is an *ErrLocked. With any error nothing is held,
// and nothing of others' has been changed; the sibling may have been created, and claims of
// dead holders removed.
//
// A lock that another goroutine of the same process holds is contention like any other.
// Under a context of a FileHold of this very lock, the *ErrLocked matches ErrReentrant.
func (f File) TryAcquire(ctx context.Context) (*FileHold, error) {
	return f.try(ctx, platform.Exclusive)
}

// TryAcquireShared is TryAcquire for a lock that any number of readers can have together,
// but not beside an exclusive holder. Readers respect the queue: while anyone waits for the
// lock, the error is an *ErrLocked (on Linux). Without a trustworthy kernel lock, and on
// Windows, shared means exclusive.
func (f File) TryAcquireShared(ctx context.Context) (*FileHold, error) {
	return f.try(ctx, platform.Shared)
}

func (f File) try(ctx context.Context, mode platform.Mode) (*FileHold, error) {
	a, err := f.attempt(mode, impatient{tries: passageTries})
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, pathError("acquire", a.file.Path, contextError(ctx))
	}
	if err := a.reentrant(ctx); err != nil {
		return nil, err
	}
	held, err := a.acquire(ctx)
	if err == nil && ctx.Err() != nil { // cancel beats acquire
		return nil, joined(pathError("acquire", a.file.Path, contextError(ctx)), held.ReleaseUnused())
	}
	return held, err
}

// impatient is the patience of TryAcquire. It outwaits what passes in an instant, others
// who are between two steps or only look, and nothing else.
type impatient struct{ tries int }

const (
	passage      = 500 * time.Microsecond
	passageTries = 10
)

// moves is how often to begin again. Each round takes an act of somebody else.
const moves = 10

func (p impatient) lockSibling(ctx context.Context, a *attempt) (*platform.File, error) {
	for try := 1; ; try++ {
		f, err := a.openSibling()
		if err == nil {
			if err = a.passTurnstile(f); err == nil {
				err = f.TryLock(a.mode)
			} else if err == errQueued && try == p.tries && a.lockFree(f) == nil {
				err = nil // they are stopped, or slow
			}
			if err == nil {
				return f, nil
			}
		}
		var locked *ErrLocked
		betweenSteps := true
		switch {
		case err == platform.ErrBusy:
			locked, betweenSteps = a.kernelHolder(f)
		case err == errQueued:
			locked = a.locked(a.file.Path, nil, StateHeld, EvidenceOthersWait)
		case err == errMoved:
			locked = a.locked(a.file.Path, nil, StateUnknown, EvidenceUnproven)
		case errors.Is(err, platform.ErrLeased):
			locked = a.locked(a.file.Path, nil, StateUnknown, EvidenceLeased)
		default:
			return nil, joined(fmt.Errorf("lock: %w", err), f.Close())
		}
		_ = f.Close() // it has no lock
		if !betweenSteps || try == p.tries {
			return nil, locked
		}
		a.at(stepBusy)
		if sleep(ctx, passage); ctx.Err() != nil {
			return nil, pathError("acquire", a.file.Path, contextError(ctx))
		}
	}
}

// passTurnstile returns errQueued for a reader who would get in before waiters.
func (a *attempt) passTurnstile(f *platform.File) error {
	if a.mode != platform.Shared || !a.queued() || isStuck(a.file.Path) {
		return nil
	}
	taken, err := f.TurnstileTaken()
	if err == nil && taken {
		err = errQueued
	}
	return err
}

func (p impatient) lockOwn(ctx context.Context, a *attempt, f *platform.File, path string, mode platform.Mode) (*platform.File, error) {
	for try := 1; ; try++ {
		err := f.TryLock(mode)
		if err != platform.ErrBusy {
			return f, err
		}
		if at, err := f.IsAt(path); err != nil || !at {
			return f, cmp.Or(err, errMoved)
		}
		if try == p.tries {
			return f, platform.ErrBusy
		}
		a.at(stepBusy)
		if sleep(ctx, passage); ctx.Err() != nil {
			return f, pathError("acquire", path, contextError(ctx))
		}
	}
}

func (p impatient) lookAgain(ctx context.Context, a *attempt, looked int, locked *ErrLocked) error {
	switch {
	case locked != nil:
		return locked
	case looked == moves:
		return a.locked(a.file.Path, nil, StateUnknown, EvidenceUnproven)
	}
	sleep(ctx, passage)
	return nil
}

// openSibling opens the sibling, or makes it. The error is errMoved when that fails for
// now: a filesystem that remembers lookups (FUSE, NFS) may say of a file that was just
// removed elsewhere that it is there, and then that it is not.
func (a *attempt) openSibling() (*platform.File, error) {
	f, err := a.makeSibling()
	for try := 1; a.passes(err) && try < passageTries; try++ {
		time.Sleep(passage)
		f, err = a.makeSibling()
	}
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)) && !a.fsys.Trusted {
		if _, ferr := os.Stat(filepath.Dir(a.sibling)); ferr == nil {
			err = errMoved
		}
	}
	return f, a.notPermitted(err)
}

// passes reports whether the sibling can't be opened because of what passes in an instant:
// somebody tidies up, or has just made the sibling for all, and not yet undone their umask.
func (a *attempt) passes(err error) bool {
	return a.tidies() && errors.Is(err, platform.ErrLeased) || a.file.Perm != 0 && errors.Is(err, fs.ErrPermission)
}

// kernelHolder describes the holder of the busy kernel lock of the sibling, which may
// be nil. betweenSteps says that no claim of theirs is on disk (yet, or any more):
// another look may find the lock free, or its holder known.
func (p *place) kernelHolder(sibling *platform.File) (locked *ErrLocked, betweenSteps bool) {
	f, err := p.look(p.file.Path)
	if err != nil {
		return p.lockedByKernel(p.file.Path, nil, sibling), true
	}
	defer f.close()
	locked = p.lockedByKernel(p.file.Path, f, sibling)
	return locked, locked.Info == nil && locked.Gone == nil && !locked.Shared
}
