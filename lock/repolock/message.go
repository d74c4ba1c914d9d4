package repolock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// UserMessage explains to the user of a program why it did not get a lock: the lock, how long
// the wait was, its holder and since when, and three things to try. It is for the locks of all
// engines: an ErrLocked wraps such an error. prefix is the program's for settings.FromEnv; empty
// if it has none. The words are those of jit, an issue tracker for agents.
func UserMessage(e *lock.LockedError, prefix string) string {
	var b strings.Builder
	if errors.Is(e, lock.ErrTimeout) {
		waited := e.Waited.Round(100 * time.Millisecond)
		if e.Waited < time.Second {
			waited = e.Waited.Round(time.Millisecond)
		}
		fmt.Fprintf(&b, "Lock timeout: could not acquire lock on %s after %s\n\n", e.Path, waited)
	} else {
		fmt.Fprintf(&b, "Locked: could not acquire lock on %s\n\n", e.Path)
	}
	is, command := "is", "holdfast status "+e.Path
	if e.State == evidence.Unknown {
		is = "may be"
	}
	switch who := e.Who(); {
	case e.Gone != nil:
		fmt.Fprintf(&b, "%s%s.\n", strings.ToUpper(who[:1]), who[1:])
		if len(e.Processes) > 0 {
			var pids []string
			for _, p := range e.Processes[:min(len(e.Processes), maxPIDs)] {
				pids = append(pids, strconv.Itoa(p.PID))
			}
			command = fmt.Sprintf("ps -p %s, or: %s", strings.Join(pids, ","), command)
		}
	case who != "":
		fmt.Fprintf(&b, "It %s held by %s: %s.\n", is, who, e.Evidence)
		if e.Info != nil && !e.Shared && e.State == evidence.Held {
			command = fmt.Sprintf("ps -p %d, or: %s", e.Info.PID, command)
		}
	default:
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

// maxPIDs is how many processes a message names.
const maxPIDs = 8
