package record

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/platform"
)

// The fence lies in the sibling as 20 decimal digits and a newline. Bytes 0 and 1 are left
// alone: they are locked, and on Windows a locked byte can't be read.
const (
	fenceOffset = 2
	fenceDigits = 20
)

// BeginAnew is the cure for a sibling with a fence that no holder can follow.
const BeginAnew = "to begin anew, with the time of day, remove this file while nobody has the lock"

// Raise gives the fence that follows the sibling's, and keeps it there. Only the holder calls
// it, so for others reading and raising is one step. On error no number was given.
func Raise(f *platform.File, now time.Time) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	data := buffers.Get().(*buffer)
	defer buffers.Put(data)
	m, err := toWrite(f, info, data)
	if err != nil {
		return 0, err
	}
	fence, err := engine.NextFence(m.Fence, now)
	if err != nil {
		return 0, fail(f, fmt.Errorf("%w; %s", err, BeginAnew))
	}
	return fence, f.WriteAt(fmt.Appendf(nil, "%0*d\n", fenceDigits, fence), fenceOffset)
}

// parseFence returns 0 where there is no fence yet, or only the NULs that a loss of power left
// of it. Any other content is not ours to change, and not ok.
func parseFence(line []byte) (fence int64, ok bool) {
	if isEmpty(line) {
		return 0, true
	}
	digits, ended := bytes.CutSuffix(line, []byte{'\n'})
	fence, err := strconv.ParseInt(string(digits), 10, 64)
	if !ended || len(digits) != fenceDigits || err != nil || fence < 0 {
		return 0, false
	}
	return fence, true
}
