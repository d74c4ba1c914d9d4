package lock

import (
	"context"
	"errors"
)

// Do acquires the lock, waiting as Acquire does, and calls fn under it with a
// context that carries the hold (see Hold.Context; HoldOf returns it, for its fence).
// The lock is released when fn returns, and when it panics.
//
// fn's error and panic are passed on as they are. If fn succeeds, Do returns the
// error of the release, so that work under a lock that was lost is not taken for
// done.
func (f File) Do(ctx context.Context, fn func(context.Context) error) error {
	held, err := f.Acquire(ctx)
	return do(ctx, held, err, fn)
}

// DoShared is Do with a shared lock, see AcquireShared.
func (f File) DoShared(ctx context.Context, fn func(context.Context) error) error {
	held, err := f.AcquireShared(ctx)
	return do(ctx, held, err, fn)
}

// TryDo is Do, but skips fn when somebody else has the lock, or the caller's own
// context does: acquired is then false, and the error nil.
func (f File) TryDo(ctx context.Context, fn func(context.Context) error) (acquired bool, err error) {
	held, err := f.TryAcquire(ctx)
	return tryDo(ctx, held, err, fn)
}

// tryDo goes on from a try for the lock.
func tryDo(ctx context.Context, held Hold, err error, fn func(context.Context) error) (acquired bool, _ error) {
	var locked *ErrLocked
	if errors.As(err, &locked) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, do(ctx, held, nil, fn)
}

// do goes on from acquiring the lock: it calls fn and releases h, whichever way fn ends,
// by return, panic, or runtime.Goexit.
func do(ctx context.Context, h Hold, acquireErr error, fn func(context.Context) error) (err error) {
	if acquireErr != nil {
		return acquireErr
	}
	defer func() {
		if rerr := h.Release(); err == nil {
			err = rerr
		}
	}()
	return fn(h.Context(ctx))
}
