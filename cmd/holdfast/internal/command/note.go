package command

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
)

// note says at which step the command is that holdfast run has started.
func (a *app) note(args []string) int {
	flags := newFlags("note")
	path := flags.String("lock", "", "")
	if code, ok := a.parse(flags, args); !ok {
		return code
	}
	if flags.NArg() != 1 {
		return a.misuse("note", fmt.Sprintf("one TEXT is wanted, not %d; quote it", flags.NArg()))
	}
	err := lock.NoteAbove(*path, flags.Arg(0))
	if errors.Is(err, lock.ErrLost) {
		a.say("no longer held: nothing was noted: " + oneLine(err))
		return exitLost
	} else if err != nil {
		return a.fail(err)
	}
	return exitOK
}

const noteSynopsis = "holdfast note [-lock LOCK] TEXT"

const noteHelp = `Says, from a command that holdfast run has started, or from one below it, at which step
its work is. Others see the last note beside the holder in status, list, the page, and
when they wait; whoever has the lock next finds it in HOLDFAST_PREDECESSOR, also if the
command was killed. It takes TEXT of up to 1 KiB.

  -lock LOCK   the note of this lock, of those in HOLDFAST_HELD; the innermost held without
               it, which of several locks of one run is the last line of HOLDFAST_LOCK

exit codes:
  0    noted
  64   wrong use, such as a lock that is not held above, or a text that is too long
  118  the lock is no longer held by the process above; nothing was noted
  1    anything else that went wrong, such as a readers' lock, which has no note

example:
  holdfast run deploy.lock -- sh -c 'holdfast note "1 of 2: load" && ./load --fence "$HOLDFAST_FENCE" && holdfast note "2 of 2: check" && ./check'
`
