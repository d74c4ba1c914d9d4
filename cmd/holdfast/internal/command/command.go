package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
)

// What the command finds in its environment.
const (
	lockVar  = "HOLDFAST_LOCK"  // the lock files, absolute, a line each
	fenceVar = "HOLDFAST_FENCE" // FileHold.Fence of each, decimal

	predecessorVar = "HOLDFAST_PREDECESSOR" // FileHold.Predecessor of each, JSON; empty if there is none
)

// hold is what is needed of a *lock.FileHold; a test has one that it can lose.
type hold interface {
	Path() string
	Fence() (int64, error)
	Predecessor() (*lock.Predecessor, error)
	Lost() <-chan struct{}
	Attach(*exec.Cmd) error
	Environ([]string) []string
	LeaveToChildren() (left bool, err error)
}

// supervise runs the command under the locks that are held, and returns the exit code that
// it calls for. lost reports that a lock was lost meanwhile. If none is ours, the command
// runs under the hold of a process above.
func (a *app) supervise(o runOptions, words *words, descendants *tree, held []hold, signals <-chan os.Signal) (code int, lost bool) {
	cmd := exec.Command(o.command[0], o.command[1:]...)
	if err := o.equip(cmd, held); err != nil {
		a.giveBack(held)
		return a.fail(err), false
	}
	// These are files, which the command inherits: nothing is copied in between.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, o.stderr
	cmd.SysProcAttr = dieWithUs()
	started, ended := launch(cmd)
	if err := <-started; err != nil {
		a.giveBack(held)
		return a.cannotRun(err), false
	}
	var died <-chan os.Signal
	if descendants != nil {
		descendants.command, died = cmd.Process.Pid, descendants.died
	}
	over := make(chan struct{})
	defer close(over)
	losses := lossesOf(held, over)
	var told []hold
	sayLost := func(h hold) {
		told = append(told, h)
		a.say("lost " + visible(h.Path()) + ": " + words.lost)
	}
	for {
		select {
		case err := <-ended:
			code = a.ended(err)
			for _, h := range held { // one session may have had them all
				if lost && !slices.Contains(told, h) && wasLost(h) {
					sayLost(h)
				}
			}
			a.tellLeft(descendants.end(signals))
			return code, lost
		case <-died:
			descendants.look()
		case <-descendants.due():
			descendants.kill()
		case s := <-signals:
			forward(cmd.Process, s)
			suspend(s)
			if endsWait(s) {
				descendants.ask()
			}
		case h := <-losses:
			lost = true
			sayLost(h)
			a.more(words.lostWhy + "; others may be at work under that lock, so the command is asked to end")
			terminate(cmd.Process)
			descendants.ask()
		}
	}
}

func wasLost(h hold) bool {
	select {
	case <-h.Lost():
		return true
	default:
		return false
	}
}

// lossesOf returns a channel of the holds that are lost, until over is closed.
func lossesOf(held []hold, over <-chan struct{}) <-chan hold {
	losses := make(chan hold)
	for _, h := range held {
		go func() {
			select {
			case <-h.Lost():
			case <-over:
				return
			}
			select {
			case losses <- h:
			case <-over:
			}
		}()
	}
	return losses
}

