package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Acquire takes the lock, waiting for as long as ctx allows. It waits in the
// kernel's queue; for a lock file whose holder takes no kernel lock, it looks
// again from time to time.
//
// On success it is TryAcquire. When ctx ends first nothing is held, nothing is
// left behind, and the error is an *ErrLocked that names the holder and matches
// ErrTimeout and context.DeadlineExceeded, or context.Canceled. Any other error
// ends the wait at once.
func (f File) Acquire(ctx context.Context) (*Held, error) {
	a, err := f.begin()
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, pathError("acquire", a.file.Path, context.Cause(ctx))
	}
	poll := newBackoff()
	for {
		held, err := a.acquireNext(ctx)
		var locked *ErrLocked
		switch {
		case err == nil && ctx.Err() == nil:
			return held, nil
		case err == nil: // cancel beats acquire
			return nil, a.gaveUp(ctx, held.Release())
		case ctx.Err() != nil:
			return nil, a.gaveUp(ctx, err)
		case !errors.As(err, &locked):
			return nil, err
		}
		// No kernel lock stands for this holder. Look again later.
		poll.sleep(ctx)
	}
}

// acquireNext takes the kernel lock when it is our turn, and then the lock.
func (a *attempt) acquireNext(ctx context.Context) (*Held, error) {
	err := a.takeKernelLock(platform.TryKernelLock)
	if err == platform.ErrBusy {
		err = a.takeKernelLock(func(path string, mode platform.Mode) (*platform.KernelLock, error) {
			return waitKernelLock(ctx, path, mode)
		})
	}
	if err != nil {
		return nil, err
	}
	return a.claim(ctx)
}

// waitKernelLock waits in the kernel's queue until ctx ends. The wait itself
// can't be interrupted, so one that is abandoned goes on in a goroutine, and
// gives the lock back the moment it is granted. The handover is a rendezvous:
// exactly one side has the lock.
func waitKernelLock(ctx context.Context, path string, mode platform.Mode) (*platform.KernelLock, error) {
	type grant struct {
		lock *platform.KernelLock
		err  error
	}
	grants := make(chan grant)
	go func() {
		var g grant
		g.lock, g.err = platform.WaitKernelLock(path, mode)
		select {
		case grants <- g:
		case <-ctx.Done():
			if g.err == nil {
				_ = g.lock.Unlock() // nobody is left to be told
			}
		}
	}()
	select {
	case g := <-grants:
		return g.lock, g.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// gaveUp is the error of a wait that ctx ended.
func (a *attempt) gaveUp(ctx context.Context, err error) error {
	var locked *ErrLocked
	if !errors.As(err, &locked) {
		locked, _ = a.kernelHolder()
	}
	locked.cause = ctx.Err()
	if cause := context.Cause(ctx); cause != ctx.Err() {
		locked.cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		locked.cause = fmt.Errorf("%w: %w", ErrTimeout, locked.cause)
	}
	return locked
}

// backoff paces looking again at what gives no sign when it changes: from 10 ms,
// doubling, with jitter, to half a second.
type backoff struct{ delay time.Duration }

const (
	firstDelay = 10 * time.Millisecond
	maxDelay   = 500 * time.Millisecond
)

func newBackoff() *backoff { return &backoff{delay: firstDelay} }

// sleep waits for the next delay, or until ctx is done.
func (b *backoff) sleep(ctx context.Context) {
	jittered := b.delay/2 + rand.N(b.delay/2+1)
	b.delay = min(2*b.delay, maxDelay)
	timer := time.NewTimer(jittered)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
