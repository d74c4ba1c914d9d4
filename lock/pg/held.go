package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// releasePatience bounds how long Release waits for the server to give a lock back.
const releasePatience = 5 * time.Second

// lockID tells one lock from all others, for reentrancy.
type lockID struct {
	server identity
	number number
}

// Hold is a lock that is held. Its connection does nothing but hold it, and the locks that
// are acquired under it. Its methods may be called by several goroutines at once.
type Hold struct {
	locker   *Locker
	key      lock.Key
	number   number
	mode     *mode
	session  *session
	since    time.Time
	contexts engine.Contexts

	mu    sync.Mutex // guards what follows, and the session's being used for one thing at a time
	over  bool
	fence int64 // 0 until it is asked for
}

var _ lock.Hold = (*Hold)(nil)

// hold makes an attempt that was granted a Hold.
func (a *attempt) hold() *Hold {
	now := time.Now()
	h := &Hold{locker: a.locker, key: a.key, number: a.number, mode: a.mode, session: a.session, since: now}
	h.contexts.Begin(h, h.is)
	h.locker.lines.held(h, true)
	h.session.add(h)
	h.locker.observe(h.key, lock.Event{Kind: lock.EventAcquired, Duration: now.Sub(a.begun)})
	return h
}

// is reports whether h is of the lock with this identity, or, for a Locker, of it.
func (h *Hold) is(id any) bool {
	switch id := id.(type) {
	case lockID:
		return id == lockID{h.locker.server.id, h.number}
	case *Locker:
		return id == h.locker
	}
	return false
}

// Key returns the lock's key.
func (h *Hold) Key() lock.Key { return h.key }

// Info describes the holder: PID is that of the server's process for this session, as List
// shows it.
func (h *Hold) Info() evidence.Claim {
	return evidence.Claim{
		PID: int(h.session.pid), CreatedAt: h.since.UTC(), Cmd: h.locker.options.Cmd, Hostname: h.locker.host, Mode: h.mode.name,
	}
}

var errReleased = errors.New("the lock was released")

// Lost is closed when the session that had the lock has ended, or can't be heard any
// more.
func (h *Hold) Lost() <-chan struct{} { return h.contexts.Lost() }

// Context returns a context that is done when parent is, or, with a cause that
// matches lock.ErrLost, when the lock is lost. It carries the hold: see engine.Contexts.
func (h *Hold) Context(parent context.Context) context.Context { return h.contexts.Context(parent) }

// Release gives the lock back, within five seconds. Only the first call does so; further
// ones return nil. If the lock was not ours any more, or that is unknown, the session is
// ended. That frees the lock, and all others acquired under it, and the error matches
// lock.ErrLost.
func (h *Hold) Release() error { return h.ReleaseContext(context.Background()) }

// ReleaseContext is Release, and waits no longer than ctx allows.
func (h *Hold) ReleaseContext(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil
	}
	h.over = true
	err := h.giveBack(ctx, time.Now().Add(h.locker.patience))
	h.contexts.End()
	if err != nil {
		return errors.Join(fmt.Errorf("pg: release %s: %w", h.key, lock.ErrLost), err)
	}
	h.locker.observe(h.key, lock.Event{Kind: lock.EventReleased, Duration: time.Since(h.since)})
	return nil
}

var errNotHad = errors.New("the session did not have it")

func (h *Hold) giveBack(ctx context.Context, until time.Time) error {
	s := h.session
	if err := s.take(ctx, until); err != nil {
		s.lose(err)
		return err
	}
	had, err := s.unlock(ctx, until, h.number, h.mode)
	if err == nil && !had {
		err = errNotHad
	}
	if err == nil && !s.remove(h) {
		err = s.whyLost()
	}
	if err != nil {
		s.lose(err)
	} else {
		h.forget()
	}
	s.give()
	s.leave(0)
	return err
}

// forget gives up the hold's place in the process. It is called once, by the caller that has
// taken the hold out of the session.
func (h *Hold) forget() {
	h.locker.lines.held(h, false)
	<-h.locker.budget
}

// lose makes the loss known.
func (h *Hold) lose(why error) {
	cause := fmt.Errorf("pg: hold %s: %w", h.key, lock.ErrLost)
	if why != nil {
		cause = fmt.Errorf("%w: %w", cause, why)
	}
	h.forget()
	if h.contexts.Lose(cause) {
		h.locker.observe(h.key, lock.Event{Kind: lock.EventLost, Duration: time.Since(h.since)})
	}
}
