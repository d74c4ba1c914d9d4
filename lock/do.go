package lock

import (
	"context"
	"errors"
)

// Do acquires the lock, waiting as Acquire does, and calls fn under it, with the hold. If
// acquiring fails, it returns that error, and fn is not called. The context of fn carries the
// hold, too (see Hold.Context). The lock is released however fn ends: by return, panic or
// runtime.Goexit.
//
// fn's error and panic are passed on as they are. If fn succeeds, Do returns the error of the
// release, so that work under a lost lock is not taken for done.
func (f File) Do(ctx context.Context, fn func(context.Context, *FileHold) error) error {
	if f.Nested && f.HeldAbove() {
		return fn(ctx, nil)
	}
	held, err := f.Acquire(ctx)
	return do(ctx, held, err, fn)
}

// TryDo is Do without waiting. When somebody else has the lock, or the caller's own context
// does, fn is skipped: acquired is false, and the error nil.
func (f File) TryDo(ctx context.Context, fn func(context.Context, *FileHold) error) (acquired bool, err error) {
	if f.Nested && f.HeldAbove() {
		return true, fn(ctx, nil)
	}
	held, err := f.TryAcquire(ctx)
	return tryDo(ctx, held, err, fn)
}

// tryDo is TryDo after the try for the lock.
func tryDo[H Hold](ctx context.Context, held H, err error, fn func(context.Context, H) error) (acquired bool, _ error) {
	var locked *LockedError
	if errors.As(err, &locked) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, do(ctx, held, nil, fn)
}

// do is Do after acquiring: it calls fn, and releases h whichever way fn ends.
func do[H Hold](ctx context.Context, h H, acquireErr error, fn func(context.Context, H) error) (err error) {
	if acquireErr != nil {
		return acquireErr
	}
	defer func() {
		if rerr := h.Release(); err == nil {
			err = rerr
		}
	}()
	return fn(h.Context(ctx), h)
}
