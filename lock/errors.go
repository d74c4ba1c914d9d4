package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Errors that acquiring returns.
var (
	// ErrTimeout is matched by the error of an Acquire whose context's deadline passed
	// while it waited: an *ErrLocked, unless nobody was in the way by then.
	ErrTimeout = errors.New("timed out waiting for the lock")

	// ErrReentrant is matched by the *ErrLocked for a lock that the caller's own context
	// holds, or a process from which the caller's comes (see FileHold.Environ): waiting
	// for it would never end.
	ErrReentrant = errors.New("the caller holds this lock already")

	// ErrUnsupported is returned when File.RequireKernelLock is set and the
	// kernel can't prove here whether a holder lives, and by FileHold.Attach where
	// children can't hold a lock too. The message names the filesystem. It matches
	// errors.ErrUnsupported.
	ErrUnsupported = fmt.Errorf("no trustworthy kernel lock: %w", errors.ErrUnsupported)

	// ErrInvalidName is returned for a path, an id or a text that can't be
	// used for a lock. Nothing has been written.
	ErrInvalidName = errors.New("invalid name")
)

// Errors that holding and releasing return.
var (
	// ErrLost is matched by the error of Release, and by the cause of a hold's context,
	// when the lock is no longer the holder's. Someone has removed or replaced the lock
	// file that the holder made (what is there now is left alone), or the database's
	// session has ended.
	ErrLost = errors.New("lock lost: it is no longer ours")
)

// errReleased is the error of calls that need a lock which was released.
var errReleased = errors.New("the lock was released")

// Signals between the steps of an acquisition, compared by identity.
var (
	// errMoved says that a path leads elsewhere by now, so that the caller must look again.
	errMoved = errors.New("the file at the path is another one by now")
	// errQueued says that someone has the turnstile: they wait, or are on their way in.
	errQueued = errors.New("turnstile is taken")
)

