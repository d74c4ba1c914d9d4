package command

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// breakSessions ends the sessions that have a lock, and asks before each; one that a nonce
// names, without asking. As for lock files, exit code 0 is for a lock that nobody has any
// more, and 75 for one that was left to somebody.
func (a *app) breakSessions(d *database, name, nonce string, asJSON bool) int {
	ctx := context.Background()
	before, sessions, err := d.look(ctx, name)
	if err != nil {
		return a.fail(err)
	}
	var ended []Session
	var failed error
	left := before.State != evidence.Free && len(sessions) == 0 // a prepared transaction, or one that has just come
	for _, s := range sessions {
		if !a.mayEnd(before, s, nonce, asJSON) {
			left = true
			continue
		}
		there, err := d.end(ctx, name, s)
		switch {
		case err != nil:
			failed = err
		case there:
			ended = append(ended, s)
		}
	}
	if !asJSON {
		a.sayEnded(before, ended)
	} else if code := a.print(sessionBreakage{breakage{before, len(ended) > 0}, ended}); code != exitOK {
		return code
	}
	switch {
	case failed != nil:
		a.fail(failed)
		a.more("the lock may still be held; look again: holdfast status -pg ...")
		return exitError
	case left:
		a.sayLeft(before, nonce)
		return exitNotHad
	case !asJSON && before.State == evidence.Free:
		fmt.Fprintln(a.stdout, visible(before.Path)+": free, nothing to end")
	case !asJSON && len(ended) == 0:
		fmt.Fprintln(a.stdout, visible(before.Path)+": nothing was ended, as who had it has let go of it by now")
	}
	return exitOK
}

// sessionBreakage is what break -json prints of a lock in a database.
type sessionBreakage struct {
	breakage
	Ended []Session `json:"ended,omitempty"`
}

// mayEnd reports whether to end a session. Without a nonce it asks, if somebody is there to
// answer.
func (a *app) mayEnd(before lock.Status, s Session, nonce string, asJSON bool) bool {
	switch {
	case s.nonce() == "": // the next one with its pid could not be told from it
		a.say(fmt.Sprintf("backend %d can't be ended, as this role may not see since when it is there; pg_read_all_stats would let it", s.PID))
		return false
	case nonce != "":
		return s.nonce() == nonce
	case asJSON:
		return false
	}
	path := visible(before.Path)
	a.say(path + " is held by a session, and all that it holds would end with it")
	line := func(name, text string) { a.more(fmt.Sprintf("%-9s %s", name, text)) }
	line("holder", databaseWords.who(s.info()))
	if before.Info != nil && before.Info.PID == s.PID {
		line("since", since(before.Info))
	}
	line("holds", locksOf(s))
	fmt.Fprintf(a.stderr, "End backend %d? [y/N] ", s.PID)
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

func (s Session) info() *evidence.Claim {
	return &evidence.Claim{PID: s.PID, Cmd: s.Cmd, Hostname: s.Host}
}

// locksOf counts what ends with a session.
func locksOf(s Session) string {
	if s.Locks == 1 {
		return "1 lock: this one"
	}
	return fmt.Sprintf("%d locks in this database, this one among them", s.Locks)
}

// sayLeft says why a lock was left to somebody, and what can be done.
func (a *app) sayLeft(before lock.Status, nonce string) {
	path := visible(before.Path)
	switch {
	case before.Evidence == evidence.Prepared:
		a.say(path + " was not broken: no session has it, so there is none to end")
	case nonce != "":
		a.say(path + " was not broken: -force names another session than has it now")
	default:
		a.say(path + " was not broken")
	}
	if a.answers == nil { // all has been said otherwise
		databaseWords.describe(a.stderr, before)
	}
	if before.Info == nil || before.Info.Nonce == "" {
		return
	}
	if name, ok := shellWord(before.Path); ok {
		a.more("without a question: holdfast break -pg ... -force " + before.Info.Nonce + " " + name)
	}
}

// sayEnded says what was ended: it can't be looked up any more.
func (a *app) sayEnded(before lock.Status, ended []Session) {
	for _, s := range ended {
		fmt.Fprintln(a.stdout, visible(before.Path)+": ended the session that had it")
		fmt.Fprintln(a.stdout, "  holder    "+databaseWords.who(s.info()))
		fmt.Fprintln(a.stdout, "  it held   "+locksOf(s))
	}
}
