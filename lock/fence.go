package lock

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/platform"
)

// The fence lies in the sibling as 20 decimal digits and a newline. Bytes 0 and 1 are left
// alone: they are locked, and on Windows a locked byte can't be read.
const (
	fenceOffset = 2
	fenceDigits = 20
)

// Fence returns a number greater than that of every earlier holder of this lock who asked
// for one. A resource that remembers the greatest number it has seen can refuse a writer
// who no longer holds the lock.
//
// The number is engine.NextFence of the one that the sibling has. So a lost sibling, or a clock
// set back, does not rewind it; both together may. One FileHold always gives the same number.
// On error no number was given, and the caller may ask again. A sibling that holds something
// else, or a number out of all reason, is an error that names the file, and how to begin anew.
// After Release, or a loss (ErrLost), only a number that was asked for before is given. A
// shared lock has no fence (errors.ErrUnsupported).
func (h *FileHold) Fence() (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fence != 0 {
		return h.fence, nil
	}
	a := h.attempt
	if a.mode == platform.Shared {
		return 0, pathError("fence", a.file.Path, fmt.Errorf("readers have none: %w", errors.ErrUnsupported))
	}
	// A holder who was robbed must not get a greater number than the present one.
	if err := h.stillHolds("fence"); err != nil {
		return 0, err
	}
	// Only the holder comes here, so to others reading and raising is one step.
	f, err := a.makeSibling()
	if err == nil {
		if _, err = f.Stat(); err != nil { // what is no file
			_ = f.Close()
		}
	}
	if err != nil {
		return 0, fmt.Errorf("lock: fence: %w", err)
	}
	fence, err := a.nextFence(f)
	if err != nil {
		return 0, errors.Join(pathError("fence", a.sibling, err), f.Close())
	}
	err = f.WriteAt(fmt.Appendf(nil, "%0*d\n", fenceDigits, fence), fenceOffset)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, fmt.Errorf("lock: fence: %w", err)
	}
	h.fence = fence
	return fence, nil
}

// stillHolds returns an error for op if the lock is not this holder's any more, or if that
// can't be told. The caller has h.mu.
func (h *FileHold) stillHolds(op string) error {
	switch {
	case h.isLost:
		return pathError(op, h.Path(), ErrLost)
	case h.left:
		return pathError(op, h.Path(), errReleased)
	}
	err := h.own.isOurs()
	if errors.Is(err, ErrLost) {
		h.lose()
		err = pathError(op, h.Path(), err)
	}
	return err
}

// nextFence is the one that follows what the sibling has.
func (a *attempt) nextFence(sibling *platform.File) (int64, error) {
	m, err := readMemory(sibling)
	switch {
	case err != nil:
		return 0, err
	case m.alien:
		return 0, errAlien
	}
	fence, err := engine.NextFence(m.fence, a.now())
	if err != nil {
		return 0, fmt.Errorf("%w; %s", err, beginAnew)
	}
	return fence, nil
}

// beginAnew is the cure for a sibling with a fence that no holder can follow.
const beginAnew = "to begin anew, with the time of day, remove this file while nobody has the lock"

// readFence reads the fence alone. It is not ok in a file that is somebody's.
func readFence(sibling *platform.File) (fence int64, ok bool, err error) {
	var line [fenceDigits + 1]byte
	n, err := sibling.ReadAt(line[:], fenceOffset)
	if err != nil {
		return 0, false, err
	}
	fence, ok = parseFence(line[:n])
	return fence, ok, nil
}

// parseFence returns 0 where there is no fence yet, or only the NULs that a loss of power
// left of it. Any other content is not ours to change, and not ok.
func parseFence(line []byte) (fence int64, ok bool) {
	if len(bytes.Trim(line, "\x00")) == 0 {
		return 0, true
	}
	digits, ended := bytes.CutSuffix(line, []byte{'\n'})
	fence, err := strconv.ParseInt(string(digits), 10, 64)
	if !ended || len(digits) != fenceDigits || err != nil || fence < 0 {
		return 0, false
	}
	return fence, true
}
