package command

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The command line of run is LOCK, and behind it the command. A command has words of its own,
// "--" among them. If one of these were taken for a lock, the rest would run here: of "kubectl
// exec pod -- rm", rm. So there is one LOCK, and all that follows is the command's.

func (a *app) runCommand(parent *cobra.Command) (*cobra.Command, *runOptions) {
	o := &runOptions{undone: "the command was not run", grace: 10 * time.Second}
	c := a.command(parent, "run", func(c *cobra.Command, args []string) (int, error) {
		if err := o.read(c, args); err != nil {
			return 0, err
		}
		return a.run(o)
	})
	unbuffer(c)
	stopAtLock(c)
	flags := c.Flags()
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName { // flock(1)'s other names
		if also, ok := map[string]string{"nonblock": "try", "nb": "try", "wait": "timeout"}[name]; ok {
			name = also
		}
		return pflag.NormalizedName(name)
	})
	flags.BoolVarP(&o.try, "try", "n", false, "do not wait")
	durationFlag(flags, &o.timeout, "timeout", "w", "wait no longer than `D`, such as 90 or 1h30m")
	flags.BoolVarP(&o.shared, "shared", "s", false, "as a reader, beside other readers")
	flags.BoolP("exclusive", "x", false, "alone, as it is without it")
	flags.IntVarP(&o.conflict, "conflict-exit-code", "E", exitNotHad, "if it could not be had: `N`")
	flags.BoolVarP(&o.close, "close", "o", false, "what COMMAND leaves behind has no lock")
	flags.StringP("command", "c", "", "behind LOCK: run `TEXT` by the shell")
	flags.BoolP("quiet", "q", false, "say nothing; the exit code tells")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "say how long the wait was, and what runs")
	flags.Func("also", "a further `LOCK`; all are held, or none", func(name string) error {
		o.locks = append(o.locks, name)
		return nil
	})
	flags.IntVar(&o.permits, "permits", 0, "have one of `N` permits, not all of the lock")
	flags.BoolVar(&o.nested, "nested", false, "go on under a lock of a process above")
	flags.BoolVar(&o.killTree, "kill-tree", false, "end all that COMMAND leaves behind")
	durationFlag(flags, &o.grace, "grace", "", "how long that may take: `D`; 10s without it")
	flags.StringVar(&o.label, "label", "", "`TEXT` for others: what is done here")
	flags.Func("stale-after", "`D` until a claim without proof is dead", o.staleAfter)
	flags.Func("mode", "of the lock file: 600, 660 or 666 (`MODE`)", o.mode)
	flags.BoolVar(&o.file.RequireKernelLock, "require-kernel-lock", false, "fail without kernel proof")
	o.engines = engineFlags(c)
	return c, o
}

// notOfDatabases are the flags that are for lock files alone.
var notOfDatabases = [][2]string{
	{"nested", "children can't have a lock in a database, too"},
	{"close", "a lock in a database is holdfast's alone in any case"},
	{"mode", "a lock in a database has no file"},
	{"stale-after", "a database drops the lock of a session that ends, and no age counts"},
	{"require-kernel-lock", "in a database the server knows who has a lock, and no kernel is asked"},
}

// read takes what is behind the flags: LOCK [--] COMMAND... or LOCK -c TEXT, and says what is
// wrong with the call.
func (o *runOptions) read(c *cobra.Command, args []string) error {
	set := c.Flags().Changed
	for _, f := range notOfDatabases {
		if o.engines.inServer() && set(f[0]) {
			return misused("--%s is for lock files: %s", f[0], f[1])
		}
	}
	switch o.timed = set("timeout"); {
	case o.try && o.timed:
		return misused("--try and --timeout exclude each other")
	case o.shared && set("exclusive"):
		return misused("--shared and --exclusive exclude each other")
	case set("grace") && !o.killTree:
		return misused("--grace is --kill-tree's, which is missing")
	case o.conflict < 0 || o.conflict > 255:
		return misused("--conflict-exit-code %d is none: exit codes go from 0 to 255", o.conflict)
	case o.conflict == exitLost:
		return misused("--conflict-exit-code %d would hide that the lock was lost, which is what %[1]d says", exitLost)
	case set("command"):
		return misused("-c goes behind LOCK: holdfast run LOCK -c 'COMMAND LINE'")
	case c.ArgsLenAtDash() == 0:
		return misused("LOCK is missing before \"--\"")
	case len(args) == 0:
		return misused("LOCK is missing")
	}
	for _, name := range o.locks {
		if strings.HasPrefix(name, "-") { // its value was forgotten
			return misused("--also wants a further LOCK, and not %s; a lock of that name is ./%[1]s", visible(name))
		}
	}
	o.locks, o.command = append(args[:1:1], o.locks...), args[1:]
	marked := len(o.command) > 0 && o.command[0] == "--"
	if marked {
		o.command = o.command[1:]
	}
	if err := o.wrongLocks(); err != nil {
		return err
	}
	if len(o.command) > 0 && !marked && (o.command[0] == "-c" || o.command[0] == "--command") {
		if len(o.command) != 2 {
			return misused("-c wants one argument, the command line, in quotes")
		}
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		o.command = []string{shell, "-c", o.command[1]}
	}
	if err := o.wrongCommand(marked); err != nil || !set("permits") {
		return err
	}
	return o.wrongPermits()
}

