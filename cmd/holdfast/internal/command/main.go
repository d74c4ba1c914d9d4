// Package command is the command holdfast, with locks in files and in databases. Of this
// repository's packages it uses the public API, and package platform.
package command

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
)

// Exit codes. 64, 65 and 75 are sysexits.h's EX_USAGE, EX_DATAERR and EX_TEMPFAIL; those
// from 126 on are the shell's. exitLost is none of these, nor one of timeout, env and xargs
// (122 to 125), setlock (111), or Rust's and Python's run-times (101, 120).
const (
	exitOK        = 0
	exitError     = 1
	exitHeld      = 3 // status
	exitDead      = 4 // status
	exitEnded     = 4 // release: the session has ended
	exitUnknown   = 5 // status
	exitWeaker    = 5 // doctor
	exitUsage     = 64
	exitMovedOn   = 65 // ledger append
	exitDamaged   = 65 // ledger verify, ledger export
	exitNotHad    = 75
	exitLost      = 118 // run, note
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128 // and the signal's number
)

// app is one run of holdfast: where it reads and writes.
type app struct {
	open           Open // a database; nil if there is none in this program
	stdin          io.Reader
	stdout, stderr io.Writer
	answers        *bufio.Reader // of stdin, once a question was asked
}

// Main is the whole program. It does not return.
func Main() {
	a := &app{open: openPG, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(a.main(os.Args[1:]))
}

// main does what args ask for, and returns the exit code. args lack the program's name.
func (a *app) main(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(a.stderr, a.overview())
		return exitUsage
	}
	switch args[0] { // what people try first
	case "-h", "-help", "--help":
		args = []string{"help"}
	case "-version", "--version":
		args = []string{"version"}
	}
	c, args := lookUp(args)
	if c == nil {
		return a.unknownCommand(args)
	}
	if c.direct {
		return c.do(a, args)
	}
	// Output that could not be written (a full disk, a closed pipe) must not pass for
	// written.
	stdout := a.stdout
	out := bufio.NewWriter(stdout)
	a.stdout = out
	code := c.do(a, args)
	a.stdout = stdout
	if err := out.Flush(); err != nil && code != exitError {
		a.say("writing the output: " + oneLine(err))
		return exitError
	}
	return code
}

func (a *app) unknownCommand(args []string) int {
	if members := group(args[0]); len(members) > 0 {
		if len(args) > 1 && slices.Contains([]string{"-h", "-help", "--help"}, args[1]) {
			return a.help(args[:1])
		}
		what := args[0] + " alone"
		if len(args) > 1 {
			what = args[0] + " " + visible(args[1])
		}
		a.say(what + " is not a command of holdfast" + didYouMean(args))
		for _, c := range members {
			a.more("usage: " + c.synopsis)
		}
		a.more(fmt.Sprintf("\"holdfast help %s\" says more", args[0]))
		return exitUsage
	}
	a.say(visible(args[0]) + " is not a command of holdfast" + didYouMean(args))
	a.more("\"holdfast help\" lists them")
	if len(args) > 1 && args[1] == "--" { // "run" was forgotten
		a.more("To hold a lock for a command: holdfast run LOCK -- COMMAND...")
	}
	return exitUsage
}

func didYouMean(args []string) string {
	if name := meant(args); name != "" {
		return fmt.Sprintf("; did you mean \"holdfast %s\"?", name)
	}
	return ""
}

// command is one of holdfast's commands.
type command struct {
	name     string // one word, or two, of which others share the first
	synopsis string // how it is called
	summary  string // in a line of the overview
	help     string // what follows the synopsis
	database databaseHelp
	do       func(a *app, args []string) int
	// direct: standard output is not buffered, as it is handed to a child, or its reader waits
	// for each line.
	direct bool
}

