package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
	"github.com/spf13/cobra"
)

func (a *app) ledgerVerifyCommand(parent *cobra.Command) {
	var asJSON *bool
	c := a.ledgerCommand(parent, "ledger verify", false, func(l ledger.Ledger, dir string, rest []string) (int, error) {
		if len(rest) > 0 {
			return 0, misused("one DIR is wanted, not %d", 1+len(rest))
		}
		p := a.progress(l)
		events, wrong, harmless := 0, 0, 0
		for problem, err := range (&claims.Manager{Dir: dir, Ledger: l}).Verify(func(e ledger.Event) {
			events++
			p.at(e.Sequence)
		}) {
			p.clear()
			switch {
			case err != nil:
				return 0, err
			case problem.Harmless():
				harmless++
			default:
				wrong++
			}
			if *asJSON {
				err = writeJSON(a.stdout, problem)
			} else {
				_, err = fmt.Fprintf(a.stdout, "%s: %s\n  next: %s\n", visible(problem.Path), visible(problem.What), visible(problem.Next))
			}
			if err != nil {
				return 0, err
			}
		}
		p.clear()
		code := exitOK
		if wrong > 0 {
			code = exitDamaged
		}
		if *asJSON {
			return code, nil
		}
		_, err := fmt.Fprintf(a.stdout, "events that are whole: %d; problems: %d; files that do no harm: %d\n", events, wrong, harmless)
		return code, err
	})
	unbuffer(c)
	asJSON = jsonFlag(c)
}

func (a *app) ledgerExport(l ledger.Ledger, after int64) (int, error) {
	p := a.progress(l)
	defer p.clear()
	if isTerminal(os.Stdout) {
		p.terminal = nil // the events themselves show it
	}
	for event, err := range l.Events(after) {
		switch {
		case errors.Is(err, ledger.ErrAlien):
			continue
		case errors.Is(err, ledger.ErrDamaged): // a copy must not seem to be whole
			p.clear()
			a.say(oneLine(err))
			a.more("nothing behind that is exported; \"holdfast ledger verify\" says what to do")
			return exitDamaged, nil
		case err == nil:
			err = writeJSON(a.stdout, json.RawMessage(event.Data))
		}
		if err != nil {
			return 0, err
		}
		p.at(event.Sequence)
	}
	return exitOK, nil
}

// progress tells a person at a terminal how far a command is that reads a whole ledger.
type progress struct {
	terminal io.Writer // nil if there is none
	head     int64
	next     time.Time // when to tell again
	shown    bool
	now      func() time.Time
}

// progressEvery is also how long a command is quiet at first.
const progressEvery = time.Second

func (a *app) progress(l ledger.Ledger) *progress {
	p := &progress{now: time.Now}
	if f, ok := a.stderr.(*os.File); ok && isTerminal(f) {
		p.terminal = f
	}
	p.head, _ = l.Sequence() // without it, the command will say what is wrong
	p.next = p.now().Add(progressEvery)
	return p
}

// isTerminal takes some other devices for one, which does no harm.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// at tells that event n is done.
func (p *progress) at(n int64) {
	if p.terminal == nil || p.now().Before(p.next) {
		return
	}
	p.next, p.shown = p.now().Add(progressEvery), true
	fmt.Fprintf(p.terminal, "\rholdfast: event %d of %d", n, max(n, p.head))
}

// clear takes the line away, for other words.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.terminal, "\r\x1b[K")
		p.shown = false
	}
}
