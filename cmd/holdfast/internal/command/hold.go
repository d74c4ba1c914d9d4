package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/platform"
	"github.com/spf13/cobra"
)

// A session is a lock that outlives the command that acquired it. A process of its own, the
// keeper, holds it for the life of another, the owner. "holdfast hold" starts the keeper,
// and ends once the keeper has the lock.
//
// Until then two pipes tie the two. hold shows all that the keeper says, up to a NUL, on
// standard error. Then comes the report, up to another NUL, for standard output. When that is
// written, hold says so to the keeper. If the keeper's input ends before, the caller never
// heard of the session, and the keeper gives up the lock, or the wait for it.

// holdOptions is what a call of "holdfast hold" asks for, and its keeper is told.
type holdOptions struct {
	OwnerPID int // 0: the process that started us
	Owner    platform.Process
	Timed    bool // timeout was given
	Timeout  time.Duration
	Sh       bool
	Path     string
}

func (a *app) holdCommand(parent *cobra.Command) {
	var o holdOptions
	c := a.command(parent, "hold", func(c *cobra.Command, args []string) (code int, err error) {
		if o.Path, err = oneLock(args, &engines{}); err != nil {
			return 0, err
		}
		if c.Flags().Changed("owner") && (o.OwnerPID <= 0 || o.OwnerPID > math.MaxInt32) {
			return 0, misused("--owner %d is no pid", o.OwnerPID)
		}
		o.Timed = c.Flags().Changed("timeout")
		return a.beginSession(o)
	})
	unbuffer(c)
	c.Flags().IntVar(&o.OwnerPID, "owner", 0, "the process for whose life the lock is held: `PID`")
	durationFlag(c.Flags(), &o.Timeout, "timeout", "w", "wait no longer than `D`; 0 does not wait")
	c.Flags().BoolVar(&o.Sh, "sh", false, "print lines for the eval of a shell, instead of JSON")
}

// failsEval has the eval of a shell fail, too, if hold does: a shell takes the eval of nothing
// for a success, and would go on without the lock.
func (a *app) failsEval(args []string) {
	isSh := func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return name == "-sh" || name == "--sh"
	}
	if a.code != exitOK && len(args) > 0 && args[0] == "hold" && slices.ContainsFunc(args, isSh) {
		fmt.Fprintf(a.unbuffered, "(exit %d)\n", a.code)
	}
}

func (a *app) beginSession(o holdOptions) (int, error) {
	if outputIsClosed() {
		a.say("standard output is closed, or is /dev/null for reading and writing, so nobody would know the session's nonce; no session was begun")
		a.more("hold prints one line, which names the session; >/dev/null is for those who don't want it")
		return exitError, nil
	}
	owner, err := o.identifyOwner()
	if err != nil {
		a.say(oneLine(err) + "; no session was begun")
		return exitError, nil
	}
	if o.Sh && o.OwnerPID == 0 && printsInto(owner.PID) {
		// The shell that evals this would go on when the lock is free again.
		a.say(fmt.Sprintf("the owner would be pid %d, which started this holdfast, and what it reports is for another process; no session was begun", owner.PID))
		a.more("--owner PID names the owner, such as --owner $$ for the shell")
		return exitError, nil
	}
	if why := passing(owner.PID); why != "" && o.OwnerPID == 0 {
		a.say(fmt.Sprintf("warning: the owner is pid %d, which started this holdfast, and seems to be about to end: %s", owner.PID, why))
		a.more("the lock is free when it ends; --owner PID names another process, such as --owner $$ for a shell")
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, caughtSignals()...)
	defer signal.Stop(signals)
	ignorePipes() // a report that nobody reads is an error like any other
	o.Owner = owner
	k, err := startKeeper(o)
	if err != nil {
		return 0, fmt.Errorf("starting the keeper: %w", err)
	}
	return a.begin(k, signals), nil
}

