package settings_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/settings"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

var settingsVars = []string{"LOCK_TIMEOUT", "RETRY_MAX_ATTEMPTS", "RETRY_INITIAL_DELAY_MS", "RETRY_MAX_DELAY_MS", "RETRY_BACKOFF_FACTOR"}

// defaults are jit's.
func defaults() settings.Settings {
	return settings.Settings{Timeout: 5 * time.Second, Retry: settings.Retry{
		MaxAttempts: 3, InitialDelay: 50 * time.Millisecond, MaxDelay: 2 * time.Second, Factor: 2,
	}}
}

var (
	check = testkit.Check
	that  = testkit.That
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

func TestSettings_Defaults(t *testing.T) {
	got, err := settings.FromEnv("HOLDFASTUNSET")
	that(t, err == nil && got == defaults(), "unset: %+v, %v", got, err)
	for _, name := range settingsVars {
		t.Setenv("JIT_"+name, "")
	}
	got, err = settings.FromEnv("JIT")
	that(t, err == nil && got == defaults(), "empty: %+v, %v", got, err)
	equal(t, settings.DefaultTimeout, 5*time.Second, "DefaultTimeout")
}

// TestSettings_Each sets one variable at a time; the others keep their defaults.
func TestSettings_Each(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        func(*settings.Settings)
	}{
		{"LOCK_TIMEOUT", "10", func(s *settings.Settings) { s.Timeout = 10 * time.Second }},
		{"LOCK_TIMEOUT", "0", func(s *settings.Settings) { s.Timeout = 0 }},
		{"LOCK_TIMEOUT", "0.0005", func(s *settings.Settings) { s.Timeout = 500 * time.Microsecond }},
		{"LOCK_TIMEOUT", "2.5", func(s *settings.Settings) { s.Timeout = 2500 * time.Millisecond }},
		{"LOCK_TIMEOUT", "1e2", func(s *settings.Settings) { s.Timeout = 100 * time.Second }},
		{"LOCK_TIMEOUT", "31536000", func(s *settings.Settings) { s.Timeout = 365 * 24 * time.Hour }},
		{"RETRY_MAX_ATTEMPTS", "1", func(s *settings.Settings) { s.Retry.MaxAttempts = 1 }},
		{"RETRY_MAX_ATTEMPTS", "7", func(s *settings.Settings) { s.Retry.MaxAttempts = 7 }},
		{"RETRY_MAX_ATTEMPTS", "1000000", func(s *settings.Settings) { s.Retry.MaxAttempts = 1_000_000 }},
		{"RETRY_INITIAL_DELAY_MS", "1", func(s *settings.Settings) { s.Retry.InitialDelay = time.Millisecond }},
		{"RETRY_INITIAL_DELAY_MS", "250", func(s *settings.Settings) { s.Retry.InitialDelay = 250 * time.Millisecond }},
		{"RETRY_MAX_DELAY_MS", "4000", func(s *settings.Settings) { s.Retry.MaxDelay = 4 * time.Second }},
		{"RETRY_MAX_DELAY_MS", "31536000000", func(s *settings.Settings) { s.Retry.MaxDelay = 365 * 24 * time.Hour }},
		{"RETRY_BACKOFF_FACTOR", "1", func(s *settings.Settings) { s.Retry.Factor = 1 }},
		{"RETRY_BACKOFF_FACTOR", "1.25", func(s *settings.Settings) { s.Retry.Factor = 1.25 }},
		{"RETRY_BACKOFF_FACTOR", "1000", func(s *settings.Settings) { s.Retry.Factor = 1000 }},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			t.Setenv("JIT_"+test.name, test.value)
			want := defaults()
			test.want(&want)
			got, err := settings.FromEnv("JIT")
			that(t, err == nil && got == want, "%+v, %v; want %+v", got, err, want)
			equal(t, must(settings.FromEnv("OTHER"))(t), defaults(), "another prefix")
			// What can be set can be used.
			if got.Retry.MaxAttempts > 1 {
				if d, err := got.Retry.Delay(1); err != nil || d < 1 {
					t.Errorf("its delay is %s, %v", d, err)
				}
			}
		})
	}
}

