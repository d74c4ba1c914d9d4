package command

import (
	"errors"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/spf13/cobra"
)

// noteCommand says at which step the command is that holdfast run has started.
func (a *app) noteCommand(parent *cobra.Command) {
	var path string
	c := a.command(parent, "note", func(_ *cobra.Command, args []string) (int, error) {
		if len(args) != 1 {
			return 0, misused("one TEXT is wanted, not %d; quote it", len(args))
		}
		err := lock.NoteAbove(path, args[0])
		if errors.Is(err, lock.ErrLost) {
			a.say("no longer held: nothing was noted: " + oneLine(err))
			return exitLost, nil
		}
		return exitOK, err
	})
	c.Flags().StringVar(&path, "lock", "", "of this `LOCK`, of those in HOLDFAST_HELD")
}
