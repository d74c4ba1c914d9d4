// Package engine is for authors of engines: other means to lock, behind the interface
// lock.Locker, such as package pg's. Users of locks do not need it.
//
// An engine has Acquire, TryAcquire and List, as lock.Locker describes them. Each of its
// holds has one Contexts, which makes it like all other holds:
//
//   - before it asks for a lock, the engine looks whether the caller holds it already:
//     HoldOf(ctx, identity), where identity is a value of a type of the engine's own that
//     names the lock. If so, it returns a *lock.LockedError that matches
//     lock.ErrReentrant;
//   - when it has the lock, it calls Contexts.Begin, with the hold, which is a lock.Hold;
//   - the hold's Context and Lost are those of its Contexts;
//   - when the engine finds out that the lock is lost, it calls Lose, with a cause that
//     matches lock.ErrLost;
//   - Release calls End;
//   - its Fence is NextFence of the lock's last one, and is kept before it is returned.
//
// Package locktest checks all of that.
package engine

import (
	"context"
	"runtime"
	"sync"
)

// Contexts are the contexts that carry one hold, and end when it is lost. They show when a
// caller acquires the same lock again under one of them. The methods may be called by
// several goroutines at once.
type Contexts struct {
	hold any
	is   func(identity any) bool

	mu    sync.Mutex    // guards what follows
	lost  chan struct{} // closed once, by Lose; nil before somebody asks for it
	over  bool
	cause error // why it was lost; nil if it was not
	// live has the contexts that have not ended, while the lock is held; see Context.
	live map[uint64]kept
	last uint64 // key in live
}

type kept struct {
	context *carrier
	cancel  context.CancelCauseFunc
}

// Begin makes them those of a hold. is reports whether the hold is of the lock with this
// identity, which may be one of another engine's. It is called once, before all others.
func (c *Contexts) Begin(hold any, is func(identity any) bool) { c.hold, c.is = hold, is }

// Context returns a context that is done when parent is, or when Lose is called, with its
// cause. End does not end it.
func (c *Contexts) Context(parent context.Context) context.Context {
	inner, cancel := context.WithCancelCause(parent)
	ctx := &carrier{Context: inner, of: c}
	// The end of the hold must not cancel it, yet the parent must not keep it for ever.
	// While the lock is held, c keeps it, so that its Done channel works even if nobody
	// refers to it.
	runtime.AddCleanup(ctx, func(cancel context.CancelCauseFunc) { cancel(context.Canceled) }, cancel)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil:
		cancel(c.cause)
	case !c.over:
		if c.live == nil {
			c.live = map[uint64]kept{}
		}
		c.last++
		c.live[c.last] = kept{ctx, cancel}
		if parent.Done() != nil {
			c.forget(inner, c.last)
		}
	}
	return ctx
}

// forget stops keeping a context once it has ended. inner must not refer to the context
// that is kept.
func (c *Contexts) forget(inner context.Context, key uint64) {
	context.AfterFunc(inner, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.live, key)
	})
}

// Lost is closed by Lose.
func (c *Contexts) Lost() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		c.lost = make(chan struct{})
		if c.cause != nil {
			close(c.lost)
		}
	}
	return c.lost
}

// Lose makes it known that the lock is lost: it closes Lost and ends the contexts. It
// returns false when that was done before, or when the hold is over.
func (c *Contexts) Lose(cause error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.cause != nil {
		return false
	}
	c.cause = cause
	if c.lost != nil {
		close(c.lost)
	}
	for _, k := range c.live {
		k.cancel(cause)
	}
	return true
}

// End says that the hold is over. The contexts go on, and no longer carry it.
func (c *Contexts) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.live = nil
}

// carrier is a context that carries a hold. Its parent refers only to the context
// inside.
type carrier struct {
	context.Context
	of *Contexts
}

// carriedKey finds the innermost carrier.
type carriedKey struct{}

func (c *carrier) Value(key any) any {
	if key == (carriedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Innermost returns the innermost hold that ctx was made for; nil if there is none. It may
// be over.
func Innermost(ctx context.Context) any {
	if c, ok := ctx.Value(carriedKey{}).(*carrier); ok {
		return c.of.hold
	}
	return nil
}

// HoldOf returns the hold of the lock with this identity that ctx carries; nil if it
// carries none, or if that is over.
func HoldOf(ctx context.Context, identity any) any {
	for c, _ := ctx.Value(carriedKey{}).(*carrier); c != nil; c, _ = c.Context.Value(carriedKey{}).(*carrier) {
		c.of.mu.Lock()
		over := c.of.over
		c.of.mu.Unlock()
		if !over && c.of.is(identity) {
			return c.of.hold
		}
	}
	return nil
}