// TestSettings_Bad: an error that names the variable and quotes its value, and no
// settings.
func TestSettings_Bad(t *testing.T) {
	notNumbers := []string{"five", "5s", "50ms", " 5", "5 ", " ", "5,0", "_5", "0x", "1e", "--1", "true", "NaN", "nan", "-NaN",
		"Inf", "+Inf", "-Inf", "infinity", "1e400", "-1e400", "1e300", "99999999999999999999999999", "-1", "-0.0001", "5\x00", "5\n", "५", "0x10", "1/2"}
	bad := map[string][]string{
		"LOCK_TIMEOUT":           {"31536001", "9223372036854775807", "9223372037"},
		"RETRY_MAX_ATTEMPTS":     {"0", "-0", "1.5", "2.0000001", "0.5", "1000001", "1e18", "9223372036854775808"},
		"RETRY_INITIAL_DELAY_MS": {"0", "0.5", "1.5", "31536000001", "9223372036855"},
		"RETRY_MAX_DELAY_MS":     {"0", "0.001", "2000.5", "31536000001", "18446744073709551616"},
		"RETRY_BACKOFF_FACTOR":   {"0", "0.5", "0.9999999", "1000.0001", "1e9"},
	}
	for _, name := range settingsVars {
		for _, value := range append(bad[name], notNumbers...) {
			if strings.ContainsRune(value, 0) {
				continue // the environment can't have it
			}
			t.Run(name+"="+value, func(t *testing.T) {
				t.Setenv("JIT_"+name, value)
				got, err := settings.FromEnv("JIT")
				if err == nil {
					t.Fatalf("accepted: %+v", got)
				}
				equal(t, got, (settings.Settings{}), "there are settings with the error")
				for _, other := range settingsVars {
					if named := strings.Contains(err.Error(), "JIT_"+other); named != (other == name) {
						t.Errorf("%s in the error: %v (%v)", other, named, err)
					}
				}
				that(t, !strings.ContainsAny(err.Error(), "\n\x1b"), "raw control character in %q", err)
			})
		}
	}
}

// TestSettings_FirstBad: of several, one that is bad is named.
func TestSettings_FirstBad(t *testing.T) {
	t.Setenv("JIT_RETRY_MAX_ATTEMPTS", "3")
	t.Setenv("JIT_RETRY_MAX_DELAY_MS", "none")
	t.Setenv("JIT_RETRY_BACKOFF_FACTOR", "none")
	_, err := settings.FromEnv("JIT")
	that(t, err != nil && strings.Contains(err.Error(), "JIT_RETRY_MAX_DELAY_MS"), "error is %v", err)
}

// TestSettings_GoLiterals: a number is what strconv reads as one, which takes in
// those that Go's own syntax has.
func TestSettings_GoLiterals(t *testing.T) {
	t.Setenv("JIT_LOCK_TIMEOUT", "0x1p4")
	t.Setenv("JIT_RETRY_MAX_ATTEMPTS", "0x1p-1")
	if _, err := settings.FromEnv("JIT"); err == nil || !strings.Contains(err.Error(), "JIT_RETRY_MAX_ATTEMPTS") {
		t.Errorf("half an attempt: %v", err)
	}
	t.Setenv("JIT_RETRY_MAX_ATTEMPTS", "0x1p2")
	t.Setenv("JIT_RETRY_MAX_DELAY_MS", "5_000")
	got, err := settings.FromEnv("JIT")
	if err != nil || got.Timeout != 16*time.Second || got.Retry.MaxDelay != 5*time.Second || got.Retry.MaxAttempts != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSettings_Prefix(t *testing.T) {
	t.Setenv("JIT_2_LOCK_TIMEOUT", "9")
	equal(t, must(settings.FromEnv("JIT_2"))(t).Timeout, 9*time.Second)
	for _, prefix := range []string{"", "2JIT", "JIT=", "A B", "a-b", "é", "JIT\n", "\nJIT", "JIT\x00", ".", "$X"} {
		if got, err := settings.FromEnv(prefix); !errors.Is(err, lock.ErrInvalidName) || got != (settings.Settings{}) {
			t.Errorf("%q: %+v, %v; want ErrInvalidName", prefix, got, err)
		}
	}
}

// TestSettings_ShortTimeouts: 0 tries once, and less than a millisecond is not for
// ever.
func TestSettings_ShortTimeouts(t *testing.T) {
	f := lock.File{Path: filepath.Join(t.TempDir(), "l")}
	held := must(f.TryAcquire(t.Context()))(t)
	defer held.Release()
	for value, waits := range map[string]bool{"0": false, "0.0005": true, "0.000000001": true} {
		t.Setenv("JIT_LOCK_TIMEOUT", value)
		s, err := settings.FromEnv("JIT")
		check(t, err)
		_, err = f.AcquireWithin(t.Context(), s.Timeout)
		switch {
		case !waits:
			if locked := new(lock.LockedError); !errors.As(err, &locked) || errors.Is(err, lock.ErrTimeout) {
				t.Errorf("%s: %v; want one try", value, err)
			}
		case !errors.Is(err, context.DeadlineExceeded): // before the wait, or in it
			t.Errorf("%s: %v", value, err)
		}
	}
}
