package lock

import "time"

// Delay is the longest wait before attempt n, counted from 0, with r's defaults
// filled in.
func (r Retry) Delay(n int) (time.Duration, error) {
	r, err := r.withDefaults()
	return r.delay(n), err
}

// At returns e as it is when a wait has ended for a cause, and as it is read at
// a time.
func (e ErrLocked) At(now time.Time, cause error) *ErrLocked {
	e.now, e.Cause = now, cause
	return &e
}
