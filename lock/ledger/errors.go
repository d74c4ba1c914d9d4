package ledger

import (
	"errors"
	"fmt"
)

// Errors that appending returns.
var (
	// ErrSequenceMismatch is matched by the *SequenceError that
	// AppendIfSequence returns when somebody has appended since.
	ErrSequenceMismatch = errors.New("the ledger has moved on")

	// ErrInvalidEvent is returned for an event that is empty, larger than
	// MaxEvent, or not JSON. Nothing has been written.
	ErrInvalidEvent = errors.New("invalid event")

	// ErrUnfinished is returned when several events were to be appended together, and
	// something failed too late to undo it: the next writer finishes what was begun.
	ErrUnfinished = errors.New("the batch is decided, and not finished yet")
)

// ErrPrefix is returned when all events in a folder have another prefix than the ledger's:
// a folder has one ledger. Nothing has been written.
var ErrPrefix = errors.New("a folder has one ledger, and its events one prefix")

// ErrDamaged is matched by every error about the contents of a ledger: an event
// that is missing, empty, truncated or too large, or a file that is none of the
// ledger's. The message names the file.
var ErrDamaged = errors.New("the ledger is damaged")

// ErrAlien is matched, beside ErrDamaged, by errors about a file that is certainly none of
// the ledger's events: its name is unlike theirs. It does no harm.
var ErrAlien = errors.New("not the ledger's")

// SequenceError says where the ledger is, and where it was expected to be. It
// matches ErrSequenceMismatch.
type SequenceError struct {
	Folder           string
	Expected, Actual int64
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("ledger: %s is at sequence %d, not %d: somebody has appended; read on, decide anew, and try again",
		e.Folder, e.Actual, e.Expected)
}

// Is makes the error match ErrSequenceMismatch.
func (e *SequenceError) Is(target error) bool { return target == ErrSequenceMismatch }

// alienError is about one file. It matches ErrAlien and ErrDamaged.
type alienError struct{ path string }

func (e *alienError) Error() string {
	return fmt.Sprintf("ledger: %s: is none of the ledger's files; it does no harm, and may be moved away", e.path)
}

func (e *alienError) Is(target error) bool { return target == ErrAlien || target == ErrDamaged }

func damaged(path, what string) error {
	return fmt.Errorf("ledger: %s: %s: %w", path, what, ErrDamaged)
}
