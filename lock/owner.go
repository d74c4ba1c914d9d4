package lock

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// How a claim names the owner. All pids take the same room, so that one can be written over
// another. They stand near the beginning of the claim, and so within one page of the file:
// no reader sees half of one.
const (
	ownerName  = `,"owner_pid":`
	ownerWidth = len("2147483647")
)

func ownerDigits(pid int) string { return fmt.Sprintf("%-*d", ownerWidth, pid) }

// SetOwnerPID says in the lock file that the lock is held for the life of another process
// than before. It is for holders whose File.OwnerPID was set.
//
// On failure the lock file says what it said before, or the lock is no longer ours
// (ErrLost). The error matches ErrInvalidName for what is no pid, and errors.ErrUnsupported
// for readers, who share one lock file, and for a hold that began without an owner.
func (h *FileHold) SetOwnerPID(pid int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.setOwnerPID(pid)
	if errors.Is(err, ErrLost) {
		h.lose()
	}
	if err != nil {
		return pathError("name the owner of", h.Path(), err)
	}
	return nil
}

func (h *FileHold) setOwnerPID(pid int) error {
	o := h.own
	switch {
	case pid <= 0 || pid > math.MaxInt32:
		return fmt.Errorf("%w: %d is no pid", ErrInvalidName, pid)
	case h.isLost:
		return ErrLost
	case h.left:
		return errReleased
	case h.attempt.mode == platform.Shared || o.claim.OwnerPID == 0:
		return fmt.Errorf("its claim has no place for one: %w", errors.ErrUnsupported)
	}
	if err := o.isOurs(); err != nil {
		return err
	}
	at := bytes.Index(o.data, []byte(ownerName)) + len(ownerName)
	data := bytes.Clone(o.data)
	copy(data[at:], ownerDigits(pid))
	if err := o.file.WriteAt(data[at:at+ownerWidth], int64(at)); err != nil {
		if wrote, herr := o.file.Holds(data); herr != nil || !wrote {
			return err
		}
	}
	o.claim.OwnerPID, o.data, o.written = pid, data, time.Now()
	return nil
}
