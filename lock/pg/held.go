package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
)

// defaultUnlockPatience bounds how long the server may take to give a lock back.
// Beyond it the connection is closed.
const defaultUnlockPatience = 10 * time.Second

// watchAfter is how long a hold goes unwatched: most are over sooner.
const watchAfter = 5 * time.Millisecond

// identity tells one lock from all others, for reentrancy.
type identity struct {
	database string
	number   number
}

// Hold is a lock that is held, on a connection of its own. Its methods may be called
// by several goroutines at once.
type Hold struct {
	attempt  *attempt
	info     lock.LockInfo
	fence    int64
	since    time.Time
	contexts *engine.Contexts

	// beat is from when on the server, at the earliest, counts the lease. It
	// belongs to the watcher.
	beat time.Time

	mu       sync.Mutex // guards what follows; the connection is the watcher's while it runs
	over     bool
	starting *time.Timer
	stop     context.CancelFunc // ends the watcher; nil if there is none
	watching chan struct{}      // closed when it has ended
}

var _ lock.Hold = (*Hold)(nil)

// hold makes an attempt that was granted a Hold.
func (a *attempt) hold(ctx context.Context, fence int64) (*Hold, error) {
	h := &Hold{
		attempt: a, fence: fence, since: time.Now(),
		info: lock.LockInfo{
			PID: int(a.conn.Conn().PgConn().PID()), CreatedAt: time.Now().UTC(),
			Cmd: a.locker.options.Cmd, Hostname: a.locker.host, Mode: a.mode.name,
		},
	}
	h.contexts = engine.NewContexts(h, h.is)
	if a.locker.options.Lease > 0 {
		if err := h.beginLease(ctx); err != nil {
			return nil, a.failed(ctx, err)
		}
	}
	h.starting = time.AfterFunc(watchAfter, h.startWatch)
	a.locker.observe(lock.Event{Kind: lock.EventAcquired, Path: a.key.String(), Duration: h.since.Sub(a.begun)})
	return h, nil
}

// is reports whether h is of the lock with this identity, or, for a Locker, of it.
func (h *Hold) is(id any) bool {
	switch id := id.(type) {
	case identity:
		return id == identity{h.attempt.locker.database, h.attempt.number}
	case *Locker:
		return id == h.attempt.locker
	}
	return false
}

// Key returns the lock's key.
func (h *Hold) Key() lock.Key { return h.attempt.key }

// Info tells who has the lock: PID is that of the server's process for this session,
// as List shows it.
func (h *Hold) Info() lock.LockInfo { return h.info }

// Fence returns a number that is greater than that of every earlier holder of any
// lock of this database. A shared lock has none (errors.ErrUnsupported).
func (h *Hold) Fence() (int64, error) {
	if h.info.Mode == shared.name {
		return 0, fmt.Errorf("pg: fence of %s: readers have none: %w", h.attempt.key, errors.ErrUnsupported)
	}
	return h.fence, nil
}

// Lost is closed when the session that had the lock has ended.
func (h *Hold) Lost() <-chan struct{} { return h.contexts.Lost() }

// Context returns a context that is done when parent is, or, with a cause that
// matches lock.ErrLost, when the lock is lost. It carries the hold: see lock.Hold.
func (h *Hold) Context(parent context.Context) context.Context { return h.contexts.Context(parent) }

// Release gives the lock back, and its connection to the pool. Only the first call
// does so; further ones return nil. If the lock was not ours any more, or if it can't
// be told, the connection is closed, which frees the lock, and the error matches
// lock.ErrLost.
func (h *Hold) Release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil
	}
	h.over = true
	h.stopWatch()
	a := h.attempt
	had, err := false, error(nil)
	select {
	case <-h.contexts.Lost():
	default:
		had, err = a.unlock()
	}
	if err != nil || !had {
		h.lose(err)
		a.destroy()
		h.contexts.End()
		return errors.Join(fmt.Errorf("pg: release %s: %w", a.key, lock.ErrLost), err)
	}
	a.giveBack()
	h.contexts.End()
	a.locker.observe(lock.Event{Kind: lock.EventReleased, Path: a.key.String(), Duration: time.Since(h.since)})
	return nil
}

// unlock gives the lock back, and reports whether the session had it. A lease ends
// with it: the session may lie in the pool for ever. A server that takes longer than
// unlockPatience finds the connection closed, which frees the lock, too.
func (a *attempt) unlock() (had bool, err error) {
	query, into := "SELECT "+a.mode.free+a.params(), []any{&had}
	if a.locker.options.Lease > 0 {
		query += ", set_config('idle_session_timeout', '0', false)"
		into = append(into, new(string))
	}
	conn := a.conn.Conn().PgConn()
	late := time.AfterFunc(a.locker.unlockPatience, func() { _ = conn.Conn().Close() })
	defer late.Stop()
	err = a.conn.QueryRow(context.Background(), query, a.number.args()...).Scan(into...)
	return had, err
}

// lose makes the loss known.
func (h *Hold) lose(why error) {
	cause := fmt.Errorf("pg: hold %s: %w", h.attempt.key, lock.ErrLost)
	if why != nil {
		cause = fmt.Errorf("%w: %w", cause, why)
	}
	if h.contexts.Lose(cause) {
		h.attempt.locker.observe(lock.Event{Kind: lock.EventLost, Path: h.attempt.key.String(), Duration: time.Since(h.since)})
	}
}
