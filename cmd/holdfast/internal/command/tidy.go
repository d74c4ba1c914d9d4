package command

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/spf13/cobra"
)

// tidyCommand removes what locks have left below a folder.
func (a *app) tidyCommand(parent *cobra.Command) {
	var how lock.Tidying
	var asJSON *bool
	c := a.command(parent, "tidy", func(c *cobra.Command, args []string) (int, error) {
		dir, err := oneOf(args, "DIR", ".")
		if err == nil {
			dir, err = folder(dir)
		}
		if err != nil {
			return 0, err
		}
		if c.Flags().Changed("older") {
			how.OlderThan = max(how.OlderThan, time.Nanosecond) // where 0 means the default
		}
		// One file that can't be read must not keep the others.
		failed, removed, left := 0, 0, 0
		for file, err := range lock.Tidy(context.Background(), dir, how) {
			outcome := "left"
			switch {
			case err != nil:
				a.fail(err)
				failed++
				continue
			case !file.Needless:
				left++
			case file.Removed:
				outcome = "removed"
				removed++
			default:
				outcome = "would remove"
				removed++
			}
			if *asJSON {
				err = writeJSON(a.stdout, file)
			} else {
				_, err = fmt.Fprintf(a.stdout, "%-12s  %s: %s\n", outcome, visible(file.Path), visible(file.Why))
			}
			if err != nil {
				return 0, err
			}
		}
		if !*asJSON {
			verb := map[bool]string{false: "removed", true: "would be removed"}[how.DryRun]
			fmt.Fprintf(a.stdout, "%d %s, %d left%s\n", removed, verb, left, notRead(failed))
		}
		return min(failed, exitError), nil
	})
	durationFlag(c.Flags(), &how.OlderThan, "older", "", "only what was written more than `D` ago")
	c.Flags().BoolVarP(&how.DryRun, "dry-run", "n", false, "remove nothing, and say what would be")
	asJSON = jsonFlag(c)
}

func notRead(failed int) string {
	if failed == 0 {
		return ""
	}
	return fmt.Sprintf("; %d not read", failed)
}