// commands is a function, not a table, as some commands look at the table.
func commands() []command {
	return []command{
		{name: "run", synopsis: runSynopsis, help: runHelp, database: runDatabase, do: (*app).run, direct: true,
			summary: "hold a lock while a command runs"},
		{name: "wait", synopsis: waitSynopsis, help: waitHelp, do: (*app).wait, direct: true,
			summary: "wait until a lock is free"},
		{name: "hold", synopsis: holdSynopsis, help: holdHelp, do: (*app).hold, direct: true,
			summary: "hold a lock for the life of another process"},
		{name: "release", synopsis: releaseSynopsis, help: releaseHelp, do: (*app).release,
			summary: "end such a session"},
		{name: "status", synopsis: statusSynopsis, help: statusHelp, database: statusDatabase, do: (*app).status,
			summary: "tell who holds a lock, and whether they live"},
		{name: "list", synopsis: listSynopsis, help: listHelp, database: listDatabase, do: (*app).list,
			summary: "tell the same of every lock below a folder"},
		{name: "watch", synopsis: watchSynopsis, help: watchHelp, do: (*app).watch, direct: true,
			summary: "show what becomes of locks"},
		{name: "note", synopsis: noteSynopsis, help: noteHelp, do: (*app).note,
			summary: "say, under a lock, at which step the work is"},
		{name: "break", synopsis: breakSynopsis, help: breakHelp, database: breakDatabase, do: (*app).breakLock,
			summary: "remove the lock file of a dead holder"},
		{name: "tidy", synopsis: tidySynopsis, help: tidyHelp, do: (*app).tidy,
			summary: "remove what locks below a folder have left, and nobody needs"},
		{name: "doctor", synopsis: doctorSynopsis, help: doctorHelp, do: (*app).doctor,
			summary: "check how far locks in a folder can be trusted"},
		{name: "ledger append", synopsis: ledgerAppendSynopsis, help: ledgerAppendHelp, do: (*app).ledgerAppend,
			summary: "append events to a ledger"},
		{name: "ledger read", synopsis: ledgerReadSynopsis, help: ledgerReadHelp, do: (*app).ledgerRead,
			summary: "print its events"},
		{name: "ledger head", synopsis: ledgerHeadSynopsis, help: ledgerHeadHelp, do: (*app).ledgerHead,
			summary: "print the number of its last event"},
		{name: "ledger verify", synopsis: ledgerVerifySynopsis, help: ledgerVerifyHelp, do: (*app).ledgerVerify, direct: true,
			summary: "check that it is whole"},
		{name: "ledger export", synopsis: ledgerExportSynopsis, help: ledgerExportHelp, do: (*app).ledgerExport,
			summary: "print its events alone, for a copy"},
		{name: "claim take", synopsis: claimTakeSynopsis, help: claimTakeHelp, do: (*app).claimTake,
			summary: "claim a node of a proof, for a time"},
		{name: "claim refresh", synopsis: claimRefreshSynopsis, help: claimRefreshHelp, do: (*app).claimRefresh,
			summary: "make a claim last longer"},
		{name: "claim release", synopsis: claimReleaseSynopsis, help: claimReleaseHelp, do: (*app).claimRelease,
			summary: "end a claim"},
		{name: "claim list", synopsis: claimListSynopsis, help: claimListHelp, do: (*app).claimList,
			summary: "print the claims that have not expired"},
		{name: "claim reap", synopsis: claimReapSynopsis, help: claimReapHelp, do: (*app).claimReap, direct: true,
			summary: "end the claims that have expired"},
		{name: "serve", synopsis: serveSynopsis, help: serveHelp, database: serveDatabase, do: (*app).serve, direct: true,
			summary: "show the locks below folders in a browser"},
		{name: "version", synopsis: versionSynopsis, help: versionHelp, do: (*app).version,
			summary: "print the version"},
		{name: "help", synopsis: helpSynopsis, help: helpHelp, do: (*app).help,
			summary: "explain a command"},
		{name: doctorChildName, do: (*app).doctorChild, direct: true}, // without summary: not shown
		{name: keeperName, do: (*app).keep, direct: true},
	}
}

