package pg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// startWatch begins to watch the connection, unless the hold is over.
func (h *Hold) startWatch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.watching = stop, make(chan struct{})
	go func() {
		defer close(h.watching)
		if err := h.watch(ctx); ctx.Err() == nil {
			h.lose(err)
		}
	}()
}

// stopWatch gives the connection back to the caller, who has h.mu.
func (h *Hold) stopWatch() {
	h.starting.Stop()
	if h.stop != nil {
		h.stop()
		<-h.watching
	}
}

// watch returns when ctx is done, or with the reason when the lock is lost: the
// server says nothing to a session that asks nothing, until it ends it.
func (h *Hold) watch(ctx context.Context) error {
	lease := h.attempt.locker.options.Lease
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if lease > 0 {
			wait, cancel = context.WithTimeout(ctx, lease/3)
		}
		_, err := h.attempt.conn.Conn().WaitForNotification(wait)
		quiet := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil: // somebody has sent one, to whom it may concern
		case !quiet || h.attempt.conn.Conn().IsClosed():
			return err
		default:
			if err := h.renew(ctx, lease); err != nil {
				return err
			}
		}
	}
}

// trusted is how much of a lease the holder counts on.
func trusted(lease time.Duration) time.Duration { return lease - lease/10 }

var errNotHeard = errors.New("the server has not been heard of within the lease")

// renew tells the server that we live.
func (h *Hold) renew(ctx context.Context, lease time.Duration) error {
	begun := time.Now()
	// By either clock: one that stands still while the machine sleeps says nothing.
	elapsed := max(begun.Sub(h.beat), begun.Round(0).Sub(h.beat.Round(0)))
	if elapsed >= trusted(lease) {
		return errNotHeard
	}
	// At the end of the lease nobody is asked any more, as that takes time.
	socket := h.attempt.conn.Conn().PgConn().Conn()
	limit := time.AfterFunc(trusted(lease)-elapsed, func() { _ = socket.Close() })
	var one int
	err := h.attempt.query(ctx, "SELECT 1", nil, &one)
	switch {
	case !limit.Stop():
		return errNotHeard
	case err != nil:
		return err
	}
	h.beat = begun
	return nil
}

// beginLease has the server end this session when it hears nothing of it for so
// long. The answer that counts is asked for after the lock was granted.
func (h *Hold) beginLease(ctx context.Context) error {
	h.beat = time.Now()
	var set string
	err := h.attempt.query(ctx, "SELECT set_config('idle_session_timeout', $1, false)",
		[]any{strconv.FormatInt(h.attempt.locker.options.Lease.Milliseconds(), 10)}, &set)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}
