package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Acquire takes the lock, waiting for as long as ctx allows: behind the goroutines of this
// process that came before, and behind the processes that came before, in the kernel's
// queue. It looks from time to time, at the head of the queue, where the kernel can't wait:
// for a holder without a kernel lock, and for what is no lock file (a symbolic link, a
// folder).
//
// On success it is TryAcquire. When ctx ends during the wait, nothing is held, and nothing
// but the sibling is left on disk. The error then matches ErrTimeout and
// context.DeadlineExceeded, or context.Canceled. It is an *ErrLocked that names the holder,
// unless nobody is in the way by then. A ctx that is done before is refused with its own
// cause. Any other error, ErrReentrant among them, ends the wait at once.
//
// A wait in the kernel can't be called off. After ctx has ended, a thread and a descriptor
// stay with the lock until its holder lets go; the next waiter for it here uses them. A
// process has at most 64 of these, for all locks; further waiters look from time to time.
func (f File) Acquire(ctx context.Context) (*FileHold, error) {
	return f.wait(ctx, platform.Exclusive)
}

// AcquireShared is Acquire for a lock that any number of readers can have together, but not
// beside an exclusive holder. Readers who come after a waiting writer wait behind it (on
// Linux). TryAcquireShared says where shared means exclusive.
func (f File) AcquireShared(ctx context.Context) (*FileHold, error) {
	return f.wait(ctx, platform.Shared)
}

// AcquireWithin is Acquire with a limit, however short: 0 tries once, as TryAcquire, and a
// negative limit waits as long as ctx allows. When the limit passes, the error matches
// ErrTimeout.
func (f File) AcquireWithin(ctx context.Context, limit time.Duration) (*FileHold, error) {
	return within(ctx, limit, f.Acquire, f.TryAcquire)
}

// AcquireSharedWithin is AcquireWithin for a shared lock: see AcquireShared.
func (f File) AcquireSharedWithin(ctx context.Context, limit time.Duration) (*FileHold, error) {
	return within(ctx, limit, f.AcquireShared, f.TryAcquireShared)
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
	var locked *ErrLocked
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
	held, err := w.attempt.acquire(ctx)
	switch {
	case err == nil && ctx.Err() == nil:
		return held, nil
	case err == nil: // cancel beats acquire
		rerr := held.ReleaseUnused()
		return nil, joined(w.gaveUp(ctx, nil), rerr)
	case ctx.Err() != nil:
		return nil, w.gaveUp(ctx, err)
	}
	return nil, err
}

// standInLine returns when the caller's turn in this process's queue has come. The caller
// leaves the queue.
func (f File) standInLine(ctx context.Context, mode platform.Mode) (_ *waiter, err error) {
	w := &waiter{poll: newBackoff(maxDelay), alien: newBackoff(maxAlienDelay)}
	a, err := f.attempt(mode, w)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, pathError("acquire", a.file.Path, contextError(ctx))
	}
	if err := a.reentrant(ctx); err != nil {
		return nil, err
	}
	w.attempt = a
	w.enqueue(a.file.Path, a.mode)
	first := false
	defer func() {
		if !first {
			w.leave()
		}
	}()
	if err := w.turn(ctx); err != nil {
		return nil, w.gaveUp(ctx, err)
	}
	first = true
	return w, nil
}

// leave ends the wait, and gives up the place in the queue.
func (w *waiter) leave() {
	w.stop()
	w.ticket.leave()
}

// maxAlienDelay is short, as other programs that wait for a holder without a kernel lock
// may look every few milliseconds. Only the first in our queue does it.
const maxAlienDelay = 20 * time.Millisecond

// A waiter is one goroutine on its way through its process's queue, with the patience of
// Acquire.
type waiter struct {
	attempt *attempt
	ticket
	poll  backoff // for a place among those who wait in the kernel
	alien backoff // for a holder without kernel lock

	waiting bool
	notice  *time.Timer // nil without OnWait
	calling sync.Mutex  // held while OnWait runs
	stopped bool        // guarded by calling
}

