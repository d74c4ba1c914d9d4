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

// fileError is what is wrong with one file, or that it is missing. It matches ErrDamaged.
type fileError struct {
	kind       ProblemKind
	path, what string
	next       string // what to do, where that depends on the file
}

func (e *fileError) Error() string {
	text := fmt.Sprintf("ledger: %s: %s", e.path, e.what)
	if e.next != "" {
		text += "; " + e.next
	}
	if e.kind != ProblemAlien {
		text += ": " + ErrDamaged.Error()
	}
	return text
}

func (e *fileError) Is(target error) bool {
	return target == ErrDamaged || target == ErrAlien && e.kind == ProblemAlien
}

func damaged(path, what string) error {
	return &fileError{kind: ProblemDamaged, path: path, what: what}
}
