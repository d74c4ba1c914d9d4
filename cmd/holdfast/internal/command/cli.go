// Package command is the command holdfast, with locks in files and in databases. Of this
// repository's packages it uses the public API, and package platform.
package command

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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
	stdin          io.Reader
	stdout, stderr io.Writer
	unbuffered     io.Writer     // standard output itself
	loud           io.Writer     // standard error itself, whatever --quiet says
	answers        *bufio.Reader // of stdin, once a question was asked
	code           int           // the exit code
}

// Main is the whole program. It does not return.
func Main() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(a.main(os.Args[1:]))
}

// main does what args ask for, and returns the exit code. args lack the program's name. Output
// that could not be written (a full disk, a closed pipe) must not pass for written.
func (a *app) main(args []string) int {
	a.unbuffered, a.loud = a.stdout, a.stderr
	out := bufio.NewWriter(a.unbuffered)
	a.stdout = out
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // of nil, cobra takes this process's own
	root.SetIn(a.stdin)
	root.SetOut(out)
	root.SetErr(a.stderr)
	c, err := singleDash(root, args)
	if err == nil {
		c, err = root.ExecuteC()
	}
	if err != nil {
		a.stderr = a.loud
		a.code = a.misuse(c, err.Error())
	}
	a.failsEval(args)
	if err := out.Flush(); err != nil && a.code != exitError {
		a.say("writing the output: " + oneLine(err))
		return exitError
	}
	return a.code
}

// usageError is what is wrong with a call.
type usageError string

func (e usageError) Error() string { return string(e) }

func misused(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// manual has a section for each command: how it is called, what it does in a line and in two
// sentences, all else, examples, and its exit codes. Help shows it without "all else", and is
// made for a screen; manual pages show all.
//
//go:embed manual.md
var manual string

const (
	screenOf = "screen"
	codesOf  = "codes"
	direct   = "direct"
)

// command makes the command that has a section of the manual, and puts it below another. run
// returns its exit code, or an error: what is wrong with the call, or what went wrong.
func (a *app) command(parent *cobra.Command, name string, run func(c *cobra.Command, args []string) (int, error)) *cobra.Command {
	var parts []string
	for section := range strings.SplitSeq(manual, "\n===\n") {
		rest, found := strings.CutPrefix(section, "# "+name)
		if found && (rest[0] == '\n' || rest[0] == ' ' && !unicode.IsLower(rune(rest[1]))) { // "claim" is not "claim take"
			parts = strings.Split(rest, "\n---\n")
			break
		}
	}
	head := strings.SplitN(parts[0], "\n", 4)
	words := strings.Fields(name)
	c := &cobra.Command{Use: words[len(words)-1] + head[0], Short: head[1], Example: strings.TrimRight(parts[2], "\n"),
		Long:                  head[3] + "\n\n" + parts[1] + "\n\n# EXIT CODES\n\n" + parts[3],
		Annotations:           map[string]string{screenOf: head[3], codesOf: strings.TrimRight(parts[3], "\n")},
		DisableFlagsInUseLine: true, SuggestionsMinimumDistance: 2,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if c.Annotations[direct] != "" {
				a.stdout = a.unbuffered
			}
			if quiet, err := c.Flags().GetBool("quiet"); err == nil && quiet {
				a.stderr = io.Discard
			}
			a.code, err = run(c, args)
			var misuse usageError
			if err != nil && !errors.As(err, &misuse) {
				a.code, err = a.fail(err), nil
			}
			return err
		},
	}
	c.Flags().SortFlags = false
	c.Flags().BoolP("help", "h", false, "")
	_ = c.Flags().MarkHidden("help")
	if strings.HasPrefix(strings.TrimPrefix(head[0], " [flags]"), " LOCK") {
		c.ValidArgsFunction = completeLock
	}
	if parent != nil {
		parent.AddCommand(c)
	}
	return c
}

// unbuffer hands a command standard output itself: for a child, or as its reader waits for each
// line.
func unbuffer(c *cobra.Command) { c.Annotations[direct] = "yes" }

// root is holdfast with all its commands.
func (a *app) root() *cobra.Command {
	var version bool
	root := a.command(nil, "holdfast", func(c *cobra.Command, args []string) (int, error) {
		switch {
		case version:
			return a.version(false)
		case len(args) == 0:
			c.SetOut(a.stderr)
			return exitUsage, c.Help()
		case c.ArgsLenAtDash() > 0: // "run" was forgotten
			return 0, misused("%s is not a command of holdfast; to hold a lock for one: holdfast run LOCK COMMAND...", visible(args[0]))
		}
		return 0, unknown(c, args[0])
	})
	root.Use = "holdfast COMMAND ..."
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), help(c)) })
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return misused("%s", flagError(c, err)) })
	group := func(name string) *cobra.Command {
		return a.command(root, name, func(c *cobra.Command, args []string) (int, error) {
			if len(args) == 0 {
				return 0, misused("%s alone is not a command of holdfast", c.Name())
			}
			return 0, unknown(c, args[0])
		})
	}
	a.runCommand(root)
	a.waitCommand(root)
	a.holdCommand(root)
	a.releaseCommand(root)
	a.statusCommand(root)
	a.listCommand(root)
	a.watchCommand(root)
	a.noteCommand(root)
	a.breakCommand(root)
	a.tidyCommand(root)
	a.doctorCommand(root)
	a.ledgerCommands(group("ledger"))
	a.claimCommands(group("claim"))
	a.serveCommand(root)
	var asJSON *bool
	asJSON = jsonFlag(a.command(root, "version", func(_ *cobra.Command, args []string) (int, error) {
		if len(args) > 0 {
			return 0, misused("no arguments are wanted")
		}
		return a.version(*asJSON)
	}))
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND]", Short: "explain a command", RunE: func(_ *cobra.Command, args []string) error {
		c, rest, _ := root.Find(args)
		if len(rest) > 0 || c.Hidden {
			return unknown(c, args[len(args)-max(1, len(rest))])
		}
		return c.Help()
	}})
	// For ourselves and those who pack holdfast.
	for name, run := range map[string]func([]string) int{doctorChildName: a.doctorChild, keeperName: a.keep} {
		root.AddCommand(&cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, Run: func(_ *cobra.Command, args []string) {
			a.stdout = a.unbuffered
			a.code = run(args)
		}})
	}
	root.AddCommand(&cobra.Command{Use: "man DIR", Hidden: true, Short: "write the manual pages to a folder", Args: cobra.ExactArgs(1),
		Run: func(_ *cobra.Command, args []string) {
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "HOLDFAST", Section: "1", Source: "holdfast"}, args[0]); err != nil {
				a.code = a.fail(err)
			}
		}})
	return root
}

// commandName is the name of a command, without that of the program.
func commandName(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "holdfast ") }

// misuse says what is wrong with a call of a command, and where to look.
func (a *app) misuse(c *cobra.Command, what string) int {
	help := "holdfast help"
	if name := commandName(c); c.HasParent() {
		help += " " + name
		if !strings.HasPrefix(what, name+" ") {
			what = name + ": " + what
		}
	}
	a.say(what)
	a.more(fmt.Sprintf("%q says more", help))
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