// ErrLocked is returned, as a pointer, for contention and for nothing else: somebody has
// the lock, or may have it. It is a type, and not a value to compare with:
//
//	var locked *lock.ErrLocked
//	if errors.As(err, &locked) {
//		log.Print(locked.Info) // the holder, if it is known
//	}
type ErrLocked struct {
	// RepoID is set by RepoLock.
	RepoID string
	// Info is the holder's claim; nil if there is none, or it is unreadable.
	Info *LockInfo
	// Path is the lock file, absolute; the lock's key where there is no file.
	Path string

	// Gone is the claim of a holder who has gone, and whose processes still have the lock
	// (see FileHold.Attach). They are Processes, as far as they can be seen.
	Gone *LockInfo

	// Note is what the holder, or the one who has gone, last said of its work (see
	// FileHold.Note), and NotedAt when.
	Note    string
	NotedAt time.Time

	// Shared says that readers have the lock. Processes are the holders, each reader one,
	// as far as the kernel's list (Linux) tells. For an exclusive holder it is set only if
	// Info is nil.
	Shared    bool
	Processes []Process

	// State is StateHeld or StateUnknown, and Evidence says why.
	State    State
	Evidence Evidence

	// Advice says how to look at the holder, and what can be done, where that is no
	// process of this machine. Engines set it; it is empty for lock files.
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
func (e *ErrLocked) Unwrap() error { return e.Cause }

// Error says what is locked, by whom, since when, on what evidence, and what can be
// done.
func (e *ErrLocked) Error() string {
	var b strings.Builder
	b.WriteString("locked: ")
	b.WriteString(e.Path)
	if e.RepoID != "" {
		fmt.Fprintf(&b, " (repo %q)", e.RepoID)
	}
	b.WriteString(e.isHeld())
	if e.Gone != nil {
		b.WriteString(": ")
		b.WriteString(e.heirs())
	} else if who := e.who(); who != "" {
		b.WriteString(" by ")
		b.WriteString(who)
	}
	if e.Note != "" {
		fmt.Fprintf(&b, ", at %q", e.Note)
	}
	fmt.Fprintf(&b, ": %s", e.Evidence)
	switch {
	case errors.Is(e.Cause, ErrReentrant):
		fmt.Fprintf(&b, "; %v", e.Cause)
		return b.String()
	case e.Cause != nil:
		fmt.Fprintf(&b, "; gave up after %s: %v", roundForPeople(e.Waited), e.Cause)
	}
	hint := e.Evidence.hint()
	switch {
	case e.Evidence != EvidenceKernelLockHeld:
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

// isHeld says how certain it is that somebody has the lock.
func (e *ErrLocked) isHeld() string {
	if e.State == StateUnknown {
		return " may be held"
	}
	return " is held"
}

// who names the holders; "" if they are not known.
func (e *ErrLocked) who() string {
	switch {
	case e.Shared && len(e.Processes) > 1:
		return fmt.Sprintf("%d readers, by the kernel's list: %s", len(e.Processes), pidsOf(e.Processes))
	case e.Info != nil && e.Shared:
		return "readers, one of them " + e.Info.describe(e.now)
	case e.Info != nil:
		return e.Info.describe(e.now)
	case len(e.Processes) > 0 && e.Shared:
		return "a reader, by the kernel's list: " + pidsOf(e.Processes)
	case len(e.Processes) > 0:
		return pidsOf(e.Processes) + ", by the kernel's list"
	case e.Shared:
		return "readers"
	}
	return ""
}

// heirs says whose processes have the lock, and which.
func (e *ErrLocked) heirs() string {
	who := fmt.Sprintf("pid %d", e.Gone.PID)
	if e.Gone.Cmd != "" {
		who += fmt.Sprintf(", %q", e.Gone.Cmd)
	}
	if len(e.Processes) == 0 {
		return fmt.Sprintf("holder (%s) has gone; processes that it started still have the lock, and can't be seen from here", who)
	}
	if len(e.Processes) == 1 {
		return fmt.Sprintf("holder (%s) has gone; its process %s still has the lock", who, named(e.Processes, ""))
	}
	return fmt.Sprintf("holder (%s) has gone; its processes %s still have the lock", who, named(e.Processes, ""))
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

// UserMessage explains a failed wait to the user of a program: the lock, how long the wait
// was, who holds it and since when, and three things to try. prefix is the program's for
// settings.FromEnv; empty if it has none. The words are those of jit, an issue tracker for
// agents.
func (e *ErrLocked) UserMessage(prefix string) string {
	var b strings.Builder
	if errors.Is(e, ErrTimeout) {
		fmt.Fprintf(&b, "Lock timeout: could not acquire lock on %s after %s\n\n", e.Path, roundForPeople(e.Waited))
	} else {
		fmt.Fprintf(&b, "Locked: could not acquire lock on %s\n\n", e.Path)
	}
	command := "holdfast status " + e.Path
	if e.Gone != nil {
		text := e.heirs()
		fmt.Fprintf(&b, "%s%s.\n", strings.ToUpper(text[:1]), text[1:])
		if len(e.Processes) > 0 {
			var pids []string
			for _, q := range e.Processes[:min(len(e.Processes), maxPIDs)] {
				pids = append(pids, strconv.Itoa(q.PID))
			}
			command = fmt.Sprintf("ps -p %s, or: %s", strings.Join(pids, ","), command)
		}
	} else if who := e.who(); who != "" {
		fmt.Fprintf(&b, "It%s by %s: %s.\n", e.isHeld(), who, e.Evidence)
		if e.Info != nil && !e.Shared && e.State == StateHeld {
			command = fmt.Sprintf("ps -p %d, or: %s", e.Info.PID, command)
		}
	} else {
		fmt.Fprintf(&b, "Nobody is named in it: %s.\n", e.Evidence)
	}
	if e.Advice != "" {
		command = e.Advice
	}
	longer := "Wait longer"
	if prefix != "" {
		seconds := max(10, int(2*e.Waited/time.Second))
		longer = fmt.Sprintf("Increase the timeout: %s_LOCK_TIMEOUT=%d", prefix, seconds)
	}
	fmt.Fprintf(&b, "Try:\n  1. Wait a few seconds and retry\n  2. Check the holder: %s\n  3. %s\n", command, longer)
	return b.String()
}

// roundForPeople leaves out digits that nobody reads.
func roundForPeople(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
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
	if c.User != "" {
		fmt.Fprintf(&b, " as %q", c.User)
	}
	if c.OwnerPID != 0 {
		fmt.Fprintf(&b, ", session of pid %d,", c.OwnerPID)
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
	case EvidenceOthersWait:
		return "wait for it"
	case EvidenceKernelLockHeld, EvidenceSameProcess, EvidenceBeganBefore:
		return "wait for it, or end that process"
	case EvidenceNotALockFile:
		return "move away what is at that path, if it is not in use"
	case EvidenceNotPermitted:
		return "ask who owns the file, or root"
	case EvidenceUnreadable, EvidenceIncomplete:
		return "if no program is using the lock, remove the file"
	case EvidenceBeingReclaimed:
		return "try again; if no process is at work on the lock, remove that file"
	case EvidenceLeased:
		return "wait for that process, or end it"
	case EvidenceForeignHost, EvidenceForeignNamespace, EvidencePIDExists, EvidenceUnproven:
		return "if that holder is gone, remove the file"
	}
	return ""
}

// joined returns err with a second error, from the clean-up after it. Unlike errors.Join it
// leaves err as it is when there is no second one.
func joined(err, second error) error {
	switch {
	case second == nil:
		return err
	case err == nil:
		return second
	}
	return errors.Join(err, second)
}

// contextError is the error of ctx, with its cause if that is another.
func contextError(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func pathError(op, path string, err error) error {
	return fmt.Errorf("lock: %s %s: %w", op, path, err)
}
