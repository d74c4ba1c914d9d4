package command

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/spf13/cobra"
)

// statusCommand names the holder of a lock, and says whether it lives. The exit code answers as
// much as the text, so that a script need not read it.
func (a *app) statusCommand(parent *cobra.Command) {
	var asJSON *bool
	var e *engines
	c := a.command(parent, "status", func(_ *cobra.Command, args []string) (int, error) {
		name, err := oneLock(args, e)
		if err != nil {
			return 0, err
		}
		at, leave, err := e.open(lock.File{Cmd: "holdfast status"})
		if err != nil {
			return 0, err
		}
		defer leave()
		status, err := at.inspect(context.Background(), name)
		if err != nil {
			return 0, err
		}
		out, _ := at.permits(context.Background(), name) // as far as can be seen
		status = asWhole(status, out)
		if *asJSON {
			return stateCode(status.State), writeJSON(a.stdout, withPermits{status, out})
		}
		fmt.Fprintf(a.stdout, "%s: %s\n", visible(status.Path), status.State)
		at.words().describe(a.stdout, status)
		at.words().describePermits(a.stdout, out)
		return stateCode(status.State), nil
	})
	asJSON = jsonFlag(c)
	e = engineFlags(c)
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
