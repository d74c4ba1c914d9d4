package settings_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock/settings"
)

var errBusy = errors.New("busy")

// quick is a Retry that hardly waits.
func quick(attempts int) settings.Retry {
	return settings.Retry{MaxAttempts: attempts, InitialDelay: 1, MaxDelay: 1, Factor: 1}
}

// TestJit_RetrySucceedsOnSecondAttempt is jit's test_retry_succeeds_on_second_attempt.
func TestJit_RetrySucceedsOnSecondAttempt(t *testing.T) {
	calls := 0
	err := quick(3).Do(t.Context(), func(ctx context.Context) error {
		equal(t, ctx, t.Context(), "the attempt has another context")
		if calls++; calls == 1 {
			return errBusy
		}
		return nil
	})
	that(t, err == nil && calls == 2, "%d calls, %v; want 2 and success", calls, err)
}

// TestJit_RetryRespectsMaxAttempts is jit's test_retry_respects_max_attempts.
func TestJit_RetryRespectsMaxAttempts(t *testing.T) {
	for _, attempts := range []int{1, 2, 3, 10} {
		calls := 0
		err := quick(attempts).Do(t.Context(), func(context.Context) error {
			calls++
			return fmt.Errorf("failure %d: %w", calls, errBusy)
		})
		that(t, calls == attempts, "%d calls, want exactly %d", calls, attempts)
		var many *settings.TooManyRetriesError
		if !errors.As(err, &many) {
			t.Fatalf("error is %T: %v", err, err)
		}
		last := fmt.Sprintf("failure %d: busy", attempts)
		if many.Attempts != attempts || fmt.Sprint(many.Last) != last || !errors.Is(err, errBusy) {
			t.Errorf("%d attempts, the last: %v; want %d, and %s", many.Attempts, many.Last, attempts, last)
		}
		if want := fmt.Sprintf("too many retries: %d attempts failed, the last with: %s", attempts, last); err.Error() != want {
			t.Errorf("message is %q, want %q", err, want)
		}
	}
}

// TestJit_BackoffDelaysIncrease is jit's test_backoff_delays_increase, on the
// bounds: each is the former times the factor, up to the greatest.
func TestJit_BackoffDelaysIncrease(t *testing.T) {
	ms := time.Millisecond
	for _, test := range []struct {
		retry settings.Retry
		want  []time.Duration // before the second attempt, the third, ...
	}{
		{settings.Retry{}, []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms}},
		{settings.DefaultRetry, []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms}},
		{settings.Retry{InitialDelay: 10 * ms, Factor: 1}, []time.Duration{10 * ms, 10 * ms, 10 * ms}},
		{settings.Retry{InitialDelay: 10 * ms, Factor: 1.5}, []time.Duration{10 * ms, 15 * ms, 22500 * time.Microsecond}},
		{settings.Retry{InitialDelay: 3 * time.Second}, []time.Duration{2 * time.Second, 2 * time.Second}},
		{settings.Retry{InitialDelay: 1, MaxDelay: 7, Factor: 1000}, []time.Duration{1, 7, 7}},
	} {
		for i, want := range test.want {
			if got, err := test.retry.Delay(i + 1); err != nil || got != want {
				t.Errorf("%+v: before attempt %d: at most %s (%v), want %s", test.retry, i+1, got, err, want)
			}
		}
	}
}

// TestRetry_DelaysNeverOverflow: however large the parts, a bound is positive,
// never falls, and never exceeds the greatest.
func TestRetry_DelaysNeverOverflow(t *testing.T) {
	extremes := []time.Duration{1, time.Nanosecond * 3, time.Millisecond, time.Hour, 365 * 24 * time.Hour, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	wrong := 0
	check := func(r settings.Retry) {
		t.Helper()
		if wrong > 5 {
			return // seen enough
		}
		var before time.Duration
		for _, n := range []int{1, 2, 3, 4, 10, 63, 64, 100, 5000} {
			d, err := r.Delay(n)
			check(t, err, r)
			if d < 1 || d < before || d > r.MaxDelay {
				t.Errorf("initial %d, max %d, factor %g: before attempt %d at most %d, before that %d", r.InitialDelay, r.MaxDelay, r.Factor, n, d, before)
				wrong++
				return
			}
			before = d
		}
	}
	for _, initial := range extremes {
		for _, most := range extremes {
			for _, factor := range []float64{1, 1.0000001, 2, 999.9, 1000} {
				check(settings.Retry{InitialDelay: initial, MaxDelay: most, Factor: factor})
			}
		}
	}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		check(settings.Retry{
			InitialDelay: 1 + time.Duration(r.Int64N(1<<r.IntN(54)+1)),
			MaxDelay:     1 + time.Duration(r.Int64N(1<<r.IntN(54)+1)),
			Factor:       1 + r.Float64()*float64(int(1)<<r.IntN(9)),
		})
	}
}

// TestRetry_HugeDelay: a greatest delay that is the longest time there is does not
// break the wait.
func TestRetry_HugeDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := settings.Retry{MaxAttempts: 2, InitialDelay: math.MaxInt64, MaxDelay: math.MaxInt64}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v", p)
			}
		}()
		_ = r.Do(ctx, func(context.Context) error { return errBusy })
	})
}