// equip gives the command what it is to have of the locks.
//
// Without a fence the command is not run: one that relies on it would have to refuse all
// its work, or worse, take an empty string for a number. Readers have no fence, and no
// variable that could be taken for one.
func (o *runOptions) equip(cmd *exec.Cmd, held []hold) error {
	if len(held) == 0 {
		return nil
	}
	var paths, fences, before []string
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, fenceVar+"=") || strings.HasPrefix(e, nonceVar+"=") // of a session above, on another lock
	})
	for _, h := range held {
		paths = append(paths, h.Path())
		if !o.shared {
			fence, err := h.Fence()
			if err != nil {
				return err
			}
			fences = append(fences, strconv.FormatInt(fence, 10))
		}
		who, err := predecessorOf(h)
		if err != nil {
			return err
		}
		before = append(before, who)
		env = h.Environ(env)
		if p, ok := h.(permitHold); ok {
			env = append(env, permitVar+"="+strconv.Itoa(p.number))
		}
	}
	env = append(env, lockVar+"="+strings.Join(paths, "\n"), predecessorVar+"="+strings.Join(before, "\n"))
	if !o.shared {
		env = append(env, fenceVar+"="+strings.Join(fences, "\n"))
	}
	cmd.Env = env
	if o.close {
		return nil
	}
	for _, h := range held {
		// If children can't hold the lock here, it is ours alone.
		if err := h.Attach(cmd); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

// predecessorOf returns a lock's predecessor, in a line of JSON; "" if there is none.
func predecessorOf(h hold) (string, error) {
	p, err := h.Predecessor()
	if err != nil || p == nil {
		return "", err
	}
	line, err := jsonLine(p)
	return strings.TrimSuffix(line, "\n"), err
}

// launch starts the command, and reports when it has started and when it has
// ended, with the errors of cmd.Start and cmd.Wait.
func launch(cmd *exec.Cmd) (started, ended <-chan error) {
	start, end := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel kills the command when the thread that forked it exits (see
		// dieWithUs). That thread is locked to this goroutine, which is there until the
		// command has ended. So it can't exit before: the runtime ends a locked thread only
		// together with its goroutine.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		start <- err
		if err == nil {
			end <- cmd.Wait()
		}
	}()
	return start, end
}

// cannotRun says why the command could not be started. The codes are a shell's. It shows
// only under the lock, as an earlier holder may have been the one to install the command.
func (a *app) cannotRun(err error) int {
	var at *fs.PathError
	if errors.As(err, &at) { // Go's "fork/exec" says nothing to people
		err = fmt.Errorf("%s: %w", at.Path, at.Err)
	}
	a.say("the command can't be run: " + oneLine(err))
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitCannotRun
}

// ended turns the end of the command into an exit code.
func (a *app) ended(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exitCode(exit)
	}
	return a.fail(err)
}

// letGo releases the locks, except those that descendants of the command have, and returns
// the exit code of it all. A lost lock has a code of its own, whatever the command's is:
// others may have been at work under the same lock, and a caller that retries, or takes the
// command's word, must know. If anything else fails here, the command's own failure says
// more than ours.
func (a *app) letGo(words *words, held []hold, code int, lost bool) int {
	isLost, failed := lost, false
	for _, h := range slices.Backward(held) {
		err := a.letGoOf(words, h, lost)
		isLost = isLost || errors.Is(err, lock.ErrLost)
		failed = failed || err != nil
	}
	switch {
	case isLost:
		a.say(fmt.Sprintf("exit code %d, as the lock was lost; the command's own exit code was %d", exitLost, code))
		return exitLost
	case !failed || code != exitOK:
		return code
	}
	return exitError
}

// letGoOf releases one lock, or leaves it to what the command has left behind. It tells what
// becomes of the lock.
func (a *app) letGoOf(words *words, held hold, lost bool) error {
	left, err := held.LeaveToChildren()
	isLost := errors.Is(err, lock.ErrLost)
	switch {
	case left && err == nil:
		a.tellHeirs(held.Path())
	case lost && (err == nil || isLost): // it has been said
	case isLost:
		a.say("lost " + visible(held.Path()) + ": " + words.lost)
		a.more(words.lostLater + "; another command may have run at the same time")
	case err != nil:
		a.say("releasing the lock: " + oneLine(err))
		a.more(words.leftover)
	}
	return err
}

// tellHeirs names the processes that have the lock when holdfast itself has ended. One may be
// a daemon that was not meant to have it.
func (a *app) tellHeirs(path string) {
	status, err := lock.File{Path: path}.Inspect(context.Background())
	if err != nil || status.Gone == nil && !status.Shared {
		return // they have just ended
	}
	a.say("the command has ended, and " + visible(path) + " stays locked: " + fileWords.processes(status.Processes))
	a.more("the lock is free when what the command has left behind has ended; with --close it would be free now")
}
