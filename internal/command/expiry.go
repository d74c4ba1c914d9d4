package command

import "time"

// expiry is when a session ends that is not renewed.
type expiry struct {
	ttl   time.Duration // 0: never
	since time.Time     // zero: not yet
	timer *time.Timer
}

// begin has the whole time pass anew.
func (e *expiry) begin(now time.Time) {
	if e.ttl > 0 {
		e.since = now
		e.look(now)
	}
}

// maxLook bounds how late a suspend of the machine is noticed: a timer does not count it.
const maxLook = 10 * time.Second

func (e *expiry) look(now time.Time) { e.timer = time.NewTimer(min(e.left(now), maxLook)) }

func (e *expiry) due() <-chan time.Time {
	if e.timer == nil {
		return nil
	}
	return e.timer.C
}

// left counts by either clock: the one of the wall goes on while the machine is suspended.
func (e *expiry) left(now time.Time) time.Duration {
	return e.ttl - max(now.Sub(e.since), now.Round(0).Sub(e.since.Round(0)))
}

// passed reports whether the time is over, and if not, sets the next look.
func (e *expiry) passed(now time.Time) bool {
	if e.left(now) <= 0 {
		return true
	}
	e.look(now)
	return false
}
