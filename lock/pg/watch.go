package pg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// startWatch begins to watch the connection, unless the hold is over.
func (h *Held) startWatch() {
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
func (h *Held) stopWatch() {
	h.starting.Stop()
	if h.stop != nil {
		h.stop()
		<-h.watching
	}
}

// watch returns when ctx is done, or with the reason when the lock is lost: the
// server says nothing to a session that asks nothing, until it ends it.
func (h *Held) watch(ctx context.Context) error {
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
func (h *Held) renew(ctx context.Context, lease time.Duration) error {
	begun := time.Now()
	// By either clock: one that stands still while the machine sleeps says nothing.
	elapsed := max(begun.Sub(h.beat), begun.Round(0).Sub(h.beat.Round(0)))
	if elapsed >= trusted(lease) {
		return errNotHeard
	}
	limited, cancel := context.WithTimeoutCause(ctx, trusted(lease)-elapsed, errNotHeard)
	defer cancel()
	var one int
	if err := h.attempt.query(limited, "SELECT 1", nil, &one); err != nil {
		if limited.Err() != nil {
			return context.Cause(limited)
		}
		return err
	}
	h.beat = begun
	return nil
}

// beginLease has the server end this session when it hears nothing of it for so
// long. The answer that counts is asked for after the lock was granted.
func (h *Held) beginLease(ctx context.Context) error {
	h.beat = time.Now()
	return setLease(ctx, h.attempt, h.attempt.locker.options.Lease)
}

// endLease makes the session one that may lie in the pool for ever.
func endLease(ctx context.Context, a *attempt) error { return setLease(ctx, a, 0) }

func setLease(ctx context.Context, a *attempt, lease time.Duration) error {
	var set string
	err := a.query(ctx, "SELECT set_config('idle_session_timeout', $1, false)",
		[]any{strconv.FormatInt(lease.Milliseconds(), 10)}, &set)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}
