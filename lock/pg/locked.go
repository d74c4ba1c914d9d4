package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// who is a session of the server, whatever program's.
type who struct {
	pid   int
	cmd   string
	host  string
	since *time.Time // its last change of state
	query string
}

func (w who) info(n number) *lock.LockInfo {
	info := &lock.LockInfo{PID: w.pid, Cmd: w.cmd, Hostname: w.host}
	if since, ok := notedSince(w.query, n); ok {
		info.CreatedAt = since
	} else if w.since != nil {
		info.CreatedAt = *w.since
	}
	return info
}

// lookPatience bounds the look at who is in the way of somebody who gives up.
const lookPatience = 500 * time.Millisecond

// locked describes who is in the way, by what this process knows of it, and by what was
// found when the wait ended.
func (a *attempt) locked() *lock.ErrLocked {
	locked := &lock.ErrLocked{Path: a.key.String(), State: lock.StateHeld, Evidence: EvidenceSessionHolds}
	h, _ := a.locker.lines.inTheWay(a.number)
	switch {
	case a.found() != nil:
		locked.Info = a.found().info(a.number)
	case h != nil:
		info := h.Info()
		locked.Info = &info
	}
	locked.Advice = "Locker.List tells who that is"
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

// look asks who is in the way of the session that waits for the lock: of ours, or of who
// is before us in this process.
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
