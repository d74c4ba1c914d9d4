package engine_test

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/engine"
)

// TestNextFence has each rule, and the last number for which it is so.
func TestNextFence(t *testing.T) { // guards: F2
	now := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	const clock, century = 1767323045678901, 36525 * 24 * 3600 * 1_000_000
	farthest := time.UnixMicro(engine.MaxFence)
	for name, c := range map[string]struct {
		last int64
		now  time.Time
		want int64 // 0: an error
	}{
		"none before":              {0, now, clock},
		"long ago":                 {7, now, clock},
		"just before":              {clock - 1, now, clock},
		"in the same microsecond":  {clock, now, clock + 1},
		"clock set back":           {clock + 5, now, clock + 6},
		"clock fallen back":        {clock, time.Unix(0, 0), clock + 1},
		"clock before 1970":        {0, time.Unix(-5, 0), 1},
		"a century ahead":          {clock + century, now, clock + century + 1},
		"more than a century":      {clock + century + 1, now, 0},
		"nanoseconds":              {now.UnixNano(), now, 0},
		"the greatest number":      {math.MaxInt64, now, 0},
		"the clock at the end":     {0, farthest, engine.MaxFence},
		"the clock beyond the end": {0, farthest.Add(time.Microsecond), 0},
		"the last but one":         {engine.MaxFence - 1, farthest, engine.MaxFence},
		"the last":                 {engine.MaxFence, farthest, 0},
	} {
		got, err := engine.NextFence(c.last, c.now)
		if got != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("%s: after %d, at %s, comes %d, %v; want %d", name, c.last, c.now, got, err, c.want)
		}
	}
}
