package pace_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/pace"
)

// TestBackoff: a caller that looks from time to time does so less and less often, but not for
// ever.
func TestBackoff(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		pace pace.Backoff
		want []time.Duration
	}{
		{pace.New(pace.Longest), []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 500 * ms, 500 * ms, 500 * ms}},
		{pace.New(20 * ms), []time.Duration{10 * ms, 20 * ms, 20 * ms, 20 * ms}},
		{pace.Backoff{First: 40 * ms, Most: 1000 * ms}, []time.Duration{40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, 1000 * ms, 1000 * ms}},
	} {
		var got []time.Duration
		for range test.want {
			got = append(got, test.pace.Next())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v; want %v", got, test.want)
		}
	}
}

// TestJitter: a delay is never shorter than half of it, nor longer than it, and not always the
// same.
func TestJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := pace.Jitter(time.Second)
		if seen[d] = true; d < time.Second/2 || d > time.Second {
			t.Fatal(d)
		}
	}
	if len(seen) < 900 {
		t.Errorf("%d delays in 1000 draws", len(seen))
	}
}
