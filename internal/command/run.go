package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// runOptions is what a call of "holdfast run" asks for.
type runOptions struct {
	try     bool
	timed   bool // timeout was given
	timeout time.Duration
	// conflict is the exit code for a lock that somebody else has.
	conflict int
	// close keeps the lock from the command: it is holdfast's alone.
	close    bool
	killTree bool
	grace    time.Duration
	shared   bool
	quiet    bool
	stderr   io.Writer // the command's; ours too, unless quiet
	file     lock.File // the options of each lock
	label    string
	locks    []string
	command  []string
}

func (a *app) run(args []string) int {
	o, code, ok := a.parseRun(args)
	if !ok {
		return code
	}
	o.stderr = a.stderr
	if o.quiet {
		silent := *a
		silent.stderr = io.Discard
		a = &silent
	}
	// From here on a signal must not end us before the lock is let go.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, runSignals()...)
	defer signal.Stop(signals)

	var descendants *tree
	if o.killTree {
		t, err := newTree(o.grace)
		if err != nil {
			return a.misuse("run", "-kill-tree can't be had here: "+oneLine(err))
		}
		descendants = t
	}
	held, code, ok := a.take(o, o.files(), signals)
	if !ok {
		return code
	}
	code, lost := a.supervise(o, descendants, held, signals)
	return a.letGo(held, code, lost)
}

func (a *app) parseRun(args []string) (o runOptions, code int, ok bool) {
	flags := newFlags("run")
	flags.BoolVar(&o.try, "try", false, "")
	duration(flags, &o.timeout, "timeout")
	flags.IntVar(&o.conflict, "conflict-exit-code", exitNotHad, "")
	flags.BoolVar(&o.close, "close", false, "")
	flags.BoolVar(&o.shared, "shared", false, "")
	flags.BoolVar(&o.quiet, "quiet", false, "")
	flags.BoolVar(&o.file.RequireKernelLock, "require-kernel-lock", false, "")
	flags.Func("stale-after", "", o.staleAfter)
	flags.BoolVar(&o.killTree, "kill-tree", false, "")
	o.grace = 10 * time.Second
	duration(flags, &o.grace, "grace")
	flags.StringVar(&o.label, "label", "", "")
	if code, ok := a.parse(flags, args); !ok {
		return o, code, false
	}
	o.timed = isSet(flags, "timeout")
	if isSet(flags, "grace") && !o.killTree {
		return o, a.misuse("run", "-grace is -kill-tree's, which is missing"), false
	}
	if what := o.arguments(flags.Args()); what != "" {
		return o, a.misuse("run", what), false
	}
	return o, exitOK, true
}

// arguments takes "LOCK... -- COMMAND...", and returns what is wrong with it. Package flag
// stops at LOCK, or behind a "--" before it (for a lock whose name begins with "-"). So the
// "--" behind LOCK is still there.
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
	end := slices.Index(args, "--")
	switch {
	case end < 0 && len(args) == 1:
		return "there is no command to run"
	case end < 0 && !strings.HasPrefix(args[1], "-"):
		return "the command goes behind \"--\", so that its flags are its own"
	case end < 0:
		end = len(args)
	case end == 0:
		return "LOCK is missing"
	}
	for _, arg := range args[1:end] {
		if strings.HasPrefix(arg, "-") {
			return fmt.Sprintf("flags go before LOCK: %s", visible(arg))
		}
	}
	if end+1 >= len(args) {
		return "there is no command behind \"--\""
	}
	for _, path := range args[:end] {
		if wrong := noLock(path); wrong != "" {
			return wrong
		}
	}
	o.locks, o.command = args[:end], args[end+1:]
	return ""
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

// files returns the locks to take.
func (o *runOptions) files() (files []lock.File) {
	for _, path := range o.locks {
		file := o.file
		file.Path, file.Cmd = path, o.title()
		files = append(files, file)
	}
	return files
}

// title is what the lock file says of us.
func (o *runOptions) title() string {
	if o.label != "" {
		return o.label
	}
	return label(o.command)
}

