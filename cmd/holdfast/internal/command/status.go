package command

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// status names the holder of a lock, and says whether it lives. The exit code answers as much
// as the text, so that a script need not read it.
func (a *app) status(args []string) int {
	flags := newFlags("status")
	asJSON := flags.Bool("json", false, "")
	conn := a.databaseFlag(flags)
	name, code, ok := a.parseOne(flags, args, "LOCK")
	if !ok {
		return code
	}
	at, leave, code, ok := a.where("status", *conn, lock.File{Cmd: "holdfast status"})
	if !ok {
		return code
	}
	defer leave()
	status, err := at.inspect(context.Background(), name)
	if err != nil {
		return a.fail(err)
	}
	out, _ := at.permits(context.Background(), name) // as far as can be seen
	status = asWhole(status, out)
	if *asJSON {
		if err := writeJSON(a.stdout, withPermits{status, out}); err != nil {
			return a.fail(err)
		}
	} else {
		fmt.Fprintf(a.stdout, "%s: %s\n", visible(status.Path), status.State)
		at.words().describe(a.stdout, status)
		at.words().describePermits(a.stdout, out)
	}
	return stateCode(status.State)
}

// withPermits is a lock with those of its permits that are held.
type withPermits struct {
	lock.Status
	Permits []permit `json:"permits,omitempty"`
}

// stateCode never is 1: that is for failures, which must not pass for an answer.
func stateCode(s evidence.State) int {
	switch s {
	case evidence.Free:
		return exitOK
	case evidence.Held:
		return exitHeld
	case evidence.Dead:
		return exitDead
	}
	return exitUnknown
}