// wrongLocks says what is wrong with the names of the locks.
func (o *runOptions) wrongLocks() error {
	for _, name := range o.locks {
		if name == "" {
			return misused("LOCK is empty")
		}
		if err := o.engines.wrongName(name); err != nil {
			return err
		}
		if whole, err := filepath.Abs(name); len(o.locks) > 1 && err == nil && strings.Contains(whole, "\n") {
			return misused("of several locks none may have a line break in its path, as %s has a line for each: %s", lockVar, visible(whole))
		}
	}
	if o.engines.inServer() {
		return nil
	}
	return isCommand(o.locks[0])
}

// wrongCommand says what is wrong with the command. marked is whether a "--" said where it begins.
func (o *runOptions) wrongCommand(marked bool) error {
	switch lock := o.locks[0]; {
	case len(o.command) == 0 && marked:
		return misused("there is no command behind \"--\"")
	case len(o.command) == 0 && strings.Trim(lock, "0123456789") == "":
		return misused("%s is a descriptor for flock(1); here LOCK is a path, and a shell holds it by: eval \"$(holdfast hold --sh LOCK)\"", lock)
	case len(o.command) == 0:
		return misused("there is no command to run")
	}
	switch first := o.command[0]; {
	case first == "":
		return misused("the command is empty")
	case first == "--":
		return misused("the command can't be \"--\"")
	case marked:
		return nil
	case strings.HasPrefix(first, "-"):
		return misused("flags go before LOCK: %s", visible(first))
	case strings.HasSuffix(first, ".lock"):
		return misused("%s is no command; a further lock goes before LOCK: --also %[1]s", visible(first))
	}
	return nil
}

// isCommand says why a word that stands for LOCK must be a command's; nil if it may be a lock: a
// word that a shell would take for a program, or the path of a program's file.
func isCommand(word string) error {
	name := visible(word)
	if filepath.Base(word) == word {
		if _, err := exec.LookPath(word); err == nil {
			return misused("%s is a program; is LOCK missing before it? (A lock file of that name is ./%[1]s)", name)
		}
		return nil
	}
	file, err := platform.Open(word, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer file.Close()
	begins := make([]byte, 4)
	n, _ := file.ReadAt(begins, 0)
	for _, magic := range []string{"#!", "\x7fELF", "MZ", "\xcf\xfa\xed\xfe"} { // scripts, Linux, Windows, macOS
		if strings.HasPrefix(string(begins[:n]), magic) {
			return misused("%s is a program, and no lock file; is LOCK missing before it?", name)
		}
	}
	return nil
}

// heldAbove reports whether this process has a lock from one above it.
func heldAbove(path string) bool { return lock.File{Path: path}.HeldAbove() }

// mode reads the flag of that name: octal, as chmod(1) has it.
func (o *runOptions) mode(text string) error {
	modes := map[string]fs.FileMode{"600": 0o600, "660": 0o660, "666": 0o666}
	var known bool
	if o.file.Perm, known = modes[strings.TrimPrefix(text, "0")]; !known {
		return errors.New("it is none for a lock file: 600 is for one user, 660 for a group, 666 for all")
	}
	return nil
}

// staleAfter reads the flag of that name.
func (o *runOptions) staleAfter(text string) error {
	if text == "never" {
		o.file.StaleAfter = -1
		return nil
	}
	d, err := span(text)
	if err == nil && d == 0 {
		err = errors.New("no age at all would take every holder of whom nothing is known for dead; the least is 1ns")
	}
	o.file.StaleAfter = d
	return err
}

// title is what the lock file says of us.
func (o *runOptions) title() string {
	if o.label != "" {
		return o.label
	}
	return label(o.command)
}
