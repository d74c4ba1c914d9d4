package command

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
)

const tidySynopsis = "holdfast tidy [-older D] [-n] [-json] DIR"

const tidyHelp = `Removes, below a folder, what locks have left there and nobody needs any more:

  LOCK.flock     the queue of a lock that nobody has, waits for, or has open
  LOCK           the lock file of a holder that is proven dead; age proves nothing here
  LOCK.reclaim   and what else dead processes have left beside a lock

It is safe at any time, beside any number of users: a process that comes later makes
the file anew. Each file is named, with what became of it and why. A file that does not
show that holdfast made it stays. Symbolic links below DIR are not followed.

  -older D   only what was written more than D ago (90s, 10m, 24h). A LOCK.flock with a
             fence in it goes only if that was given more than D ago, or a day
             without -older: the next fence goes on from the time of day, and only a
             clock that is set back by more could rewind it
  -n         remove nothing, and say what would be
  -json      one line for each file: {"path", "needless", "removed", "why"}

exit codes:
  0    done; what is in use, or may be, has been left
  64   wrong use
  1    something could not be read or removed, or DIR is not there

examples:
  holdfast tidy -n .
  holdfast tidy -older 24h data
`

// tidy removes what locks have left below a folder.
func (a *app) tidy(args []string) int {
	flags := newFlags("tidy")
	var how lock.Tidying
	duration(flags, &how.OlderThan, "older")
	flags.BoolVar(&how.DryRun, "n", false, "")
	asJSON := flags.Bool("json", false, "")
	dir, code, ok := a.parseOne(flags, args, "DIR")
	if !ok {
		return code
	}
	dir, err := folder(dir)
	if err != nil {
		return a.fail(err)
	}
	// One file that can't be read must not keep the others.
	failed, removed, left := 0, 0, 0
	for file, err := range lock.Tidy(context.Background(), dir, how) {
		switch {
		case err != nil:
			a.fail(err)
			failed++
			continue
		case file.Needless:
			removed++
		default:
			left++
		}
		if *asJSON {
			err = writeJSON(a.stdout, file)
		} else {
			_, err = fmt.Fprintf(a.stdout, "%-12s  %s: %s\n", outcome(file), visible(file.Path), visible(file.Why))
		}
		if err != nil {
			return a.fail(err)
		}
	}
	if !*asJSON {
		verb := map[bool]string{false: "removed", true: "would be removed"}[how.DryRun]
		fmt.Fprintf(a.stdout, "%d %s, %d left", removed, verb, left)
		if failed > 0 {
			fmt.Fprintf(a.stdout, "; %d not read", failed)
		}
		fmt.Fprintln(a.stdout)
	}
	if failed > 0 {
		return exitError
	}
	return exitOK
}

func outcome(file lock.Tidied) string {
	switch {
	case file.Removed:
		return "removed"
	case file.Needless:
		return "would remove"
	}
	return "left"
}
