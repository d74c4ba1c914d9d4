package lock

import (
	"errors"
	"time"
)

// maxRenewTick bounds how late the renewal notices that the machine was
// suspended: a sleeping timer does not count the time of suspend.
const maxRenewTick = 10 * time.Second

// renew runs while the lock is held, in a goroutine of its own, where others may have to go
// by the claim's age. At each tick it checks that the claim is still ours. Once in a third
// of StaleAfter, by either clock, it renews the claim.
//
// A suspended machine that wakes up late has lost nothing as long as the claim is still its
// own.
func (h *FileHold) renew() {
	span := h.attempt.staleAfter()
	if span < 0 {
		span = DefaultStaleAfter // nobody ages us out, but we look for loss
	}
	period := max(span/3, time.Millisecond)
	ticker := time.NewTicker(min(period, maxRenewTick))
	defer ticker.Stop()

	trusted := time.Now() // when the last renewal that succeeded was begun
	for {
		select {
		case <-h.stop:
			return
		case <-ticker.C:
		}
		now := time.Now()
		elapsed := max(now.Sub(trusted), now.Round(0).Sub(trusted.Round(0)))
		if !h.stillOurs(elapsed >= period, &trusted, now, span) {
			return
		}
	}
}

// stillOurs checks the claim, and renews it if that is due. It returns false
// when there is nothing left to renew.
func (h *FileHold) stillOurs(due bool, trusted *time.Time, now time.Time, span time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left || h.isLost {
		return false
	}
	err := h.own.isOurs()
	if err == nil && due {
		err = h.attempt.renew(h.own, now)
	}
	switch {
	case err == nil && due:
		*trusted = now
	case err == nil:
	case errors.Is(err, ErrLost), now.Sub(*trusted) > span:
		// Lost, or we could not look for so long that others may have taken
		// us for dead.
		h.lose()
		return false
	}
	return true
}

// renew writes a later time into the claim: to the open file, in place, without changing
// its length. So only our own file can be touched, whatever lies at the path by now, and a
// reader finds a whole claim at any moment.
func (a *attempt) renew(o *ownFile, now time.Time) error {
	claim := o.claim
	claim.RenewedAt = renewalTime(now)
	data, err := a.encode(claim)
	if err != nil {
		return err
	}
	if err := o.file.WriteAt(data, 0); err != nil {
		if wrote, herr := o.file.Holds(data); herr != nil || !wrote {
			return err
		}
	}
	o.claim, o.data, o.written = claim, data, time.Now()
	return nil
}
