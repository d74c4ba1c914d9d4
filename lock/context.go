package lock

import (
	"context"
	"path/filepath"
	"runtime"

	"github.com/holdfast-go/holdfast/platform"
)

// Context returns a context for work under the lock: it is done when parent is,
// or, with a cause that matches ErrLost, when the lock is found lost. Release
// does not end it.
//
// It carries the hold: to acquire the same lock again under it is ErrReentrant at
// once, and no deadlock, until the lock is released.
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

// heldKey finds the innermost heldContext.
type heldKey struct{}

func (c *heldContext) Value(key any) any {
	if key == (heldKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// reentrant returns an *ErrLocked that matches ErrReentrant if a hold that ctx
// carries is of this very lock.
func (a *attempt) reentrant(ctx context.Context) error {
	for c, _ := ctx.Value(heldKey{}).(*heldContext); c != nil; c, _ = c.Context.Value(heldKey{}).(*heldContext) {
		if c.held.isOf(a.file.Path) {
			info := c.held.Info()
			return &ErrLocked{
				RepoID: a.file.repoID, Path: a.file.Path, Info: &info,
				Verdict: Alive, Evidence: SameProcess, cause: ErrReentrant, now: a.now(),
			}
		}
	}
	return nil
}

// isOf reports whether h holds the lock at path, under whatever name for its
// folder.
func (h *Held) isOf(path string) bool {
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	return !over && (h.Path() == path || sameLock(h.Path(), path))
}

func sameLock(a, b string) bool {
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	folderA, errA := folderOf(a)
	folderB, errB := folderOf(b)
	return errA == nil && errB == nil && folderA == folderB
}

// folderOf identifies the folder that path lies in, by whatever name.
func folderOf(path string) (platform.FileID, error) {
	// The dot makes a symbolic link to the folder be followed.
	return platform.IdentifyFile(filepath.Dir(path) + string(filepath.Separator) + ".")
}
