package lock

import (
	"errors"
	"time"
)

// maxRenewTick bounds how late the renewal notices that the machine was suspended: a sleeping
// timer does not count the time of suspend.
const maxRenewTick = 10 * time.Second

// A renewal looks after a lock while it is held, where others may have to go by the claim's
// age. At each tick it checks that the claim is still ours. Once in a third of StaleAfter, by
// either clock, it renews the claim.
//
// A suspended machine that wakes up late has lost nothing as long as the claim is still its
// own. A renewal belongs to one goroutine.
type renewal struct {
	hold    *FileHold
	span    time.Duration // StaleAfter; never negative
	trusted time.Time     // when the last renewal that succeeded was begun
}

func (h *FileHold) newRenewal(now time.Time) *renewal {
	span := h.attempt.Span()
	if span < 0 {
		span = DefaultStaleAfter // nobody ages us out, but we look for loss
	}
	return &renewal{hold: h, span: span, trusted: now}
}

func (r *renewal) period() time.Duration { return max(r.span/3, time.Millisecond) }

// run ticks until the lock is released, or lost.
func (r *renewal) run() {
	ticker := time.NewTicker(min(r.period(), maxRenewTick))
	defer ticker.Stop()
	for {
		select {
		case <-r.hold.stop:
			return
		case <-ticker.C:
		}
		if !r.tick(time.Now()) {
			return
		}
	}
}

// tick checks the claim, and renews it if that is due. It returns false when there is nothing
// left to renew.
func (r *renewal) tick(now time.Time) bool {
	elapsed := max(now.Sub(r.trusted), now.Round(0).Sub(r.trusted.Round(0)))
	due := elapsed >= r.period()
	h := r.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left || h.isLost {
		return false
	}
	err := h.own.IsOurs()
	if err == nil && due {
		err = h.attempt.take.Renew(h.own, now)
	}
	switch {
	case err == nil && due:
		r.trusted = now
	case err == nil:
	case errors.Is(err, ErrLost), elapsed > r.span:
		// Lost, or we could not look for so long that others may have taken us for dead.
		h.lose()
		return false
	}
	return true
}
