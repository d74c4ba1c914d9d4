package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Acquire takes the lock, waiting for as long as ctx allows: behind the
// goroutines of this process that came before, and behind the processes that
// came before, in the kernel's queue. For a lock file whose holder takes no
// kernel lock it looks again from time to time, at the head of the queue.
//
// On success it is TryAcquire. When ctx ends while it waits nothing is held,
// nothing is left behind, and the error is an *ErrLocked that names the holder and matches
// ErrTimeout and context.DeadlineExceeded, or context.Canceled. A ctx that is done
// before is refused with its own cause. Any other error ends the wait at once; so
// does ErrReentrant.
func (f File) Acquire(ctx context.Context) (*Held, error) {
	return f.wait(ctx, platform.Exclusive)
}

// AcquireShared is Acquire for a lock that any number of readers can have
// together, and none beside an exclusive holder. Readers who come after a waiting
// writer wait behind it. As to where shared means exclusive, and the rest, see
// TryAcquireShared.
func (f File) AcquireShared(ctx context.Context) (*Held, error) {
	return f.wait(ctx, platform.Shared)
}

// AcquireWithin is Acquire with a limit, however short: 0 tries once, as
// TryAcquire; a negative limit waits as long as ctx allows.
func (f File) AcquireWithin(ctx context.Context, limit time.Duration) (*Held, error) {
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

func (f File) wait(ctx context.Context, mode platform.Mode) (*Held, error) {
	a, err := f.begin(mode)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, pathError("acquire", a.file.Path, contextError(ctx))
	}
	if err := a.reentrant(ctx); err != nil {
		return nil, err
	}
	t := enqueue(a.file.Path, a.mode)
	defer t.leave()
	w := waiter{attempt: a, ticket: t, queue: t.queue, poll: newBackoff(maxDelay), alien: newBackoff(maxAlienDelay)}
	defer w.stop()
	return w.acquire(ctx)
}

// maxAlienDelay is short, as others who wait for a holder without kernel lock may do
// so by looking every few milliseconds. Only the first of all of us does it.
const maxAlienDelay = 20 * time.Millisecond

// A waiter is one goroutine on its way through its process's queue.
type waiter struct {
	*attempt
	ticket *ticket
	queue  *queue
	poll   backoff // for a place among those who wait in the kernel
	alien  backoff // for a holder without kernel lock
	// turnstile is kept from arrival until the lock file is won, if it is not won at
	// the first look, before inLine is set.
	turnstile *platform.Turnstile
	inLine    bool

	waiting bool
	notice  *time.Timer // nil without OnWait
	calling sync.Mutex  // held while OnWait runs
	stopped bool        // guarded by calling
}

func (w *waiter) acquire(ctx context.Context) (*Held, error) {
	if err := w.turn(ctx); err != nil {
		return nil, w.gaveUp(ctx, err)
	}
	for {
		held, err := w.acquireAsFirst(ctx)
		var locked *ErrLocked
		switch {
		case err == nil && ctx.Err() == nil:
			return held, nil
		case err == nil: // cancel beats acquire
			rerr := held.Release()
			return nil, also(w.gaveUp(ctx, nil), rerr)
		case ctx.Err() != nil:
			return nil, w.gaveUp(ctx, err)
		case !errors.As(err, &locked) && err != errReplaced:
			return nil, err
		}
		// No kernel lock stands for this holder. Look again later, from our place in
		// the queue.
		if !w.inLine {
			w.inLine = true
			continue
		}
		w.begunToWait()
		w.alien.sleep(ctx)
	}
}

