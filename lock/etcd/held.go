package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lockID tells one lock from all others, for reentrancy.
type lockID struct {
	cluster uint64
	folder  string
}

// Hold is a lock that is held. Its methods may be called by several goroutines at once.
type Hold struct {
	locker *Locker
	lease  *lease
	key    lock.Key
	folder string
	place
	info     evidence.Claim
	since    time.Time
	contexts engine.Contexts
	watched  context.Context // ends with the release
	unwatch  context.CancelFunc
	later    *time.Timer // begins the watch

	mu    sync.Mutex // guards what follows, and is locked for as long as a release takes
	over  bool
	fence int64 // 0 until it is asked for
}

var _ lock.Hold = (*Hold)(nil)

// hold makes an attempt whose turn has come a Hold; nil if the lease is lost by now.
func (a *attempt) hold() *Hold {
	h := &Hold{
		locker: a.locker, lease: a.lease, key: a.key, folder: a.folder, place: a.place, info: a.info, since: time.Now(),
	}
	h.contexts.Begin(h, h.is)
	h.watched, h.unwatch = context.WithCancel(context.Background())
	if !h.lease.add(h) {
		h.unwatch()
		return nil
	}
	h.locker.users.Add(1) // Close waits for the caller already
	// Many are released before this: Release finds out as well.
	h.later = time.AfterFunc(h.locker.watchAfter, func() {
		if h.lease.untilGone(h.watched, rival{h.own, h.created, h.created}) == nil {
			h.lose(errDeleted)
		}
	})
	h.locker.observe(lock.Event{Kind: lock.EventAcquired, Status: lock.Status{Path: h.key.String()}, Duration: h.since.Sub(a.begun)})
	return h
}

func (h *Hold) is(id any) bool { return id == lockID{h.locker.cluster, h.folder} }

// Info describes the holder, as List shows it: this process, and since when it has wanted the
// lock.
func (h *Hold) Info() evidence.Claim { return h.info }

// IsOwner is a transaction condition that holds only while the lock is ours, whatever we
// believe.
func (h *Hold) IsOwner() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(h.own), "=", h.created)
}

// Lost is closed when the lease is lost, or the lock's key was deleted.
func (h *Hold) Lost() <-chan struct{} { return h.contexts.Lost() }

// Context returns a context that is done when parent is, or, with a cause that matches
// lock.ErrLost, when the lock is lost. It carries the hold: see engine.Contexts.
func (h *Hold) Context(parent context.Context) context.Context { return h.contexts.Context(parent) }

// Release gives the lock back, within five seconds. Only the first call does so; further
// ones return nil. If the lock was not ours any more, or that is unknown, the error matches
// lock.ErrLost. What the cluster has not confirmed by then is asked for again in the
// background, until it is done or the lease has run out, so that nobody waits for ever.
func (h *Hold) Release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil
	}
	h.over = true
	defer h.locker.users.Done()
	h.later.Stop()
	h.unwatch()
	err := h.giveBack()
	if err != nil {
		h.lose(err)
	}
	h.lease.forget(h)
	h.contexts.End()
	select {
	case <-h.Lost():
		return fmt.Errorf("etcd: release %s: %w", h.key, context.Cause(h.contexts.Context(context.Background())))
	default:
	}
	h.locker.observe(lock.Event{Kind: lock.EventReleased, Status: lock.Status{Path: h.key.String()}, Duration: time.Since(h.since)})
	return nil
}

func (h *Hold) giveBack() error {
	if !h.lease.alive() {
		return context.Cause(h.lease.ctx)
	}
	limited, cancel := context.WithTimeout(h.lease.ctx, h.locker.releasePatience)
	defer cancel()
	was, err := h.lease.remove(limited, &h.place)
	switch {
	case err != nil:
		h.locker.users.Add(1) // Close waits for us already
		go func() {
			defer h.locker.users.Done()
			h.lease.removeAnyhow(&h.place)
		}()
		return fmt.Errorf("%w: %w", errUntold, err)
	case !was:
		err = errDeleted
	}
	return err
}

// lose makes the loss known.
func (h *Hold) lose(why error) {
	if h.contexts.Lose(fmt.Errorf("etcd: hold %s: %w: %w", h.key, lock.ErrLost, why)) {
		h.lease.forget(h)
		h.locker.observe(lock.Event{Kind: lock.EventLost, Status: lock.Status{Path: h.key.String()}, Duration: time.Since(h.since)})
	}
}