// identifyOwner finds the owner of the session to be.
func (o *holdOptions) identifyOwner() (platform.Process, error) {
	pid := o.OwnerPID
	if pid == 0 {
		pid = os.Getppid()
		switch {
		case pid <= 0:
			return platform.Process{}, errors.New("the process that started holdfast can't be seen from here, so --owner must name the owner")
		case pid == 1 && !isShell(platform.ProgramOf(1)): // it adopts orphans
			return platform.Process{}, errors.New("the process that started holdfast has ended, so --owner must name the owner")
		}
	}
	if pid == os.Getpid() { // as "exec holdfast hold --owner $$" has it
		return platform.Process{}, fmt.Errorf("the owner, pid %d, is this holdfast itself, which ends now", pid)
	}
	owner, err := platform.Identify(pid)
	// On Windows the pid of a parent that has ended may be another's by now.
	if errors.Is(err, os.ErrProcessDone) || o.OwnerPID == 0 && runtime.GOOS == "windows" && owner.Start > platform.Self().Start {
		return owner, fmt.Errorf("the owner, pid %d, has ended already", pid)
	}
	return owner, err
}

// isShell reports whether a program is one by which people start others.
func isShell(program string) bool {
	switch strings.TrimPrefix(program, "-") { // a login shell's
	case "sh", "ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "zsh":
		return true
	}
	return false
}

// keeper is a keeper that was started, as hold sees it.
type keeper struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	says   *bufio.Reader
}

// startKeeper starts this program again, in a session of its own and without any file of the
// caller's.
func startKeeper(o holdOptions) (*keeper, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	options, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, keeperName, string(options))
	if cmd.SysProcAttr, err = detached(); err != nil {
		return nil, err
	}
	says, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd.Stdout, cmd.Stderr = theirs, theirs
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &keeper{cmd, orders, bufio.NewReader(says)}, nil
}

// What hold tells the keeper: that the caller has the report, and to give up the wait.
const (
	kept = "kept"
	stop = "stop"
)

// begin waits until the keeper has the lock, and shows its report.
func (a *app) begin(k *keeper, signals <-chan os.Signal) int {
	type report struct {
		text string
		ok   bool
	}
	reports := make(chan report, 1)
	go func() {
		text, ok := k.report(a.stderr)
		reports <- report{text, ok}
	}()
	var caught os.Signal
	for {
		select {
		case s := <-signals:
			if endsWait(s) {
				caught = s
				if k.cmd.Process.Signal(s) != nil { // there is no such thing on Windows, or the keeper has ended
					_, _ = fmt.Fprintln(k.orders, stop)
				}
			}
		case r := <-reports:
			switch {
			case caught != nil && r.ok: // it had the lock just then
				_ = k.orders.Close()
				return a.notBegun(k, caught)
			case !r.ok:
				return a.notBegun(k, caught)
			}
			if _, err := io.WriteString(a.stdout, r.text); err != nil {
				_ = k.orders.Close()
				_ = k.cmd.Wait()
				a.say("writing the output: " + oneLine(err) + "; the lock was given up again")
				return exitError
			}
			if _, err := fmt.Fprintln(k.orders, kept); err != nil {
				return a.notBegun(k, caught)
			}
			return exitOK
		}
	}
}

// report shows what the keeper says, until it reports. ok is false if it ended without.
func (k *keeper) report(stderr io.Writer) (text string, ok bool) {
	for {
		b, err := k.says.ReadByte()
		switch {
		case err != nil:
			return "", false
		case b == 0:
			text, err := k.says.ReadString(0)
			return strings.TrimSuffix(text, "\x00"), err == nil
		}
		// Whole lines, as others may write to the same terminal.
		_ = k.says.UnreadByte()
		line, _ := k.says.ReadString('\n')
		_, _ = io.WriteString(stderr, line)
	}
}

// notBegun waits for the end of a keeper that has no session, and returns the exit code. The
// keeper has said why, unless something ended it.
func (a *app) notBegun(k *keeper, caught os.Signal) int {
	_ = k.cmd.Wait()
	code := k.cmd.ProcessState.ExitCode()
	switch {
	case code > exitOK:
		return code
	case caught != nil:
		a.say(fmt.Sprintf("stopped (%s); no session was begun", caught))
		return exitSignal + signalNumber(caught)
	}
	a.say("the session has ended already: its keeper was ended, or its owner has gone")
	return exitError
}
