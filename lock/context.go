package lock

import (
	"context"
	"runtime"
)

// Context returns a context for work under the lock: it is done when parent is,
// or, with a cause that matches ErrLost, when the lock is found lost. Release
// does not end it.
func (h *Held) Context(parent context.Context) context.Context {
	inner, cancel := context.WithCancelCause(parent)
	ctx := &heldContext{Context: inner, held: h}
	// Release must not cancel it, yet the parent must not keep it for ever. While
	// the lock is held, h keeps it, so that its Done channel works alone.
	runtime.AddCleanup(ctx, func(cancel context.CancelCauseFunc) { cancel(context.Canceled) }, cancel)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.isLost:
		cancel(pathError("hold", h.Path(), ErrLost))
	case !h.over:
		if h.contexts == nil {
			h.contexts = map[*heldContext]context.CancelCauseFunc{}
		}
		h.contexts[ctx] = cancel
	}
	return ctx
}

// heldContext carries a hold. Its parent refers only to the context inside.
type heldContext struct {
	context.Context
	held *Held
}