func find(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

// lookUp returns the command that is asked for, and its arguments.
func lookUp(args []string) (*command, []string) {
	if len(args) > 1 {
		if c := find(args[0] + " " + args[1]); c != nil {
			return c, args[2:]
		}
	}
	if c := find(args[0]); c != nil {
		return c, args[1:]
	}
	return nil, args
}

// group returns the commands of two words that begin with this one.
func group(word string) (members []command) {
	for _, c := range commands() {
		if strings.HasPrefix(c.name, word+" ") {
			members = append(members, c)
		}
	}
	return members
}

// newFlags returns a set of flags that leaves printing to us.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parse reads the flags. When it returns false, the command is over, with this
// exit code.
func (a *app) parse(flags *flag.FlagSet, args []string) (code int, ok bool) {
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(a.stdout, a.manual(find(flags.Name())))
		return exitOK, false
	case err != nil:
		what := oneLine(err)
		if a.open == nil && what == "flag provided but not defined: -"+databaseFlag && find(flags.Name()).database.synopsis != "" {
			what += noDatabase
		} else if name := unknownFlag(flags, err); name != "" {
			what += "; did you mean -" + name + "?"
		}
		return a.misuse(flags.Name(), what), false
	}
	return exitOK, true
}

// parseOne reads the flags, and the one argument behind them.
func (a *app) parseOne(flags *flag.FlagSet, args []string, what string) (arg string, code int, ok bool) {
	if code, ok = a.parse(flags, args); !ok {
		return "", code, false
	}
	return a.one(flags, what)
}

// one returns the one argument behind flags that were read.
func (a *app) one(flags *flag.FlagSet, what string) (arg string, code int, ok bool) {
	switch rest := flags.Args(); {
	case len(rest) == 1:
		if what != "LOCK" {
			return rest[0], exitOK, true
		}
		wrong := noLock(rest[0])
		if isSet(flags, databaseFlag) {
			wrong = notKey(rest[0])
		}
		if wrong != "" {
			return "", a.misuse(flags.Name(), wrong), false
		}
		return rest[0], exitOK, true
	case len(rest) == 0:
		return "", a.misuse(flags.Name(), what+" is missing"), false
	case strings.HasPrefix(rest[1], "-"):
		return "", a.misuse(flags.Name(), fmt.Sprintf("flags go before %s: %s", what, visible(rest[1]))), false
	default:
		return "", a.misuse(flags.Name(), fmt.Sprintf("one %s is wanted, not %d", what, len(rest))), false
	}
}

// noLock says why there can't be a lock at a path: "" unless a folder is there. No holder
// put the folder there, and it won't go away by itself, so it was a slip.
func noLock(path string) (wrong string) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return ""
	}
	return fmt.Sprintf("%s is a folder; LOCK is the path of a lock file, such as %s",
		visible(path), visible(filepath.Join(path, "deploy.lock")))
}

// isSet reports whether a flag was given, whatever its value.
func isSet(flags *flag.FlagSet, name string) (set bool) {
	flags.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// misuse says what is wrong with a call of a command, and how it is called.
func (a *app) misuse(name, what string) int {
	a.say(fmt.Sprintf("%s: %s", name, what))
	a.more("usage: " + strings.ReplaceAll(a.usage(find(name)), "\n", "\n  "))
	a.more(fmt.Sprintf("\"holdfast help %s\" says more", name))
	return exitUsage
}

// fail says what went wrong. A path that can't be a lock's is wrong use; nothing
// has been touched then.
func (a *app) fail(err error) int {
	a.say(oneLine(err))
	if errors.Is(err, lock.ErrInvalidName) {
		return exitUsage
	}
	return exitError
}

// say writes a message for people. What comes from elsewhere must have gone
// through visible or oneLine.
func (a *app) say(text string) { fmt.Fprintln(a.stderr, "holdfast: "+text) }

// more goes on with what say began.
func (a *app) more(text string) { fmt.Fprintln(a.stderr, "  "+text) }
