package settings

import "time"

// Delay is the longest wait before attempt n, counted from 0, with r's defaults
// filled in.
func (r Retry) Delay(n int) (time.Duration, error) {
	r, err := r.withDefaults()
	return r.delay(n), err
}
