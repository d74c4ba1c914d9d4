package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/holdfast-go/holdfast/lock"
)

// What the command finds in its environment.
const (
	lockVar  = "HOLDFAST_LOCK"  // the lock file, absolute
	fenceVar = "HOLDFAST_FENCE" // FileHold.Fence, decimal
)

// hold is what is needed of a *lock.FileHold; a test has one that it can lose.
type hold interface {
	Path() string
	Fence() (int64, error)
	Lost() <-chan struct{}
	Release() error
}

// supervise runs the command under a lock that is held, and returns the exit code
// that it calls for. lost reports that the lock was lost meanwhile.
func (a *app) supervise(argv []string, held hold, signals <-chan os.Signal) (code int, lost bool) {
	// Without a fence the command is not run: one that relies on it would have to
	// refuse all its work, or worse, take an empty string for a number.
	fence, err := held.Fence()
	if err != nil {
		return a.fail(err), false
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	// These are files, which the command inherits: nothing is copied in between.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
	cmd.Env = append(os.Environ(), lockVar+"="+held.Path(), fenceVar+"="+strconv.FormatInt(fence, 10))
	cmd.SysProcAttr = dieWithUs()
	started, ended := launch(cmd)
	if err := <-started; err != nil {
		return a.cannotRun(err), false
	}
	loss := held.Lost()
	for {
		select {
		case err := <-ended:
			return a.ended(err), lost
		case s := <-signals:
			forward(cmd.Process, s)
			suspend(s)
		case <-loss:
			loss, lost = nil, true // a closed channel would be ready for ever
			a.say("lost " + visible(held.Path()) + ": its lock file is no longer ours")
			a.more("someone removed it, or took us for dead; others may be at work under that lock, so the command is asked to end")
			terminate(cmd.Process)
		}
	}
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

// letGo releases the lock, and returns the exit code of it all. A lost lock has a code of
// its own, whatever the command's is: others may have been at work under the same lock, and
// whoever retries, or takes the command's word, must know. If anything else fails here, the
// command's own failure says more than ours.
func (a *app) letGo(held hold, code int, lost bool) int {
	err := held.Release()
	isLost := errors.Is(err, lock.ErrLost)
	switch {
	case lost && (err == nil || isLost): // it has been said
	case isLost:
		a.say("lost " + visible(held.Path()) + ": its lock file is no longer ours")
		a.more("someone removed or replaced it while the command ran; another command may have run at the same time")
	case err != nil:
		a.say("releasing the lock: " + oneLine(err))
		a.more("its lock file may still be there; as its holder is gone now, the next one takes it over")
	}
	switch {
	case lost || isLost:
		a.say(fmt.Sprintf("exit code %d, as the lock was lost; the command's own exit code was %d", exitLost, code))
		return exitLost
	case err == nil || code != exitOK:
		return code
	}
	return exitError
}
