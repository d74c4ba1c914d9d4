package lock

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
)

// Errors that acquiring returns.
var (
	// ErrTimeout is matched by the error of an Acquire whose context's deadline passed
	// while it waited: a *LockedError, unless nobody was in the way by then.
	ErrTimeout = errors.New("timed out waiting for the lock")

	// ErrReentrant is matched by the *LockedError for a lock that the caller's own context holds,
	// or a process above the caller's (see FileHold.Environ): waiting for it would never end.
	ErrReentrant = errors.New("the caller holds this lock already")

	// ErrInvalidName is returned for a path, an id or a text that can't be
	// used for a lock. Nothing has been written.
	ErrInvalidName = lockfile.ErrInvalidName
)

// Errors that holding and releasing return.
var (
	// ErrLost is matched by the error of Release, and by the cause of a hold's context, when the
	// lock is no longer the holder's. Somebody has removed or replaced the lock file that the
	// holder made (what is there now is left alone), or the database's session has ended.
	ErrLost = lockfile.ErrLost
)

// errReleased is the error of calls that need a lock which was released.
var errReleased = errors.New("the lock was released")

// errMoved says that a path leads elsewhere by now, so that the caller must look again.
var errMoved = lockfile.ErrMoved

// A LockedError is returned, as a pointer, for contention and for nothing else: somebody has
// the lock, or may have it. Its Status names the holder, and says how that is known; State is
// evidence.Held or evidence.Unknown.
//
//	var locked *lock.LockedError
//	if errors.As(err, &locked) {
//		log.Print(locked.Info) // the holder, if it is known
//	}
type LockedError struct {
	Status

	// Advice says how to look at the holder, and what can be done, where the holder is no process
	// of this machine. Engines set it; it is empty for lock files.
	Advice string
	// Waited is how long Acquire waited before it gave up; 0 if it did not wait.
	Waited time.Duration
	// Cause is why a wait ended, or was not begun; nil if there was none.
	Cause error
	// now is the time by which ages in the message are counted.
	now time.Time
}

// Unwrap returns Cause, so that errors.Is finds ErrTimeout, context.DeadlineExceeded,
// context.Canceled or ErrReentrant.
func (e *LockedError) Unwrap() error { return e.Cause }

// Error says what is locked, by whom, since when, on what evidence, and what can be done.
func (e *LockedError) Error() string {
	var b strings.Builder
	b.WriteString("locked: ")
	b.WriteString(e.line(e.now))
	switch {
	case errors.Is(e.Cause, ErrReentrant):
		fmt.Fprintf(&b, "; %v", e.Cause)
		return b.String()
	case e.Cause != nil:
		fmt.Fprintf(&b, "; gave up after %s: %v", roundForPeople(e.Waited), e.Cause)
	}
	hint := e.Evidence.Hint()
	switch {
	case e.Evidence != evidence.KernelLockHeld:
	case len(e.Processes) == 1 && e.Processes[0].Stopped:
		hint = fmt.Sprintf("have it go on (kill -CONT %d), or end it", e.Processes[0].PID)
	case e.Gone != nil && len(e.Processes) > 1:
		hint = "wait for them, or end them"
	case e.Gone != nil && len(e.Processes) == 1:
		hint = "wait for it, or end it"
	case e.Shared || e.Info == nil && len(e.Processes) == 0:
		hint = "wait for it"
	}
	if e.Advice != "" {
		hint = e.Advice
	}
	if hint != "" {
		fmt.Fprintf(&b, "; %s", hint)
	}
	return b.String()
}

// maxPIDs is how many processes a message names.
const maxPIDs = 8

func pidsOf(processes []Process) string { return named(processes, "pid ") }

func named(processes []Process, prefix string) string {
	var names []string
	for _, p := range processes[:min(len(processes), maxPIDs)] {
		name := prefix + strconv.Itoa(p.PID)
		switch {
		case p.Cmd != "" && p.Stopped:
			name += fmt.Sprintf(" (%q, stopped)", p.Cmd)
		case p.Cmd != "":
			name += fmt.Sprintf(" (%q)", p.Cmd)
		case p.Stopped:
			name += " (stopped)"
		}
		names = append(names, name)
	}
	if more := len(processes) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// LogValue is the message: what an error is in a log, though its Status has a group.
func (e *LockedError) LogValue() slog.Value { return slog.StringValue(e.Error()) }

// Who names, for people, those who have the lock: the holder, and since when; readers; or, in a
// sentence, a holder that has gone, and its processes. "" means that nobody is known.
func (e *LockedError) Who() string {
	if e.Gone != nil {
		return e.heirs()
	}
	return e.who(e.now)
}

// roundForPeople leaves out digits that nobody reads.
func roundForPeople(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
