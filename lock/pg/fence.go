package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/jackc/pgx/v5"
)

// The fences are a table, with a row for each lock whose holder has asked for one. A row is
// written by the lock's holder alone, through the session that has the lock: so reading and
// raising is one step, and holders of different locks are not in each other's way.
//
// A fence is given out when the server has answered that it is committed, with
// synchronous_commit on: "the server waits for the transaction's WAL records to be flushed to
// permanent storage before returning a success indication to the client" (PostgreSQL's
// documentation, Asynchronous Commit). A sequence promises no such thing: its numbers are
// written down some at a time, and to get the next of these waits for nothing.

// Fence returns a greater number than every earlier holder of this lock was given:
// engine.NextFence, durable before it is returned. The first call asks for it, through the
// session that has the lock; so after a loss it is lock.ErrLost. If a number out of all reason
// lies in the database, the error has the statement that cures it. A shared lock has no fence
// (errors.ErrUnsupported).
func (h *Hold) Fence() (int64, error) {
	if h.mode == shared {
		return 0, fmt.Errorf("pg: fence of %s: readers have none: %w", h.key, errors.ErrUnsupported)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fence != 0 {
		return h.fence, nil
	}
	if h.over {
		return 0, fmt.Errorf("pg: fence of %s: %w", h.key, errReleased)
	}
	until := time.Now().Add(h.locker.patience)
	s := h.session
	var fence int64
	err := s.take(context.Background(), until)
	if err == nil {
		limited, cancel := context.WithDeadline(context.Background(), until)
		defer cancel()
		if fence, err = h.raiseFence(limited); err != nil && s.conn.IsClosed() {
			s.lose(err)
		}
		s.give()
		s.leave(0)
	}
	if lost := s.whyLost(); lost != nil {
		err = errors.Join(lock.ErrLost, lost)
	}
	if err != nil {
		return 0, fmt.Errorf("pg: fence of %s: %w", h.key, err)
	}
	h.fence = fence
	return fence, nil
}

// raiseFence raises the fence. The caller has the turn of the session.
func (h *Hold) raiseFence(ctx context.Context) (fence int64, err error) {
	ns, key := &h.locker.names, h.number.String()
	var last int64
	if err := h.session.query(ctx, nil, ns.readFence, []any{key}, &last); err != nil {
		return 0, err
	}
	next, err := engine.NextFence(last, time.Now())
	if err != nil {
		return 0, fmt.Errorf("%w; to begin anew, with the time of day: DELETE FROM %s.fences WHERE key = '%s'",
			err, quote(h.locker.options.Schema), key)
	}
	err = h.session.query(ctx, nil, ns.putFence, []any{key, next}, &fence)
	return fence, err
}

// LastFence returns the last fence of a lock; 0 if none is known.
func (l *Locker) LastFence(ctx context.Context, key lock.Key) (fence int64, err error) {
	n, err := l.number(key)
	if err != nil {
		return 0, err
	}
	err = l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, l.names.readFence, n.String()).Scan(&fence)
	})
	if err != nil {
		return 0, fmt.Errorf("pg: last fence of %s: %w", key, err)
	}
	return fence, nil
}
