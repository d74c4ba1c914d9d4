package settings_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/settings"
)

// FuzzFromEnv: a variable says what an exact reading of its number says, to the rounding of
// a float, or is an error that names it; and no other variable is read.
func FuzzFromEnv(f *testing.F) {
	for _, value := range []string{"", "5", "0", "-1", "0.5", "1e3", "1e400", "0x10", "NaN", "Inf", "1_000", " 5", "5s", "999999999999", "1.0", "+3", "5\n", "٥"} {
		f.Add("JIT", value, uint8(0))
		f.Add("_", value, uint8(1))
		f.Add("a1", value, uint8(2))
		f.Add("X", value, uint8(4))
	}
	f.Add("", "5", uint8(0))
	f.Add("A=B", "5", uint8(0))
	f.Add("1A", "5", uint8(3))
	names := []string{"LOCK_TIMEOUT", "RETRY_MAX_ATTEMPTS", "RETRY_INITIAL_DELAY_MS", "RETRY_MAX_DELAY_MS", "RETRY_BACKOFF_FACTOR"}
	least := []float64{0, 1, 1, 1, 1}
	most := []float64{365 * 86400, 1e6, 365 * 86400e3, 365 * 86400e3, 1000}
	f.Fuzz(func(t *testing.T, prefix, value string, which uint8) {
		i := int(which) % len(names)
		if strings.ContainsAny(prefix, "=\x00") || strings.Contains(value, "\x00") || len(prefix) > 100 || len(value) > 1000 {
			if _, err := settings.FromEnv(prefix); strings.ContainsAny(prefix, "=\x00") && !errors.Is(err, lock.ErrInvalidName) {
				t.Errorf("prefix %q: %v", prefix, err)
			}
			return
		}
		valid := prefix != ""
		for n, c := range []byte(prefix) {
			valid = valid && (c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || n > 0 && c >= '0' && c <= '9')
		}
		t.Setenv(prefix+"_"+names[i], value)
		s, err := settings.FromEnv(prefix)
		if !valid {
			that(t, errors.Is(err, lock.ErrInvalidName) && s == (settings.Settings{}), "prefix %q: %+v, %v", prefix, s, err)
			return
		}
		got := []float64{s.Timeout.Seconds(), float64(s.Retry.MaxAttempts), float64(s.Retry.InitialDelay) / 1e6, float64(s.Retry.MaxDelay) / 1e6, s.Retry.Factor}
		want := []float64{5, 3, 50, 2000, 2}
		if value != "" {
			n, ok := new(big.Float).SetString(value)
			small, large := big.NewFloat(least[i]), big.NewFloat(most[i])
			// Forms of a number that only one of the two readers knows are left alone.
			if strings.ContainsAny(value, "pPxXoObBiInN_") {
				return
			}
			near := ok && (n.Cmp(small) < 0 && new(big.Float).Sub(small, n).Cmp(tiny) < 0 || n.Cmp(large) > 0 && new(big.Float).Sub(n, large).Cmp(tiny) < 0)
			if near {
				return // rounded
			}
			in := ok && n.Cmp(small) >= 0 && n.Cmp(large) <= 0
			if whole := i > 0 && i < 4; in && whole && !n.IsInt() {
				if _, rest := n.Float64(); rest == 0 {
					in = false
				} else {
					return // rounded
				}
			}
			if in != (err == nil) {
				t.Fatalf("%s_%s=%q: %v", prefix, names[i], value, err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), prefix+"_"+names[i]) || s != (settings.Settings{}) {
					t.Errorf("%q: %+v, %v", value, s, err)
				}
				return
			}
			want[i], _ = n.Float64()
		}
		for j := range want {
			if d := got[j] - want[j]; d > 1e-6*(1+want[j]) || -d > 1e-6*(1+want[j]) {
				t.Errorf("%s_%s=%q: %s is %v, want %v", prefix, names[i], value, names[j], got[j], want[j])
			}
		}
		that(t, s.Timeout >= 0 && s.Timeout <= 366*24*time.Hour, "%q: a timeout of %v", value, s.Timeout)
	})
}

var tiny = big.NewFloat(1e-6)
