package engine

import (
	"fmt"
	"time"
)

// MaxFence is the greatest fence: numbers up to here are exact in JavaScript, and in all
// that reads JSON as it does.
const MaxFence = 1<<53 - 1

// maxAhead is how far a fence may be ahead of the clock. A clock that has fallen back to 1970
// is still believed; a number that somebody wrote into a file is not.
const maxAhead = 36525 * 24 * time.Hour

// NextFence returns the fence that follows the last one of a lock: max(last + 1, Unix
// microseconds), and MaxFence at most. last is 0 if there was none. So a fence grows when the
// clock was set back, and also when the last one was forgotten, or was another engine's.
//
// A last one more than a century ahead of the clock is an error: no holder was given it. The
// caller adds where it lies, and the cure.
func NextFence(last int64, now time.Time) (int64, error) {
	clock := now.UnixMicro()
	next := max(last+1, clock)
	switch {
	case last > clock+maxAhead.Microseconds():
		return 0, fmt.Errorf("the last fence, %d, is more than a century ahead of the clock, %s: holdfast did not write it, or the clock is wrong",
			last, now.UTC().Format(time.DateTime))
	case next > MaxFence:
		return 0, fmt.Errorf("no fence below 2^53 is left: the last one is %d, and the clock shows %s", last, now.UTC().Format(time.DateTime))
	}
	return next, nil
}
