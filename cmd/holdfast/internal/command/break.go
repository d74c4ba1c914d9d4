package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/spf13/cobra"
)

// breaking is what a call of "holdfast break" asks for.
type breaking struct {
	name, nonce string
	json        *bool
}

// breakage is what break --json prints: the lock as it was found, as status --json has it, and
// what became of it.
type breakage struct {
	lock.Status
	Removed bool      `json:"removed"`
	Ended   []session `json:"ended,omitempty"`
}

// breakCommand removes the lock file of a dead holder, or of one that the caller answers for; of
// a server's lock it ends the session.
func (a *app) breakCommand(parent *cobra.Command) {
	var b breaking
	var e *engines
	c := a.command(parent, "break", func(c *cobra.Command, args []string) (_ int, err error) {
		if b.name, err = oneLock(args, e); err != nil {
			return 0, err
		}
		if c.Flags().Changed("force") && b.nonce == "" {
			return 0, misused("--force wants the nonce of the claim; \"holdfast status --json LOCK\" shows it")
		}
		if !e.inServer() {
			return a.breakFile(b)
		}
		d, err := e.connect("holdfast break")
		if err != nil {
			return 0, err
		}
		defer d.Close()
		return a.breakSessions(d, b)
	})
	c.Flags().StringVar(&b.nonce, "force", "", "of the holder with this `NONCE`, dead or alive")
	b.json = jsonFlag(c)
	e = engineFlags(c)
}

func (a *app) breakFile(b breaking) (int, error) {
	// StaleAfter stays at its default. So age alone never removes somebody's data that lies
	// at the path by mistake.
	file := lock.File{Path: b.name}
	var before lock.Status
	var err error
	if b.nonce != "" {
		before, err = file.BreakForce(context.Background(), b.nonce)
	} else {
		before, err = file.Break(context.Background())
	}
	var locked *lock.LockedError
	path := visible(before.Path)
	switch out, _ := (files{}).permits(context.Background(), b.name); {
	case errors.As(err, &locked):
		now := a.refused(file, locked, b.nonce != "")
		if *b.json {
			now.Fence = before.Fence
			return max(exitNotHad, a.print(breakage{Status: now})), nil
		}
		return exitNotHad, nil
	case err != nil:
		return 0, err
	case *b.json:
		return a.print(breakage{Status: before, Removed: before.State != evidence.Free}), nil
	case before.State != evidence.Free: // it can't be looked up any more
		fmt.Fprintf(a.stdout, "%s: removed the lock file\n  holder    %s\n  it was    %s: %s\n", path,
			fileWords.who(before.Info), before.State, visible(string(before.Evidence)))
	case len(out) > 0:
		fmt.Fprintln(a.stdout, path+": nothing to remove, but permits of it are held")
		fileWords.describePermits(a.stdout, out)
	default:
		fmt.Fprintln(a.stdout, path+": free, nothing to remove")
	}
	return exitOK, nil
}

// refused says why nothing was removed, and what can be done. It returns how the lock
// was found.
func (a *app) refused(file lock.File, locked *lock.LockedError, force bool) lock.Status {
	status := locked.Status
	path := visible(status.Path)
	if force && locked.Evidence == evidence.OtherNonce {
		a.say(path + " was not broken: its claim has another nonce than --force gives")
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
	// What --force is worth depends on what keeps the lock locked.
	if command := forceCommand(status); command != "" {
		if status.State == evidence.Held {
			a.more("          or, if it must be: " + command)
		}
		a.more("          --force removes the lock file of this one holder, and does not end that process. If it")
		a.more("          lives after all, it goes on, and two may come to work under one lock.")
	}
	return status
}

// breakSessions ends the sessions that have a lock, and asks before each; one that a nonce
// names, without asking. As for lock files, exit code 0 is for a lock that nobody has any
// more, and 75 for one that was left to somebody.
func (a *app) breakSessions(d *database, b breaking) (int, error) {
	ctx := context.Background()
	before, sessions, err := d.look(ctx, b.name)
	if err != nil {
		return 0, err
	}
	path := visible(before.Path)
	var ended []session
	var failed error
	left := before.State != evidence.Free && len(sessions) == 0 // a prepared transaction, or one that has just come
	for _, s := range sessions {
		if !a.mayEnd(d, before, s, b) {
			left = true
			continue
		}
		there, err := d.end(ctx, b.name, s)
		switch {
		case err != nil:
			failed = err
		case there:
			ended = append(ended, s)
			if !*b.json { // it can't be looked up any more
				fmt.Fprintf(a.stdout, "%s: ended the session that had it\n  holder    %s\n  it held   %s\n", path, d.words().who(s.info()), locksOf(s))
			}
		}
	}
	if *b.json {
		if code := a.print(breakage{before, len(ended) > 0, ended}); code != exitOK {
			return code, nil
		}
	}
	switch {
	case failed != nil:
		a.fail(failed)
		a.more("the lock may still be held; look again: holdfast status " + d.words().flag + " ...")
		return exitError, nil
	case left:
		a.sayLeft(d, before, b.nonce)
		return exitNotHad, nil
	case !*b.json && before.State == evidence.Free:
		fmt.Fprintln(a.stdout, path+": free, nothing to end")
	case !*b.json && len(ended) == 0:
		fmt.Fprintln(a.stdout, path+": nothing was ended, as who had it has let go of it by now")
	}
	return exitOK, nil
}

// mayEnd reports whether to end a session. Without a nonce it asks, if somebody is there to
// answer.
func (a *app) mayEnd(d *database, before lock.Status, s session, b breaking) bool {
	words := d.words()
	switch {
	case s.nonce == "": // the next one with its pid could not be told from it
		a.say(fmt.Sprintf("%s %d can't be ended, as this role may not see since when it is there; %s", words.process, s.PID, words.right))
		return false
	case b.nonce != "":
		return s.nonce == b.nonce
	case *b.json:
		return false
	}
	a.say(visible(before.Path) + " is held by a session, and all that it holds would end with it")
	line(a.stderr, "holder", words.who(s.info()))
	if before.Info != nil && before.Info.PID == s.PID {
		line(a.stderr, "since", moment(before.Info.CreatedAt))
	}
	line(a.stderr, "holds", locksOf(s))
	fmt.Fprintf(a.stderr, "End %s %d? [y/N] ", words.process, s.PID)
	if a.answers == nil {
		a.answers = bufio.NewReader(a.stdin)
	}
	answer, err := a.answers.ReadString('\n')
	if err != nil { // the line has no end of its own
		fmt.Fprintln(a.stderr)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

func (s session) info() *evidence.Claim {
	return &evidence.Claim{PID: s.PID, Cmd: s.Cmd, Hostname: s.Host}
}

// locksOf counts what ends with a session.
func locksOf(s session) string {
	if s.Locks == 1 {
		return "1 lock: this one"
	}
	return fmt.Sprintf("%d locks in this database, this one among them", s.Locks)
}

// sayLeft says why a lock was left to somebody, and what can be done.
func (a *app) sayLeft(d *database, before lock.Status, nonce string) {
	text := visible(before.Path) + " was not broken"
	switch {
	case before.Evidence == evidence.Prepared:
		text += ": no session has it, so there is none to end"
	case nonce != "":
		text += ": --force names another session than has it now"
	}
	a.say(text)
	if a.answers == nil { // all has been said otherwise
		d.words().describe(a.stderr, before)
	}
	if name, ok := shellWord(before.Path); ok && before.Info != nil && before.Info.Nonce != "" {
		a.more(fmt.Sprintf("without a question: holdfast break %s ... --force %s %s", d.words().flag, before.Info.Nonce, name))
	}
}
