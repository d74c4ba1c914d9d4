package lock

import (
	"context"
	"runtime"
	"sync"
)

// A Tie ties contexts to a hold: they carry it, so that acquiring the same lock again
// under one of them is found out, and they end when it is lost. Every engine's hold
// has one. Its methods may be called by several goroutines at once.
type Tie struct {
	hold Hold
	is   func(identity any) bool
	lost chan struct{} // closed once, by Lose

	mu    sync.Mutex // guards what follows
	over  bool
	cause error // why it was lost; nil if it was not
	// contexts are kept while the lock is held, and they have not ended; see Context.
	contexts map[uint64]kept
	last     uint64 // key in contexts
}

type kept struct {
	context *tied
	cancel  context.CancelCauseFunc
}

// NewTie returns the Tie of a hold. is reports whether the hold is of the lock with
// this identity, which may be one of another engine's.
func NewTie(hold Hold, is func(identity any) bool) *Tie {
	return &Tie{hold: hold, is: is, lost: make(chan struct{})}
}

// Context returns a context that is done when parent is, or, with its cause, when
// Lose is called. End does not end it.
func (t *Tie) Context(parent context.Context) context.Context {
	inner, cancel := context.WithCancelCause(parent)
	ctx := &tied{Context: inner, to: t}
	// The end of the hold must not cancel it, yet the parent must not keep it for
	// ever. While the lock is held, t keeps it, so that its Done channel works alone.
	runtime.AddCleanup(ctx, func(cancel context.CancelCauseFunc) { cancel(context.Canceled) }, cancel)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.cause != nil:
		cancel(t.cause)
	case !t.over:
		if t.contexts == nil {
			t.contexts = map[uint64]kept{}
		}
		t.last++
		t.contexts[t.last] = kept{ctx, cancel}
		if parent.Done() != nil {
			t.forget(inner, t.last)
		}
	}
	return ctx
}

// forget stops keeping a context once it has ended. The context inside must not refer to
// the one that is kept.
func (t *Tie) forget(inner context.Context, key uint64) {
	context.AfterFunc(inner, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.contexts, key)
	})
}

// Lost is closed by Lose.
func (t *Tie) Lost() <-chan struct{} { return t.lost }

// Lose makes it known that the lock is lost: it closes Lost and ends the contexts. It
// returns false when that had been done before, or when the hold is over.
func (t *Tie) Lose(cause error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.cause != nil {
		return false
	}
	t.cause = cause
	close(t.lost)
	for _, k := range t.contexts {
		k.cancel(cause)
	}
	return true
}

// End says that the hold is over. The contexts go on, and no longer carry it.
func (t *Tie) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.contexts = nil
}

// tied is a context that carries a hold. Its parent refers only to the context
// inside.
type tied struct {
	context.Context
	to *Tie
}

// tiedKey finds the innermost tied context.
type tiedKey struct{}

func (c *tied) Value(key any) any {
	if key == (tiedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// HoldOf returns the hold that ctx was made for, by Do or by a hold's Context; of
// several, the last one. nil if there is none. It may be over.
func HoldOf(ctx context.Context) Hold {
	if c, ok := ctx.Value(tiedKey{}).(*tied); ok {
		return c.to.hold
	}
	return nil
}

// Carried returns the hold that ctx carries of the lock with this identity; nil if it
// carries none, or if that is over.
func Carried(ctx context.Context, identity any) Hold {
	for c, _ := ctx.Value(tiedKey{}).(*tied); c != nil; c, _ = c.Context.Value(tiedKey{}).(*tied) {
		c.to.mu.Lock()
		over := c.to.over
		c.to.mu.Unlock()
		if !over && c.to.is(identity) {
			return c.to.hold
		}
	}
	return nil
}