// turn waits until we are the first in this process's queue.
func (w *waiter) turn(ctx context.Context) error {
	if w.first == nil {
		return nil
	}
	select {
	case <-w.first:
		return nil
	default:
	}
	w.begunToWait()
	select {
	case <-w.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockSibling waits for the sibling: it takes it at once if it is free, and else waits in
// the kernel, by a wait of its own or one that was left to it.
func (w *waiter) lockSibling(ctx context.Context, a *attempt) (*platform.File, error) {
	seenFree := false
	for ctx.Err() == nil {
		f, err := a.openSibling()
		if err == errMoved || errors.Is(err, platform.ErrLeased) {
			w.begunToWait()
			w.poll.sleep(ctx)
			continue
		} else if err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		parked := w.queue.adopted(atSibling, f)
		if parked != nil {
			_ = f.Close() // it has no lock
		} else {
			at, err := w.tryToPass(f)
			if err != platform.ErrBusy {
				return f, err
			}
			if _, err := f.Stat(); err != nil { // its identity is needed to look after it
				return nil, joined(fmt.Errorf("lock: %w", err), f.Close())
			}
			parked = &wait{file: f, mode: a.mode, turnstile: at, giveBack: a.giveBackSibling}
			a.at(stepParks)
			if !w.queue.park(atSibling, parked) { // enough threads are parked
				free := at == turnstileWaiting && a.lockFree(f) == nil
				if free && seenFree { // as siblingWatch does
					return f, nil
				}
				seenFree = free
				_ = f.Close()
				w.begunToWait()
				w.poll.sleep(ctx)
				continue
			}
		}
		w.begunToWait()
		if a.queued() {
			parked.file.SayWaiting(a.begun)
		}
		watch := siblingWatch{waiter: w, parked: parked, looks: newLooks()}
		came, err := w.await(ctx, atSibling, parked, watch.check)
		switch {
		case came && err == platform.ErrBusy: // the sibling has moved: see WaitLock
			_ = parked.file.Close()
		case came:
			a.at(stepGranted)
			return parked.file, err
		case err != nil || watch.file != nil:
			return watch.file, err
		}
	}
	return nil, ctx.Err()
}

// tryToPass tries for the lock of the sibling. With ErrBusy it returns how far we got at
// the turnstile. If nobody is at the turnstile, it need not be taken: whoever takes it from
// then on came later.
func (w *waiter) tryToPass(f *platform.File) (turnstile, error) {
	a := w.attempt
	if !a.queued() || isStuck(a.file.Path) {
		return turnstileNone, f.TryLock(a.mode)
	}
	taken, err := f.TurnstileTaken()
	if err != nil {
		return turnstileNone, err
	}
	if !taken {
		if err := f.TryLock(a.mode); err != platform.ErrBusy {
			return turnstileNone, err
		}
	}
	switch err := f.TryTurnstile(); err {
	case nil:
		return turnstileOurs, f.TryLock(a.mode)
	case platform.ErrBusy:
		return turnstileWaiting, err
	default:
		return turnstileNone, err
	}
}

// await waits until a wait in the kernel comes, and calls check from time to time. It
// returns the wait's error if it came; ctx's error if ctx is done, and the wait stays for
// the next one; or neither, when check returns 0 because there is nothing to wait for any
// more.
func (w *waiter) await(ctx context.Context, at int, parked *wait, check func() (again time.Duration)) (came bool, err error) {
	timer := time.NewTimer(jitter(firstLook))
	defer timer.Stop()
	for {
		select {
		case err := <-parked.came:
			w.queue.took(at)
			return true, err
		case <-ctx.Done():
			return false, ctx.Err()
		case <-timer.C:
			again := check()
			w.attempt.at(stepLooked)
			if again == 0 {
				return false, nil
			}
			timer.Reset(jitter(again))
		}
	}
}

// How often a wait in the kernel is looked after: seldom when it has lasted, and soon
// again when it seems to be stuck.
const (
	firstLook = 40 * time.Millisecond
	mostLook  = time.Second
)

func newLooks() backoff { return backoff{delay: firstLook, most: mostLook} }

// lockOwn waits for a lock file that somebody has locked though the sibling is free: the
// file was replaced, or a dead holder's child has the lock, or another program.
func (w *waiter) lockOwn(ctx context.Context, a *attempt, f *platform.File, path string, mode platform.Mode) (*platform.File, error) {
	parked := w.queue.adopted(atLockFile, f)
	if parked != nil && parked.mode != mode {
		w.queue.leaveWait(atLockFile)
		parked = nil
	}
	if parked != nil {
		_ = f.Close() // it has no lock
	}
	for parked == nil {
		// Whoever only looks is gone in an instant.
		if f, err := (impatient{tries: 3}).lockOwn(ctx, a, f, path, mode); err != platform.ErrBusy {
			return f, err
		}
		parked = &wait{file: f, mode: mode, giveBack: func(f *platform.File, err error) { a.giveBack(f, path, mode, err) }}
		a.at(stepParks)
		if !w.queue.park(atLockFile, parked) {
			parked = nil
			w.begunToWait()
			if w.poll.sleep(ctx); ctx.Err() != nil {
				return f, ctx.Err()
			}
		}
	}
	w.begunToWait()
	looks := newLooks()
	came, err := w.await(ctx, atLockFile, parked, func() time.Duration {
		if at, err := parked.file.IsAt(path); err == nil && !at {
			w.queue.leaveWait(atLockFile)
			return 0
		}
		return looks.next()
	})
	switch {
	case came && err == platform.ErrBusy: // see WaitLock
		return parked.file, errMoved
	case came:
		return parked.file, err
	case err == nil:
		err = errMoved
	}
	return nil, err
}

// giveBack lets go of a file's own lock that came when nobody was left to take it.
func (p *place) giveBack(f *platform.File, path string, mode platform.Mode, err error) {
	if err == nil && mode == platform.Shared {
		_ = p.leave(f, func(step) {})
	} else if err == nil {
		_ = p.clear(f, path, func(step) {})
	}
	_ = f.Close()
}

// lookAgain looks from time to time, from our place in the queue, as no kernel lock stands
// for this holder.
func (w *waiter) lookAgain(ctx context.Context, _ *attempt, looked int, locked *ErrLocked) error {
	switch {
	case locked != nil:
		w.begunToWait()
		if w.alien.sleep(ctx); ctx.Err() != nil {
			return locked
		}
	case looked > 10*moves: // this is more than passing
		w.begunToWait()
		w.alien.sleep(ctx)
	case looked > moves:
		sleep(ctx, passage)
	}
	return nil
}
