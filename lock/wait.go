package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
	"github.com/holdfast-go/holdfast/platform"
)

// Acquire takes the lock, waiting for as long as ctx allows: behind earlier goroutines of this
// process, and behind earlier processes, in the kernel's queue. At the head of the queue it
// looks from time to time where the kernel can't wait: for a holder without a kernel lock, and
// for what is no lock file (a symbolic link, a folder).
//
// On success it is TryAcquire. When ctx ends during the wait, nothing is held, and nothing but
// the sibling is left on disk. The error then matches ErrTimeout and context.DeadlineExceeded,
// or context.Canceled. It is a *LockedError that names the holder, unless nobody is in the way
// by then. A ctx that is done before is refused with its own cause. Any other error,
// ErrReentrant among them, ends the wait at once.
//
// A wait in the kernel can't be called off. After ctx has ended, a thread and a descriptor
// stay with the lock until its holder lets go; the next waiter for it here uses them. A
// process has at most 64 of these, for all locks; further waiters look from time to time.
func (f File) Acquire(ctx context.Context) (*FileHold, error) {
	return f.wait(ctx, f.mode())
}

// AcquireWithin is Acquire with a limit, however short: 0 tries once, as TryAcquire, and a
// negative limit waits as long as ctx allows. When the limit passes, the error matches
// ErrTimeout.
func (f File) AcquireWithin(ctx context.Context, limit time.Duration) (*FileHold, error) {
	return within(ctx, limit, f.Acquire, f.TryAcquire)
}

// within acquires with a limit, however short.
func within[H Hold](ctx context.Context, limit time.Duration, acquire, try func(context.Context) (H, error)) (H, error) {
	switch {
	case limit < 0:
		return acquire(ctx)
	case limit == 0:
		return try(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	held, err := acquire(limited)
	var locked *LockedError
	if err == nil || errors.As(err, &locked) || limited.Err() == nil || ctx.Err() != nil {
		return held, err
	}
	// The limit had passed before the first look.
	held, err = try(ctx)
	if errors.As(err, &locked) && locked.Cause == nil {
		locked.Waited = limit
		locked.Cause = fmt.Errorf("%w: %w", ErrTimeout, limited.Err())
	}
	return held, err
}

func (f File) wait(ctx context.Context, mode platform.Mode) (*FileHold, error) {
	w, err := f.standInLine(ctx, mode)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	w.acquires = !f.unprepared
	held, err := w.attempt.acquire(ctx)
	switch {
	case err == nil && ctx.Err() == nil:
		return held, nil
	case err == nil: // cancel beats acquire
		rerr := held.ReleaseUnused()
		return nil, fail.Join(w.gaveUp(ctx, nil), rerr)
	case ctx.Err() != nil:
		return nil, w.gaveUp(ctx, err)
	}
	return nil, err
}

// standInLine returns when the caller's turn in this process's queue has come. The caller
// leaves the queue.
func (f File) standInLine(ctx context.Context, mode platform.Mode) (_ *waiter, err error) {
	w := &waiter{alien: pace.New(maxAlienDelay)}
	a, err := f.attempt(mode, w)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fail.At("acquire", a.file.Path, fail.Context(ctx))
	}
	if err := a.reentrant(ctx); err != nil {
		return nil, err
	}
	w.attempt = a
	w.Tidier = a.tidier()
	w.Stand(&a.sibling, a.take.Mode, a.begun, w)
	first := false
	defer func() {
		if !first {
			w.leave()
		}
	}()
	if err := w.Turn(ctx); err != nil {
		return nil, w.gaveUp(ctx, err)
	}
	first = true
	return w, nil
}

// leave ends the wait, and gives up the place in the queue.
func (w *waiter) leave() {
	w.stop()
	w.Leave()
}

// maxAlienDelay is short, as other programs that wait for a holder without a kernel lock
// may look every few milliseconds. Only the first in our queue does it.
const maxAlienDelay = 20 * time.Millisecond

// A waiter is one goroutine on its way through its process's queue, with the patience of
// Acquire.
type waiter struct {
	attempt *attempt
	queue.Waiter
	queue.Tidier
	alien    pace.Backoff // for a holder without kernel lock
	acquires bool         // the lock file is made while it waits

	waiting bool
	notice  *time.Timer // nil without Observe
	calling sync.Mutex  // held while Observe is told that it lasts
	stopped bool        // guarded by calling
}

// lockSibling waits for the sibling.
func (w *waiter) lockSibling(ctx context.Context, _ *attempt) (*platform.File, error) {
	f, err := w.Lock(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, fail.Join(fmt.Errorf("lock: %w", err), f.Close())
	}
	return f, err
}

// LockOwn waits for a lock file that is locked though the sibling is free: the file was
// replaced, or a dead holder's child has the lock, or another program.
func (w *waiter) LockOwn(ctx context.Context, f *platform.File, path string, mode platform.Mode) (*platform.File, error) {
	if err := f.TryLock(mode); err != platform.ErrBusy {
		return f, err
	}
	return w.LockOther(ctx, f, mode, &wanted{ctx, &w.attempt.Lock, path, mode})
}

// wanted is a lock file that a waiter waits for.
type wanted struct {
	ctx  context.Context // of the wait; Try alone needs it
	lock *lockfile.Lock
	path string
	mode platform.Mode
}

// Try outwaits a process that only looks, which is gone in an instant.
func (w *wanted) Try(f *platform.File) error { return w.lock.LockSoon(w.ctx, f, w.path, w.mode, 3) }

func (w *wanted) Moved(f *platform.File) bool {
	at, err := f.IsAt(w.path)
	return err == nil && !at
}

func (w *wanted) GiveBack(f *platform.File, err error) { w.lock.GiveBack(f, w.path, w.mode, err) }

func (w *waiter) Parked() {
	if w.acquires {
		w.attempt.take.Prepare()
	}
}

func (w *waiter) won() { w.stop() }

func (w *waiter) waiter() lockfile.Waiter { return w }

func (w *waiter) tries() int { return 0 }

// lookAgain looks from time to time, from our place in the queue, as this holder has no kernel
// lock.
func (w *waiter) lookAgain(ctx context.Context, _ *attempt, looked int, locked *LockedError) error {
	switch {
	case locked != nil:
		w.BegunToWait()
		if w.alien.Sleep(ctx); ctx.Err() != nil {
			return locked
		}
	case looked > 10*pace.Moves: // this is more than passing
		w.BegunToWait()
		w.alien.Sleep(ctx)
	case looked > pace.Moves:
		pace.Sleep(ctx, pace.Passage)
	}
	return nil
}
