package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// The command line of run is LOCK, and behind it the command. A command has words of its own,
// "--" among them. If one of these were taken for a lock, the rest would run here: of "kubectl
// exec pod -- rm", rm. So there is one LOCK, and all that follows is the command's.

func (a *app) parseRun(args []string) (o runOptions, code int, ok bool) {
	flags := newFlags("run")
	flags.BoolVar(&o.try, "try", false, "")
	duration(flags, &o.timeout, "timeout")
	flags.IntVar(&o.conflict, "conflict-exit-code", exitNotHad, "")
	flags.BoolVar(&o.close, "close", false, "")
	flags.BoolVar(&o.nested, "nested", false, "")
	flags.BoolVar(&o.shared, "shared", false, "")
	flags.BoolVar(&o.quiet, "quiet", false, "")
	flags.BoolVar(&o.file.RequireKernelLock, "require-kernel-lock", false, "")
	flags.Func("stale-after", "", o.staleAfter)
	flags.Func("mode", "", o.mode)
	flags.BoolVar(&o.killTree, "kill-tree", false, "")
	o.undone = "the command was not run"
	o.grace = 10 * time.Second
	duration(flags, &o.grace, "grace")
	flags.StringVar(&o.label, "label", "", "")
	flags.Func("also", "", func(name string) error {
		o.locks = append(o.locks, name)
		return nil
	})
	permits := flags.String("permits", "", "")
	conn := a.databaseFlag(flags)
	if code, ok := a.parse(flags, args); !ok {
		return o, code, false
	}
	o.timed = isSet(flags, "timeout")
	if isSet(flags, "grace") && !o.killTree {
		return o, a.misuse("run", "-grace is -kill-tree's, which is missing"), false
	}
	if o.conn = *conn; o.conn != nil {
		for _, f := range notOfDatabases {
			if isSet(flags, f.name) {
				return o, a.misuse("run", "-"+f.name+" is for lock files: "+f.why), false
			}
		}
	}
	rest := flags.Args()
	if before := len(args) - len(rest); before > 0 && args[before-1] == "--" {
		return o, a.misuse("run", "LOCK is missing before \"--\""), false
	}
	if what := o.arguments(rest); what != "" {
		return o, a.misuse("run", what), false
	}
	if isSet(flags, "permits") {
		if wrong := o.wrongPermits(*permits); wrong != "" {
			return o, a.misuse("run", wrong), false
		}
	}
	return o, exitOK, true
}

// arguments takes "LOCK [--] COMMAND...", and returns what is wrong with it. Package flag stops
// at LOCK.
func (o *runOptions) arguments(args []string) (wrong string) {
	switch {
	case o.try && o.timed:
		return "-try and -timeout exclude each other"
	case o.conflict < 0 || o.conflict > 255:
		return fmt.Sprintf("-conflict-exit-code %d is none: exit codes go from 0 to 255", o.conflict)
	case o.conflict == exitLost:
		return fmt.Sprintf("-conflict-exit-code %d would hide that the lock was lost, which is what %[1]d says", exitLost)
	case len(args) == 0:
		return "LOCK is missing"
	}
	also := o.locks
	o.locks, o.command = append([]string{args[0]}, also...), args[1:]
	marked := len(o.command) > 0 && o.command[0] == "--"
	if marked {
		o.command = o.command[1:]
	}
	if wrong := o.wrongLocks(also); wrong != "" {
		return wrong
	}
	return o.wrongCommand(marked)
}

// wrongLocks says what is wrong with the names of the locks.
func (o *runOptions) wrongLocks(also []string) (wrong string) {
	for _, name := range also {
		if strings.HasPrefix(name, "-") { // its value was forgotten
			return fmt.Sprintf("-also wants a further LOCK, and not %s; a lock of that name is ./%[1]s", visible(name))
		}
	}
	for _, name := range o.locks {
		if name == "" {
			return "LOCK is empty"
		}
		if wrong := o.wrongName(name); wrong != "" {
			return wrong
		}
		if whole, err := filepath.Abs(name); len(o.locks) > 1 && err == nil && strings.Contains(whole, "\n") {
			return fmt.Sprintf("of several locks none may have a line break in its path, as %s has a line for each: %s", lockVar, visible(whole))
		}
	}
	if o.conn == nil {
		return isCommand(o.locks[0])
	}
	return ""
}

// wrongCommand says what is wrong with the command. marked is whether a "--" said where it begins.
func (o *runOptions) wrongCommand(marked bool) (wrong string) {
	if len(o.command) == 0 {
		if marked {
			return "there is no command behind \"--\""
		}
		return "there is no command to run"
	}
	switch first := o.command[0]; {
	case first == "":
		return "the command is empty"
	case first == "--":
		return "the command can't be \"--\""
	case marked:
		return ""
	case strings.HasPrefix(first, "-"):
		return fmt.Sprintf("flags go before LOCK: %s", visible(first))
	case strings.HasSuffix(first, ".lock"):
		return fmt.Sprintf("%s is no command; a further lock goes before LOCK: -also %[1]s", visible(first))
	}
	return ""
}

// isCommand says why a word that stands for LOCK must be a command's; "" if it may be a lock: a
// word that a shell would take for a program, or the path of a program's file.
func isCommand(word string) (wrong string) {
	name := visible(word)
	if filepath.Base(word) == word {
		if _, err := exec.LookPath(word); err == nil {
			return fmt.Sprintf("%s is a program; is LOCK missing before it? (A lock file of that name is ./%[1]s)", name)
		}
		return ""
	}
	file, err := platform.Open(word, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer file.Close()
	begins := make([]byte, 4)
	n, _ := file.ReadAt(begins, 0)
	for _, magic := range []string{"#!", "\x7fELF", "MZ", "\xcf\xfa\xed\xfe"} { // scripts, Linux, Windows, macOS
		if strings.HasPrefix(string(begins[:n]), magic) {
			return name + " is a program, and no lock file; is LOCK missing before it?"
		}
	}
	return ""
}

// heldAbove reports whether this process has a lock from one above it.
func heldAbove(path string) bool { return lock.File{Path: path}.HeldAbove() }

// mode reads the flag of that name: octal, as chmod(1) has it.
func (o *runOptions) mode(text string) error {
	n, err := strconv.ParseUint(text, 8, 32)
	if err != nil || n&^0o666 != 0 || n&0o600 != 0o600 {
		return errors.New("it is none for a lock file: 600 is for one user, 660 for a group, 666 for all")
	}
	o.file.Perm = fs.FileMode(n)
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
