package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// breakLock removes the lock file of a dead holder, or of one that the caller answers for.
func (a *app) breakLock(args []string) int {
	flags := newFlags("break")
	nonce := flags.String("force", "", "")
	asJSON := flags.Bool("json", false, "")
	conn := a.databaseFlag(flags)
	path, code, ok := a.parseOne(flags, args, "LOCK")
	if !ok {
		return code
	}
	force := isSet(flags, "force")
	if force && *nonce == "" {
		return a.misuse("break", "-force wants the nonce of the claim; \"holdfast status -json LOCK\" shows it")
	}
	if *conn != nil {
		d, code, ok := a.database("break", **conn, "holdfast break")
		if !ok {
			return code
		}
		defer d.Close()
		return a.breakSessions(d, path, *nonce, *asJSON)
	}
	// StaleAfter stays at its default. So age alone never removes somebody's data that lies
	// at the path by mistake.
	file := lock.File{Path: path}
	var before lock.Status
	var err error
	if force {
		before, err = file.BreakForce(context.Background(), *nonce)
	} else {
		before, err = file.Break(context.Background())
	}
	var locked *lock.LockedError
	switch {
	case errors.As(err, &locked):
		now := a.refused(file, locked, force)
		if *asJSON {
			now.Fence = before.Fence
			return max(exitNotHad, a.print(breakage{Status: now}))
		}
		return exitNotHad
	case err != nil:
		return a.fail(err)
	case *asJSON:
		return a.print(breakage{before, before.State != evidence.Free})
	}
	if out, _ := (files{}).permits(context.Background(), path); before.State == evidence.Free && len(out) > 0 {
		fmt.Fprintln(a.stdout, visible(before.Path)+": nothing to remove, but permits of it are held")
		fileWords.describePermits(a.stdout, out)
		return exitOK
	}
	a.broken(before)
	return exitOK
}

// breakage is what break -json prints: the lock as it was found, as status -json has it,
// and what became of it.
type breakage struct {
	lock.Status
	Removed bool `json:"removed"`
}

// broken says what has been removed: it can't be looked up any more.
func (a *app) broken(before lock.Status) {
	path := visible(before.Path)
	if before.State == evidence.Free {
		fmt.Fprintln(a.stdout, path+": free, nothing to remove")
		return
	}
	fmt.Fprintln(a.stdout, path+": removed the lock file")
	fmt.Fprintln(a.stdout, "  holder    "+fileWords.who(before.Info))
	fmt.Fprintln(a.stdout, "  it was    "+string(before.State)+": "+visible(string(before.Evidence)))
}

// refused says why nothing was removed, and what can be done. It returns how the lock
// was found.
func (a *app) refused(file lock.File, locked *lock.LockedError, force bool) lock.Status {
	status := locked.Status
	path := visible(status.Path)
	if force && locked.Evidence == evidence.OtherNonce {
		a.say(path + " was not broken: its claim has another nonce than -force gives")
		// The holder is another one by now, or the nonce was mistyped. Whether that holder
		// lives has not been said yet.
		if now, err := file.Inspect(context.Background()); err == nil {
			status = now
		}
		fileWords.describe(a.stderr, status)
		return status
	}
	a.say(path + " was not broken: its holder is not known to be dead")
	fileWords.describe(a.stderr, status)
	// What -force is worth depends on what keeps the lock locked.
	switch command := forceCommand(status); {
	case command == "":
	default:
		if status.State == evidence.Held {
			a.more("          or, if it must be: " + command)
		}
		a.more("          -force removes the lock file of this one holder, and does not end that process. If it")
		a.more("          lives after all, it goes on, and two may come to work under one lock.")
	}
	return status
}
