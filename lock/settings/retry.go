package settings

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Retry says how often to attempt something, and how long to wait in between. 0
// in a field means its default.
type Retry struct {
	MaxAttempts  int           // 3
	InitialDelay time.Duration // 50 ms
	MaxDelay     time.Duration // 2 s
	Factor       float64       // 2.0: what the delay is multiplied by each time
}

// DefaultRetry has the defaults of Retry.
var DefaultRetry = Retry{MaxAttempts: 3, InitialDelay: 50 * time.Millisecond, MaxDelay: 2 * time.Second, Factor: 2}

// TooManyRetriesError is returned, as a pointer, when every attempt has failed.
type TooManyRetriesError struct {
	Attempts int
	Last     error // why the last one failed
}

func (e *TooManyRetriesError) Error() string {
	return fmt.Sprintf("too many retries: %d attempts failed, the last with: %v", e.Attempts, e.Last)
}

// Unwrap returns why the last attempt failed.
func (e *TooManyRetriesError) Unwrap() error { return e.Last }

// Do calls attempt until it returns nil, up to MaxAttempts times. In between it waits a
// random time of up to InitialDelay, then up to Factor times that, and so on, up to
// MaxDelay ("full jitter").
//
// It returns nil after a success, and a *TooManyRetriesError when all attempts have failed.
// When ctx is done, it waits no longer: the error matches the cause of ctx, and says how
// many attempts had failed. Only ctx interrupts an attempt that is under way. A field that
// is out of range is an error.
func (r Retry) Do(ctx context.Context, attempt func(context.Context) error) error {
	r, err := r.withDefaults()
	if err != nil {
		return err
	}
	var last error
	for n := 0; n < r.MaxAttempts; n++ {
		if n > 0 {
			sleep(ctx, rand.N(r.delay(n)))
		}
		if ctx.Err() != nil {
			return stoppedAfter(ctx, n, last)
		}
		if last = attempt(ctx); last == nil {
			return nil
		}
	}
	return &TooManyRetriesError{Attempts: r.MaxAttempts, Last: last}
}

// delay is the longest wait before attempt n, counted from 0.
func (r Retry) delay(n int) time.Duration {
	d := float64(r.InitialDelay)
	for range n - 1 {
		if d >= float64(r.MaxDelay) {
			break
		}
		d *= r.Factor
	}
	if d >= float64(r.MaxDelay) {
		return r.MaxDelay
	}
	return time.Duration(d)
}

func (r Retry) withDefaults() (Retry, error) {
	if r.MaxAttempts < 0 || r.InitialDelay < 0 || r.MaxDelay < 0 || r.Factor != 0 && !(r.Factor >= 1 && r.Factor <= maxFactor) {
		return r, fmt.Errorf("settings: %+v: attempts and delays must not be negative, nor the factor below 1 or above %d", r, int(maxFactor))
	}
	if r.MaxAttempts == 0 {
		r.MaxAttempts = DefaultRetry.MaxAttempts
	}
	if r.InitialDelay == 0 {
		r.InitialDelay = DefaultRetry.InitialDelay
	}
	if r.MaxDelay == 0 {
		r.MaxDelay = DefaultRetry.MaxDelay
	}
	if r.Factor == 0 {
		r.Factor = DefaultRetry.Factor
	}
	return r, nil
}

// sleep waits for a time, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func stoppedAfter(ctx context.Context, failed int, last error) error {
	if last == nil {
		return fmt.Errorf("stopped before the first attempt: %w", context.Cause(ctx))
	}
	return fmt.Errorf("stopped after %d failed attempts: %w; the last with: %w", failed, context.Cause(ctx), last)
}
