package lock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// TestBackoff: who looks from time to time does so less and less often, but not for ever.
func TestBackoff(t *testing.T) {
	poll, alien, looks := lock.Delays(9)
	const ms = time.Millisecond
	for what, d := range map[string]struct{ got, want []time.Duration }{
		"poll":  {poll, []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 500 * ms, 500 * ms, 500 * ms}},
		"alien": {alien, []time.Duration{10 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms}},
		"looks": {looks, []time.Duration{40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, 1000 * ms, 1000 * ms, 1000 * ms, 1000 * ms}},
	} {
		if !slices.Equal(d.got, d.want) {
			t.Errorf("%s: %v; want %v", what, d.got, d.want)
		}
	}
}

// TestBackoff_Looks: a wait for a lock that is held is looked after so.
func TestBackoff_Looks(t *testing.T) {
	f := queued(t)
	held := tryHold(t, f)
	_, _, want := lock.Delays(4)
	got, err := lock.LooksAfter(f, 4)
	check(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	letGo(t, held)
	wantFree(t, f.Path)
}

// TestJitter: a delay is never shorter than half of it, nor longer than it, and not always the
// same.
func TestJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := lock.Jitter(time.Second)
		if seen[d] = true; d < time.Second/2 || d > time.Second {
			t.Fatal(d)
		}
	}
	if len(seen) < 900 {
		t.Errorf("%d delays in 1000 draws", len(seen))
	}
}
