package lock

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/platform"
)

// heldVar is the environment variable that names the locks of the processes above this one:
// JSON, an array of held, the outermost first.
const heldVar = "HOLDFAST_HELD"

// maxHeld bounds how many locks the variable names, the innermost: in an endless chain of
// processes each passes on the locks of all above it.
const maxHeld = 64

// errAbove is the cause of an error that is ErrReentrant because of a process above.
var errAbove = fmt.Errorf("%w, by way of a process from which it comes", ErrReentrant)

// held is a lock that a process above has, or had. It counts only if the lock file still has
// its nonce.
type held struct {
	Path  string `json:"path"` // absolute
	Nonce string `json:"nonce"`
	PID   int    `json:"pid"` // of the process above
}

// Environ returns env, an environment as os.Environ has it, for a process that is to know of
// this lock. Its HOLDFAST_HELD names the lock, beside those that env names already. As long as
// the lock is held, acquiring it in that process fails at once with ErrReentrant, as the
// process would wait for its own end. Attach does this by itself.
func (h *FileHold) Environ(env []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.environ(env)
}

// environ is Environ for a caller that has h.mu.
func (h *FileHold) environ(env []string) []string {
	h.named = true
	above, kept := []held{}, make([]string, 0, len(env)+1)
	for _, e := range env {
		if value, is := strings.CutPrefix(e, heldVar+"="); is {
			above = parseHeld(value) // the last one counts, as for package exec
		} else {
			kept = append(kept, e)
		}
	}
	above = slices.DeleteFunc(above, func(a held) bool { return a.Path == h.Path() })
	above = above[max(0, len(above)-maxHeld+1):]
	value, _ := json.Marshal(append(above, held{Path: h.Path(), Nonce: h.own.Claim.Nonce, PID: h.own.Claim.PID})) // texts and a number can't fail
	return append(kept, heldVar+"="+string(value))
}

// parseHeld reads the variable. A value that it can't understand names no lock.
func parseHeld(value string) (all []held) {
	if json.Unmarshal([]byte(value), &all) != nil {
		return nil
	}
	return all
}

// heldAbove returns a *LockedError that matches ErrReentrant if a process above has this very
// lock, or has died and left it to its children, this process among them. To wait for it would
// be to wait for ourselves. It returns nil if that is not certain.
//
// The nonce tells: each holding has its own. The readers of a lock file share one. So for
// readers the kernel's list must name the process above, or say that this one has the lock
// from it.
func (p *place) heldAbove() *LockedError {
	value := os.Getenv(heldVar)
	if value == "" {
		return nil
	}
	f, err := p.Look(p.file.Path)
	if err != nil {
		return nil
	}
	_ = f.Close()
	if f.Claim == nil || f.Claim.Nonce == "" {
		return nil
	}
	for _, above := range parseHeld(value) {
		if above.Nonce != f.Claim.Nonce {
			continue
		}
		locked := p.holder()
		is := func(pid int) bool {
			return slices.ContainsFunc(locked.Processes, func(p Process) bool { return p.PID == pid })
		}
		switch {
		case locked == nil:
		case locked.Shared && is(above.PID), locked.Info != nil && !locked.Shared && locked.Info.Nonce == above.Nonce:
			locked.Cause = fmt.Errorf("%w: pid %d has it", errAbove, above.PID)
			return locked
		case locked.Gone != nil && locked.Gone.Nonce == above.Nonce && is(platform.Self().PID),
			locked.Shared && p.inherits():
			locked.Cause = errAbove // a holder that has gone is not named
			return locked
		}
		return nil
	}
	return nil
}

// inherits reports whether this process has the lock file's lock from a process above.
func (p *place) inherits() bool {
	id, err := platform.IdentifyFile(p.file.Path)
	return err == nil && platform.Inherits(id)
}

// HeldAbove reports whether this process has the lock from a process above, exclusively: by
// the open file that Attach, or holdfast run, handed on. It may then work under that hold,
// also if the process above is killed. A release by the process above ends that, as it does
// for all of its children.
//
// It is false for a readers' lock, where children can't hold, and where that can't be told.
func (f File) HeldAbove() bool {
	p, err := f.locate()
	if err != nil {
		return false
	}
	found, err := p.Look(p.file.Path)
	if err != nil {
		return false
	}
	defer found.Close()
	// It does not matter whose claim it is. That we have the lock of the file at this path says
	// that its holder has not released it. A readers' claim is that of others, too.
	return found.Claim != nil && found.Claim.Ours && !found.IsShared() && p.inherits()
}
