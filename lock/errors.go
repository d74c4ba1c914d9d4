package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that acquiring returns.
var (
	// ErrTimeout is matched by the *ErrLocked that Acquire returns when the
	// context's deadline passed while it waited.
	ErrTimeout = errors.New("timed out waiting for the lock")

	// ErrUnsupported is returned when File.RequireKernelLock is set and the
	// kernel can't prove here whether a holder lives. The message names the
	// filesystem. It matches errors.ErrUnsupported.
	ErrUnsupported = fmt.Errorf("no trustworthy kernel lock: %w", errors.ErrUnsupported)

	// ErrInvalidName is returned for a path, an id or a text that can't be
	// used for a lock. Nothing has been written.
	ErrInvalidName = errors.New("invalid name")
)

// Errors that holding and releasing return.
var (
	// ErrLost is returned by Release, and is the cause of a Held's context, when
	// the lock file is no longer the one that the holder made. Someone removed
	// or took it; it has been left alone.
	ErrLost = errors.New("lock lost: the lock file is no longer ours")
)

// ErrLocked is returned, as a pointer, when somebody else has the lock, or may
// have: for contention, and for nothing else.
type ErrLocked struct {
	// RepoID is set by RepoLock.
	RepoID string
	// Info is the holder's claim; nil if there is none, or it is unreadable.
	Info *LockInfo
	// Path is the lock file, absolute.
	Path string

	// Verdict is Alive or Unknown, and Evidence says why.
	Verdict  Verdict
	Evidence Evidence

	// cause is why the wait ended; nil if there was none.
	cause error
	// now is the time by which ages in the message are counted.
	now time.Time
}

// Unwrap returns the reason for which a wait ended, so that errors.Is finds
// ErrTimeout, context.DeadlineExceeded or context.Canceled.
func (e *ErrLocked) Unwrap() error { return e.cause }

// Error says what is locked, by whom, since when, why the holder is believed to
// be alive, and what can be done.
func (e *ErrLocked) Error() string {
	var b strings.Builder
	b.WriteString("locked: ")
	b.WriteString(e.Path)
	if e.RepoID != "" {
		fmt.Fprintf(&b, " (repo %q)", e.RepoID)
	}
	if e.Info != nil {
		fmt.Fprintf(&b, " is held by %s", e.Info.describe(e.now))
	} else {
		b.WriteString(" is held")
	}
	fmt.Fprintf(&b, "; %s: %s", e.Verdict, e.Evidence)
	if e.cause != nil {
		fmt.Fprintf(&b, "; gave up: %v", e.cause)
	}
	if hint := e.Evidence.hint(); hint != "" {
		fmt.Fprintf(&b, "; %s", hint)
	}
	return b.String()
}

// describe gives a holder in words: who, what, where, since when.
func (c *LockInfo) describe(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pid %d", c.PID)
	if c.Cmd != "" {
		fmt.Fprintf(&b, " (%q)", c.Cmd)
	}
	if c.Hostname != "" {
		fmt.Fprintf(&b, " on %q", c.Hostname)
	}
	fmt.Fprintf(&b, " since %s", c.CreatedAt.Format(time.RFC3339))
	if age := now.Sub(c.CreatedAt); age >= 0 && !now.IsZero() {
		fmt.Fprintf(&b, ", %s ago", age.Round(time.Second))
	}
	return b.String()
}

// hint says what a person can do about a lock that this evidence keeps locked.
func (e Evidence) hint() string {
	switch e {
	case KernelLockHeld, SameProcess:
		return "wait for it, or end that process"
	case NotALockFile:
		return "move away what is at that path, if it is not in use"
	case Unreadable, Incomplete:
		return "if no program is using the lock, remove the file"
	case ForeignHost, ForeignNamespace, PIDExists, Unproven:
		return "if that holder is gone, remove the file"
	}
	return ""
}

func pathError(op, path string, err error) error {
	return fmt.Errorf("lock: %s %s: %w", op, path, err)
}
