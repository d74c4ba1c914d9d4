package lock

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
)

// Fence returns a number greater than that of every earlier holder of this lock that asked for
// one. A resource that remembers the greatest number it has seen can refuse a writer that no
// longer holds the lock.
//
// The number is engine.NextFence of the one that the sibling has. So a lost sibling, or a
// clock set back, does not rewind it; both together may. One FileHold always gives the same
// number. On error no number was given, and the caller may ask again. A sibling that holds
// something else, or a number out of all reason, is an error that names the file, and how to
// begin anew. After Release, or a loss (ErrLost), only a number that was asked for before is
// given. A shared lock has no fence (errors.ErrUnsupported).
func (h *FileHold) Fence() (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fence != 0 {
		return h.fence, nil
	}
	a := h.attempt
	if a.take.Mode == platform.Shared {
		return 0, fail.At("fence", a.file.Path, fmt.Errorf("readers have none: %w", errors.ErrUnsupported))
	}
	// A holder that was robbed must not get a greater number than the present one.
	if err := h.stillHolds("fence"); err != nil {
		return 0, err
	}
	f, err := a.sibling.Make()
	if err != nil {
		return 0, memoryError("fence", err)
	}
	fence, err := record.Raise(f, a.Now())
	if err = fail.Join(err, f.Close()); err != nil {
		return 0, memoryError("fence", err)
	}
	h.fence = fence
	return fence, nil
}

// stillHolds returns an error for op if the lock is not this holder's any more, or if that
// can't be told. The caller has h.mu.
func (h *FileHold) stillHolds(op string) error {
	switch {
	case h.isLost:
		return fail.At(op, h.Path(), ErrLost)
	case h.left:
		return fail.At(op, h.Path(), errReleased)
	}
	err := h.own.IsOurs()
	if errors.Is(err, ErrLost) {
		h.lose()
		err = fail.At(op, h.Path(), err)
	}
	return err
}