// turn waits until we are the first in this process's queue.
func (w *waiter) turn(ctx context.Context) error {
	select {
	case <-w.ticket.first:
		return nil
	default:
	}
	w.begunToWait()
	select {
	case <-w.ticket.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acquireAsFirst takes the kernel lock when it is our turn, and then the lock.
func (w *waiter) acquireAsFirst(ctx context.Context) (*Held, error) {
	again := false
	err := w.takeKernelLock(func(sibling string, _ platform.Mode) (*platform.KernelLock, error) {
		if again && w.turnstile != nil {
			w.turnstile.Open() // the old sibling's
			w.turnstile = nil
			return nil, errReplaced
		}
		again = true
		return w.kernelLock(ctx, sibling)
	})
	if err != nil {
		return nil, err
	}
	return w.claim(ctx)
}

// kernelLock takes the turnstile and the kernel lock: at once if they are free,
// or else by a wait in the kernel, our own or one that was left to us.
func (w *waiter) kernelLock(ctx context.Context, sibling string) (*platform.KernelLock, error) {
	w.mode = w.queue.key.mode // unless we overtake
	for {
		wait := w.queue.adopted()
		adopted := wait != nil
		if !adopted {
			lock, err := w.tryKernelLock(sibling)
			if err != platform.ErrBusy {
				return lock, err
			}
			w.begunToWait()
			if ctx.Done() == nil && w.turnstile != nil && countParked() {
				// Nothing can end this wait early, and nobody is before us but who
				// has the lock: it needs no goroutine of its own.
				defer uncountParked()
				return w.turnstile.WaitKernelLock(w.mode)
			}
			if wait = w.queue.park(sibling, w.queued(), w.turnstile); wait == nil {
				w.poll.sleep(ctx) // enough threads are parked
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				continue
			}
			w.turnstile = nil // it went with the wait
		}
		w.begunToWait()
		place, overtaken, err := w.await(ctx, wait, sibling)
		if overtaken != nil || err != nil {
			return overtaken, err
		}
		w.turnstile = place.turnstile
		if place.err != nil && adopted {
			continue // it was for another caller to hear
		}
		return place.lock, place.err
	}
}

// overtakeAfter is how often, while the kernel's queue does not move for us, we look
// whether it is stuck. Who is first in it, and has to look again from time to time,
// does so more often.
const overtakeAfter = 2 * maxDelay

// await waits for what comes of a wait in the kernel. A process that was stopped
// (SIGSTOP, Ctrl-Z) while it had the turnstile would keep all others waiting for a
// lock that nobody has. So from time to time we try for the kernel lock without
// the turnstile, and if we find it free twice in a row, we overtake: with an
// exclusive one, as readers need the turnstile to be together. The wait in the
// kernel stays as it is.
func (w *waiter) await(ctx context.Context, wait *kernelWait, sibling string) (kernelPlace, *platform.KernelLock, error) {
	for free := 0; ; {
		turn, cancel := context.WithTimeout(ctx, overtakeAfter+rand.N(overtakeAfter))
		place, err := w.queue.take(turn, wait)
		cancel()
		if err == nil || ctx.Err() != nil {
			return place, nil, err
		}
		if !w.queued() {
			continue // nothing to overtake
		}
		switch lock, err := platform.TryKernelLock(sibling, platform.Exclusive); {
		case err == platform.ErrBusy:
			free = 0
		case err != nil:
			return kernelPlace{}, nil, err
		case free == 0:
			free++
			if err := lock.Unlock(); err != nil {
				return kernelPlace{}, nil, err
			}
		default:
			w.mode = platform.Exclusive
			return kernelPlace{}, lock, nil
		}
	}
}

func (w *waiter) tryKernelLock(sibling string) (*platform.KernelLock, error) {
	if !w.queued() {
		return platform.TryKernelLock(sibling, w.mode)
	}
	if w.turnstile == nil {
		if !w.inLine && w.mode == platform.Exclusive { // readers need the turnstile itself
			if lock, err := platform.TryUnqueued(sibling); err != platform.ErrBusy {
				return lock, err
			}
		}
		w.inLine = true
		var err error
		if w.turnstile, err = platform.TryTurnstile(sibling); err != nil {
			return nil, err
		}
	}
	return w.turnstile.TryKernelLock(w.mode)
}

// begunToWait makes it known, once, that the lock was not to be had at once.
func (w *waiter) begunToWait() {
	if w.waiting {
		return
	}
	w.waiting = true
	if w.file.Observer != nil {
		locked, _ := w.kernelHolder()
		w.observe(Event{Kind: Waiting, Holder: locked.Info, Evidence: locked.Evidence})
	}
	if w.file.OnWait == nil {
		return
	}
	after := w.file.OnWaitAfter
	if after <= 0 {
		after = time.Second
	}
	looker := *w.attempt // this goroutine goes on to change its own
	w.notice = time.AfterFunc(after, func() {
		w.calling.Lock()
		defer w.calling.Unlock()
		if w.stopped {
			return
		}
		locked := looker.holder()
		if locked == nil {
			return
		}
		locked.Waited = time.Since(w.begun)
		w.file.OnWait(locked)
	})
}

// stop ends the wait, won or not.
func (w *waiter) stop() {
	w.turnstile.Open()
	if w.notice != nil {
		w.notice.Stop()
		w.calling.Lock()
		defer w.calling.Unlock()
		w.stopped = true
	}
}

// gaveUp is the error of a wait that ctx ended.
func (w *waiter) gaveUp(ctx context.Context, err error) error {
	cause := contextError(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = fmt.Errorf("%w: %w", ErrTimeout, cause)
	}
	var locked *ErrLocked
	if !errors.As(err, &locked) {
		if locked = w.holder(); locked == nil { // nobody is in the way by now
			return pathError("acquire", w.file.Path, cause)
		}
	}
	locked.Waited, locked.Cause = time.Since(w.begun), cause
	return locked
}

// holder describes who is in the way, with the evidence on them; nil if nobody is. It
// waits for nothing, not even for a process that is dying.
func (a *attempt) holder() *ErrLocked {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	locks, _ := platform.ListKernelLocks()
	look := *a // looking finds out about the sibling, which is not ours to change
	status, _, err := look.inspectOnce(ctx, locks)
	locked := a.locked(a.file.Path, nil, Unknown, Unproven)
	if err != nil {
		return locked
	}
	if status.State == StateFree {
		return nil
	}
	locked.Info, locked.Evidence = status.Holder, status.Evidence
	if status.State == StateHeld {
		locked.Verdict = Alive
	}
	return locked
}
