package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// ledgerFlags adds the flags that say which ledger is meant, and how to write to it.
func ledgerFlags(flags *flag.FlagSet, writes bool) func(dir string) (ledger.Ledger, error) {
	var l ledger.Ledger
	prefix := flags.String("prefix", ledger.DefaultPrefix, "")
	if writes {
		flags.StringVar(&l.AgentID, "agent", "", "")
		duration(flags, &l.Timeout, "timeout")
	}
	return func(dir string) (_ ledger.Ledger, err error) {
		l.Dir, l.Prefix = dir, *prefix
		if isSet(flags, "timeout") {
			l.Timeout = max(l.Timeout, time.Nanosecond) // where 0 means the default
		}
		if *prefix == "" {
			l.Prefix = ledger.NoPrefix
		}
		if !isSet(flags, "prefix") { // the first writer has chosen one
			l.Prefix, err = ledger.PrefixOf(dir)
		}
		return l, err
	}
}

// sequence is what appending and head print.
type sequence struct {
	Sequence int64 `json:"sequence"`
}

func (a *app) ledgerAppend(args []string) int {
	flags := newFlags("ledger append")
	expected := flags.Int64("if-sequence", 0, "")
	at := ledgerFlags(flags, true)
	if code, ok := a.parse(flags, args); !ok {
		return code
	}
	if flags.NArg() == 0 {
		return a.misuse(flags.Name(), "DIR is missing")
	}
	if isSet(flags, "if-sequence") && *expected < 0 {
		return a.misuse(flags.Name(), fmt.Sprintf("-if-sequence %d is negative; 0 is an empty ledger", *expected))
	}
	events, err := a.events(flags.Args()[1:])
	if err != nil {
		a.say("reading events: " + oneLine(err))
		return exitUsage
	}
	if len(events) == 0 {
		return a.misuse(flags.Name(), "there is no EVENT, nor one on standard input")
	}
	l, err := at(flags.Arg(0))
	if err != nil {
		return a.failLedger(err)
	}
	var last int64
	switch {
	case !isSet(flags, "if-sequence"):
		last, err = l.AppendBatch(context.Background(), events)
	case len(events) == 1:
		last, err = l.AppendIfSequence(context.Background(), events[0], *expected)
	default:
		err = l.Locked(context.Background(), func(_ context.Context, w *ledger.Writer) (err error) {
			last, err = w.AppendIfSequence(*expected, events...)
			return err
		})
	}
	if err != nil {
		return a.failLedger(err)
	}
	return a.print(sequence{last})
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

// parseAfter reads the arguments of what prints the events behind a number.
func (a *app) parseAfter(name string, args []string) (l ledger.Ledger, after int64, code int, ok bool) {
	flags := newFlags(name)
	flags.Int64Var(&after, "after", 0, "")
	at := ledgerFlags(flags, false)
	dir, code, ok := a.parseOne(flags, args, "DIR")
	if !ok {
		return l, 0, code, false
	}
	if after < 0 {
		return l, 0, a.misuse(name, fmt.Sprintf("-after %d is negative", after)), false
	}
	l, err := at(dir)
	if err != nil {
		return l, 0, a.failLedger(err), false
	}
	return l, after, exitOK, true
}

func (a *app) ledgerRead(args []string) int {
	l, after, code, ok := a.parseAfter("ledger read", args)
	if !ok {
		return code
	}
	code = exitOK
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
	return code
}

func (a *app) ledgerHead(args []string) int {
	flags := newFlags("ledger head")
	at := ledgerFlags(flags, false)
	dir, code, ok := a.parseOne(flags, args, "DIR")
	if !ok {
		return code
	}
	l, err := at(dir)
	if err != nil {
		return a.failLedger(err)
	}
	head, err := l.Sequence()
	if err != nil {
		return a.failLedger(err)
	}
	return a.print(sequence{head})
}

// print writes one line of JSON.
func (a *app) print(v any) int {
	if err := writeJSON(a.stdout, v); err != nil {
		return a.fail(err)
	}
	return exitOK
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