// acquire gets the locks as the options say, all or none.
func (o *runOptions) acquire(ctx context.Context, files []lock.File) ([]hold, error) {
	acquire, try := lock.AcquireAll, lock.TryAcquireAll
	if o.shared {
		acquire, try = lock.AcquireAllShared, lock.TryAcquireAllShared
	}
	limited := ctx
	if o.timed {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	if o.try || o.timed && o.timeout == 0 || slices.ContainsFunc(o.locks, isObstacle) {
		acquire, limited = try, ctx
	}
	set, err := acquire(limited, files...)
	var locked *lock.ErrLocked
	if err != nil && !errors.As(err, &locked) && limited.Err() != nil && ctx.Err() == nil {
		// The limit had passed before the look at one of them. As for AcquireWithin, what is
		// free needs no time.
		set, err = try(ctx, files...)
		if errors.As(err, &locked) && locked.Cause == nil {
			locked.Waited, locked.Cause = o.timeout, lock.ErrTimeout
		}
	}
	if err != nil {
		return nil, err
	}
	var all []hold
	for _, h := range set.Held() {
		all = append(all, h.(*lock.FileHold))
	}
	return all, nil
}

// isObstacle reports whether something is at a lock's path that no holder put there: a
// link, a device. Unlike a lock file it won't go away, so there is no point in waiting for
// it.
func isObstacle(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && !info.Mode().IsRegular()
}

// take acquires the locks. If it can't, ok is false, and the command is over with this exit
// code.
func (a *app) take(o runOptions, files []lock.File, signals <-chan os.Signal) (held []hold, code int, ok bool) {
	type result struct {
		held []hold
		err  error
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Acquire goes on beside us, and signals and notices are handled here, one at a time.
	// So no message can follow the news that it contradicts.
	results := make(chan result, 1)
	go func() {
		held, err := o.acquire(ctx, files)
		results <- result{held, err}
	}()

	var waits []*waitNotice
	for _, file := range files {
		waits = append(waits, &waitNotice{file: file})
	}
	ticker := time.NewTicker(noticeEvery)
	defer ticker.Stop()
	var caught os.Signal
	for {
		select {
		case <-ticker.C:
			for _, wait := range waits {
				if caught == nil {
					a.tellWait(ctx, wait)
				}
			}
		case s := <-signals:
			// Acquire is still waited for: when it returns nothing is left behind.
			if caught == nil && endsWait(s) {
				caught = s
				cancel()
			}
			suspend(s)
		case r := <-results:
			if caught != nil {
				return nil, a.gaveUp(r.held, caught), false
			}
			return r.held, a.taken(o, r.err), r.err == nil
		}
	}
}

// gaveUp finishes a wait that a signal ended. The locks may have come just then.
func (a *app) gaveUp(held []hold, s os.Signal) int {
	for _, h := range slices.Backward(held) {
		if _, err := h.LeaveToChildren(); err != nil { // there are none
			a.say("releasing the lock: " + oneLine(err))
		}
	}
	a.say(fmt.Sprintf("stopped waiting (%s); the lock was not taken, and the command not run", s))
	return exitSignal + signalNumber(s)
}

// taken says why the lock could not be had, if so.
func (a *app) taken(o runOptions, err error) int {
	var locked *lock.ErrLocked
	switch {
	case err == nil:
		return exitOK
	case !errors.As(err, &locked):
		return a.fail(err)
	}
	path := visible(locked.Path)
	if errors.Is(err, lock.ErrReentrant) {
		a.say(path + " is held by a process that has started this one, and would be waited for in vain; the command was not run")
		describe(a.stderr, refusal(locked))
		return o.conflict
	} else if errors.Is(err, lock.ErrTimeout) {
		a.say(fmt.Sprintf("%s is still locked after %s; the command was not run", path, o.timeout))
	} else {
		a.say(path + " is locked; the command was not run")
	}
	describe(a.stderr, refusal(locked))
	return o.conflict
}

// noticeEvery is how long a wait may last before people are told of it, and the time
// between looks for another holder.
const noticeEvery = time.Second

// waitNotice is what has been told of a wait.
type waitNotice struct {
	file   lock.File
	told   bool
	holder holding
}

// holding tells one holding of a lock from another. RenewedAt is no part of it, as a living
// holder changes it.
type holding struct {
	pid     int
	created int64
	nonce   string
}

// tellWait says who holds the lock we wait for, if that is news.
func (a *app) tellWait(ctx context.Context, w *waitNotice) {
	status, err := w.file.Inspect(ctx)
	if err != nil || status.State == lock.StateFree || status.State == lock.StateDead {
		return // it is about to be ours, or somebody's; and errors are Acquire's to tell
	}
	var holder holding
	if isSelf(status) {
		return // Acquire has just got it
	}
	if h := status.Info; h != nil {
		holder = holding{h.PID, h.CreatedAt.UnixNano(), h.Nonce}
	}
	if w.told && holder == w.holder {
		return
	}
	w.told, w.holder = true, holder
	a.say("waiting for " + visible(status.Path))
	describe(a.stderr, status)
	if os.Getenv(lockVar) == status.Path {
		a.more("          holdfast was itself started under this lock (" + lockVar + "): it may be waiting for its own end")
	}
}

// isSelf reports whether this process, and nobody else, has a lock. (A holder with this pid
// in another container is taken for this process, and only not told of.)
func isSelf(s lock.Status) bool {
	if s.Info != nil {
		return s.Info.PID == os.Getpid()
	}
	return len(s.Processes) == 1 && s.Processes[0].PID == os.Getpid()
}