// TestRetry_FullJitter runs on a clock of its own: each wait is at most its bound,
// and they are spread over the whole of it.
func TestRetry_FullJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := settings.Retry{MaxAttempts: 9}
		const runs = 500
		var waits [9][]time.Duration
		for range runs {
			last, n := time.Now(), 0
			_ = r.Do(t.Context(), func(context.Context) error {
				waits[n] = append(waits[n], time.Since(last))
				last, n = time.Now(), n+1
				return errBusy
			})
			if n != 9 {
				t.Fatalf("%d attempts", n)
			}
			if d := time.Since(last); d != 0 {
				t.Fatalf("a wait of %s after the last attempt", d)
			}
		}
		for n, all := range waits {
			bound := must(r.Delay(n))(t)
			if n == 0 {
				bound = 0
			}
			var quarters [4]int
			for _, w := range all {
				if w < 0 || w > bound {
					t.Fatalf("before attempt %d: waited %s, at most %s allowed", n, w, bound)
				}
				if n > 0 {
					quarters[min(3, 4*w/bound)]++
				}
			}
			// Each has 125 on average, and a standard deviation below 10.
			for q, count := range quarters {
				if n > 0 && count < 50 {
					t.Errorf("before attempt %d: only %d of %d waits in quarter %d of %s", n, count, runs, q, bound)
				}
			}
		}
	})
}

func TestRetry_ContextDoneBefore(t *testing.T) {
	why := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	called := false
	err := settings.Retry{}.Do(ctx, func(context.Context) error { called = true; return nil })
	that(t, !called && errors.Is(err, why), "called: %v, %v", called, err)
	that(t, !errors.As(err, new(*settings.TooManyRetriesError)), "%v", err)
}

// TestRetry_ContextDoneWhileWaiting: the wait ends at the very moment that the
// context does, and says how many attempts have failed, and why.
func TestRetry_ContextDoneWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 3 * time.Hour
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		calls := 0
		r := settings.Retry{MaxAttempts: 1000, InitialDelay: time.Hour, MaxDelay: time.Hour, Factor: 1}
		err := r.Do(ctx, func(context.Context) error { calls++; return errBusy })
		equal(t, time.Since(begun), limit, "returned after")
		that(t, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, errBusy), "error is %v", err)
		if want := fmt.Sprintf("stopped after %d failed attempts", calls); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("error is %q; want it to begin %q", err, want)
		}
		that(t, !errors.As(err, new(*settings.TooManyRetriesError)), "%v, though attempts were left", err)
	})
}

// TestRetry_ContextDoneInAttempt: no further attempt, and no further wait; what
// succeeds all the same is a success.
func TestRetry_ContextDoneInAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, result := range []error{nil, errBusy} {
			why := errors.New("shutting down")
			ctx, cancel := context.WithCancelCause(t.Context())
			begun, calls := time.Now(), 0
			err := settings.Retry{InitialDelay: time.Hour, MaxDelay: time.Hour}.Do(ctx, func(context.Context) error {
				if calls++; calls == 2 {
					cancel(why)
					begun = time.Now()
					return result
				}
				return errBusy
			})
			if calls != 2 || time.Since(begun) != 0 {
				t.Errorf("%d calls, the last %s ago", calls, time.Since(begun))
			}
			switch {
			case result == nil && err != nil:
				t.Errorf("success was reported as %v", err)
			case result != nil && (!errors.Is(err, why) || !errors.Is(err, result) || !strings.Contains(err.Error(), "2 failed attempts")):
				t.Errorf("error is %v", err)
			}
		}
	})
}

// TestRetry_ZeroIsDefault: of each field on its own.
func TestRetry_ZeroIsDefault(t *testing.T) {
	calls := 0
	err := settings.Retry{InitialDelay: 1}.Do(t.Context(), func(context.Context) error { calls++; return errBusy })
	if many := new(settings.TooManyRetriesError); calls != 3 || !errors.As(err, &many) || many.Attempts != 3 {
		t.Errorf("%d calls, %v; want 3", calls, err)
	}
	if want := (settings.Retry{MaxAttempts: 3, InitialDelay: 50 * time.Millisecond, MaxDelay: 2 * time.Second, Factor: 2}); settings.DefaultRetry != want {
		t.Errorf("DefaultRetry is %+v", settings.DefaultRetry)
	}
	if d, _ := (settings.Retry{InitialDelay: time.Hour}).Delay(1); d != 2*time.Second {
		t.Errorf("the greatest delay is %s", d)
	}
}

func TestRetry_Invalid(t *testing.T) {
	for _, r := range []settings.Retry{
		{MaxAttempts: -1}, {MaxAttempts: math.MinInt},
		{InitialDelay: -1}, {MaxDelay: -1}, {MaxDelay: math.MinInt64},
		{Factor: -2}, {Factor: 0.5}, {Factor: math.Nextafter(1, 0)}, {Factor: 1000.5},
		{Factor: math.NaN()}, {Factor: math.Inf(1)}, {Factor: math.Inf(-1)},
	} {
		called := false
		err := r.Do(t.Context(), func(context.Context) error { called = true; return nil })
		that(t, err != nil && !called, "%+v: called: %v, %v; want an error", r, called, err)
	}
}
