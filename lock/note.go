package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
)

// Note says what this holder is doing: at which step it is. Inspect, LockedError and the
// command show it. So does Predecessor to the next holder, however this one ends. Each note
// replaces the one before. It takes microseconds, and nobody ever sees half of it. The last
// note stays in the sibling when the lock is released.
//
// The text is of at most 1 KiB. A longer one, or one with hundreds of control characters, is
// ErrInvalidName. After Release or a loss (ErrLost) nothing is noted. A shared lock has no
// note (errors.ErrUnsupported). After any error the note is the one before.
func (h *FileHold) Note(text string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.attempt
	if a.take.Mode == platform.Shared {
		return fail.At("note", a.file.Path, fmt.Errorf("readers have none: %w", errors.ErrUnsupported))
	}
	if err := h.stillHolds("note"); err != nil {
		return err
	}
	if err := record.CheckNote(text); err != nil { // before a sibling is made for it
		return memoryError("note", err)
	}
	f, done, err := a.openMemory(os.O_RDWR | os.O_CREATE)
	if err != nil {
		return memoryError("note", err)
	}
	h.noted = true
	return memoryError("note", fail.Join(record.Note(f, h.own.Claim, text, a.Now()), done()))
}

// NoteAbove is FileHold.Note for a process that works under the lock of a process above it,
// which HOLDFAST_HELD names (see FileHold.Environ): the lock at path, or, if path is empty,
// the innermost that is still held.
//
// The error matches ErrLost if that lock is no longer held as it was when this process was
// started, and ErrInvalidName if there is no such lock above, or the text is too long. A
// readers' lock has no note (errors.ErrUnsupported).
//
// If the lock passes to another holder during the call, and from that to a third, the note of
// that one may be gone until it notes again. This note stays this holder's.
func NoteAbove(path, text string) error {
	above, err := findAbove(path)
	if err != nil {
		return err
	}
	p, err := File{Path: above.Path}.locate()
	if err != nil {
		return err
	}
	if _, err := p.claimOf(above); err != nil { // before a sibling is made for nobody
		return err
	}
	if err := record.CheckNote(text); err != nil {
		return memoryError("note", err)
	}
	if p, err = p.file.orAsThere().locate(); err != nil {
		return err
	}
	f, err := p.sibling.Make()
	if err != nil {
		return memoryError("note", err)
	}
	defer f.Close()
	holder, err := p.claimOf(above)
	if err != nil {
		return err
	}
	return memoryError("note", record.Note(f, *holder, text, time.Now()))
}

// findAbove finds a lock among those of the processes above.
func findAbove(path string) (held, error) {
	all := parseHeld(os.Getenv(heldVar))
	if path == "" {
		if len(all) == 0 {
			return held{}, fmt.Errorf("%w: this process was not started under a lock: %s names none", ErrInvalidName, heldVar)
		}
		// A session may have ended since, with a lock around it that is still held.
		for _, above := range slices.Backward(all) {
			if p, err := (File{Path: above.Path}).locate(); err == nil {
				if _, err = p.claimOf(above); !errors.Is(err, ErrLost) {
					return above, nil
				}
			}
		}
		return all[len(all)-1], nil
	}
	at, err := absolute(path)
	if err != nil {
		return held{}, fail.At("resolve", path, err)
	}
	for _, above := range slices.Backward(all) {
		if above.Path == at {
			return above, nil
		}
	}
	return held{}, fmt.Errorf("%w: this process was not started under %s: %s does not name it", ErrInvalidName, path, heldVar)
}

// claimOf returns the claim in the lock file, if that is still a holder's above.
func (p *place) claimOf(above held) (*evidence.Claim, error) {
	f, err := p.Look(p.file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail.At("note", p.file.Path, ErrLost)
	} else if err != nil {
		return nil, fail.At("note", p.file.Path, err)
	}
	defer f.Close()
	switch {
	case f.Claim == nil, f.Claim.Nonce == "", f.Claim.Nonce != above.Nonce:
		return nil, fail.At("note", p.file.Path, ErrLost)
	case f.IsShared():
		return nil, fail.At("note", p.file.Path, fmt.Errorf("readers have none: %w", errors.ErrUnsupported))
	}
	return &f.Claim.Claim, nil
}
