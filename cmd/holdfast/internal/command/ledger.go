package command

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/ledger"
	"github.com/spf13/cobra"
)

// ledgerCommand makes a command about the ledger in a folder, its first argument, with the flags
// that say which ledger is meant, and, if it writes, how to write to it.
func (a *app) ledgerCommand(parent *cobra.Command, name string, writes bool, run func(l ledger.Ledger, dir string, rest []string) (int, error)) *cobra.Command {
	var l ledger.Ledger
	c := a.command(parent, name, func(c *cobra.Command, args []string) (_ int, err error) {
		if len(args) == 0 {
			return 0, misused("DIR is missing")
		}
		at := l
		at.Dir = args[0]
		switch {
		case !c.Flags().Changed("prefix"): // the first writer has chosen one
			if at.Prefix, err = ledger.PrefixOf(args[0]); err != nil {
				return a.failLedger(err), nil
			}
		case at.Prefix == "":
			at.Prefix = ledger.NoPrefix
		}
		if writes && c.Flags().Changed("timeout") {
			at.Timeout = max(at.Timeout, time.Nanosecond) // where 0 means the default
		}
		code, err := run(at, args[0], args[1:])
		var misuse usageError
		if err != nil && !errors.As(err, &misuse) {
			return a.failLedger(err), nil
		}
		return code, err
	})
	c.Flags().StringVar(&l.Prefix, "prefix", "", "how the names of event files begin: `P`")
	if writes {
		c.Flags().StringVar(&l.AgentID, "agent", "", "who appends, for others: `ID`; host and pid without it")
		durationFlag(c.Flags(), &l.Timeout, "timeout", "", "wait for the ledger's lock, `D`; 5s without it")
	}
	return c
}

// sequence is what appending and head print.
type sequence struct {
	Sequence int64 `json:"sequence"`
}

func (a *app) ledgerCommands(parent *cobra.Command) {
	a.ledgerAppendCommand(parent)
	var after int64
	reads := func(name string, run func(l ledger.Ledger) (int, error)) {
		c := a.ledgerCommand(parent, name, false, func(l ledger.Ledger, dir string, rest []string) (int, error) {
			if after < 0 || len(rest) > 0 {
				return 0, misused("one DIR is wanted, and --after is not negative")
			}
			return run(l)
		})
		if name != "ledger head" {
			c.Flags().Int64Var(&after, "after", 0, "only those behind number `N`")
		}
	}
	reads("ledger read", func(l ledger.Ledger) (code int, _ error) {
		for event, err := range l.Events(after) {
			if err == nil {
				err = writeJSON(a.stdout, struct {
					sequence
					Event json.RawMessage `json:"event"`
				}{sequence{event.Sequence}, event.Data})
			}
			if err != nil {
				code = a.failLedger(err)
			}
		}
		return code, nil
	})
	reads("ledger head", func(l ledger.Ledger) (int, error) {
		head, err := l.Sequence()
		if err != nil {
			return 0, err
		}
		return a.print(sequence{head}), nil
	})
	a.ledgerVerifyCommand(parent)
	reads("ledger export", func(l ledger.Ledger) (int, error) { return a.ledgerExport(l, after) })
}

func (a *app) ledgerAppendCommand(parent *cobra.Command) {
	var expected int64
	var c *cobra.Command
	c = a.ledgerCommand(parent, "ledger append", true, func(l ledger.Ledger, _ string, rest []string) (int, error) {
		conditional := c.Flags().Changed("if-sequence")
		if conditional && expected < 0 {
			return 0, misused("--if-sequence %d is negative; 0 is an empty ledger", expected)
		}
		events, err := a.events(rest)
		switch {
		case err != nil:
			a.say("reading events: " + oneLine(err))
			return exitUsage, nil
		case len(events) == 0:
			return 0, misused("there is no EVENT, nor one on standard input")
		}
		var last int64
		switch {
		case !conditional:
			last, err = l.AppendBatch(context.Background(), events)
		case len(events) == 1:
			last, err = l.AppendIfSequence(context.Background(), events[0], expected)
		default:
			err = l.Locked(context.Background(), func(_ context.Context, w *ledger.Writer) (err error) {
				last, err = w.AppendIfSequence(expected, events...)
				return err
			})
		}
		if err != nil {
			return 0, err
		}
		return a.print(sequence{last}), nil
	})
	c.Flags().SetInterspersed(false) // an event may be a negative number
	c.Flags().Int64Var(&expected, "if-sequence", 0, "append only if the last event is number `N`")
}

// events are the arguments, or else all JSON values on standard input.
func (a *app) events(args []string) (events [][]byte, err error) {
	for _, arg := range args {
		events = append(events, []byte(arg))
	}
	if len(args) > 0 {
		return events, nil
	}
	for d := json.NewDecoder(a.stdin); ; {
		var event json.RawMessage
		if err := d.Decode(&event); err == io.EOF {
			return events, nil
		} else if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
}

// failLedger says why nothing was done, and returns the exit code for it.
func (a *app) failLedger(err error) int {
	code := a.fail(err)
	var locked *lock.LockedError
	switch {
	case errors.As(err, &locked):
		return exitNotHad
	case errors.Is(err, ledger.ErrSequenceMismatch):
		return exitMovedOn
	case errors.Is(err, ledger.ErrInvalidEvent), errors.Is(err, ledger.ErrPrefix):
		return exitUsage
	}
	return code
}
