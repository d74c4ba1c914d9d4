package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// who describes a session of the server, whatever program's.
type who struct {
	pid   int
	cmd   string
	host  string
	since *time.Time // its last change of state
	query string
}

func (w who) info(n number) *evidence.Claim {
	info := &evidence.Claim{PID: w.pid, Cmd: w.cmd, Hostname: w.host}
	if since, ok := notedSince(w.query, n); ok {
		info.CreatedAt = since
	} else if w.since != nil {
		info.CreatedAt = *w.since
	}
	return info
}

// lookPatience bounds the look for the session in the way of a waiter that gives up.
const lookPatience = 500 * time.Millisecond

// locked describes the holder in the way, by what this process knows, and what was found
// when the wait ended.
func (a *attempt) locked() *lock.LockedError {
	locked := &lock.LockedError{Status: lock.Status{Key: a.key, Path: a.key.String(), State: evidence.Held, Evidence: EvidenceSessionHolds}}
	h, _ := a.locker.lines.inTheWay(a.number)
	switch {
	case a.found() != nil:
		locked.Info = a.found().info(a.number)
	case h != nil:
		info := h.Info()
		locked.Info = &info
	}
	locked.Advice = "Locker.Inspect tells who that is"
	if locked.Info != nil {
		locked.Advice = fmt.Sprintf("SELECT * FROM pg_stat_activity WHERE pid = %d tells who that is, "+
			"and SELECT pg_terminate_backend(%[1]d) ends that session with all that it holds", locked.Info.PID)
	}
	return locked
}

// gaveUp is locked for a wait that ctx has ended.
func (a *attempt) gaveUp(ctx context.Context) error {
	locked := a.locked()
	locked.Waited = time.Since(a.begun)
	locked.Cause = endOf(ctx)
	return locked
}

// look asks which session is in the way of the one that waits for the lock: of ours, or that
// of the first in this process.
func (a *attempt) look(ctx context.Context, s *session) {
	if s == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, min(lookPatience, a.locker.silence/3))
	defer cancel()
	if w, err := a.locker.keeper.blocker(limited, s.pid); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.inTheWay = w
	}
}

func deadline(err error) error { return fmt.Errorf("%w: %w", lock.ErrTimeout, err) }
