package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
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
	close bool
	// nested runs the command under the hold of a process above, if this one has the lock from
	// there.
	nested   bool
	killTree bool
	grace    time.Duration
	shared   bool
	verbose  bool
	stderr   io.Writer // the command's; ours too, unless quiet
	file     lock.File // the options of each lock file
	engines  *engines
	label    string
	permits  int      // of the lock; 0: it is not shared out
	locks    []string // LOCK, and what --also names
	command  []string
	undone   string                                    // what is said not to have been done, if the lock can't be acquired; "" for nothing
	asks     func(ctx context.Context) ([]hold, error) // acquires the locks, or waits for them
}

func (a *app) run(o *runOptions) (int, error) {
	o.stderr = a.loud
	o.file.Cmd = o.title()
	at, leave, err := o.engines.open(o.file)
	if err != nil {
		return 0, err
	}
	defer leave()
	if o.permits > 0 {
		at = permitLocks{at, o.permits}
	}
	// From here on a signal must not end us before the lock is released.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, runSignals()...)
	defer signal.Stop(signals)

	var descendants *tree
	if o.killTree {
		if descendants, err = newTree(o.grace); err != nil {
			return 0, misused("--kill-tree can't be had here: %s", oneLine(err))
		}
	}
	if o.nested {
		o.locks = slices.DeleteFunc(slices.Clone(o.locks), heldAbove)
	}
	var held []hold
	if len(o.locks) > 0 {
		began := time.Now()
		o.asks = func(ctx context.Context) ([]hold, error) { return o.acquire(ctx, at, time.Since(began)) }
		var code int
		var ok bool
		if held, code, ok = a.take(context.Background(), *o, at, signals); !ok {
			return code, nil
		}
		if o.verbose {
			a.say(fmt.Sprintf("has the lock after %s; runs %s", time.Since(began), visible(o.command[0])))
		}
	}
	code, lost := a.supervise(*o, at.words(), descendants, held, signals)
	return a.letGo(at.words(), held, code, lost), nil
}

// acquire gets the locks as the options say, all or none. Some of the time may be over.
func (o *runOptions) acquire(ctx context.Context, at locks, over time.Duration) ([]hold, error) {
	limited := ctx
	if o.timed {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, max(0, o.timeout-over))
		defer cancel()
	}
	if o.try || o.timed && o.timeout == 0 {
		return at.acquire(ctx, o.locks, o.shared, true)
	}
	held, err := at.acquire(limited, o.locks, o.shared, false)
	var locked *lock.LockedError
	if err != nil && !errors.As(err, &locked) && limited.Err() != nil && ctx.Err() == nil {
		// The limit had passed before the look at one of them. As for AcquireWithin, what is
		// free needs no time.
		held, err = at.acquire(ctx, o.locks, o.shared, true)
		if errors.As(err, &locked) && locked.Cause == nil {
			locked.Waited, locked.Cause = o.timeout, lock.ErrTimeout
		}
	}
	return held, err
}

// take acquires the locks. If it can't, or ctx has ended, ok is false, and the command is
// over with this exit code.
func (a *app) take(ctx context.Context, o runOptions, at locks, signals <-chan os.Signal) (held []hold, code int, ok bool) {
	type result struct {
		held []hold
		err  error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Acquire goes on beside us. Signals and notices are handled here, one at a time, so no
	// message can follow the news that it contradicts.
	results := make(chan result, 1)
	begin := func() context.CancelFunc {
		ctx, giveUp := context.WithCancel(ctx)
		go func() {
			held, err := o.asks(ctx)
			results <- result{held, err}
		}()
		return giveUp
	}
	giveUp := begin()
	defer func() { giveUp() }()

	var waits []*waitNotice
	for _, name := range o.locks {
		waits = append(waits, &waitNotice{at: at, name: name, permits: o.permits > 0})
	}
	ticker := time.NewTicker(noticeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, wait := range waits {
				if ctx.Err() == nil {
					a.tellWait(ctx, wait)
				}
			}
		case s := <-signals:
			// Acquire is still waited for: when it returns nothing is left behind.
			if endsWait(s) {
				cancel(signalled{s})
			}
			if o.permits == 0 || !stopsUs(s) {
				suspend(s)
				continue
			}
			// The first waiter for a permit has the gate, and would keep back all others.
			giveUp()
			r := <-results
			suspend(s)
			if errors.Is(r.err, context.Canceled) {
				giveUp = begin()
			} else { // it has come just now
				results <- r
			}
		case r := <-results:
			if ctx.Err() != nil {
				return nil, a.gaveUp(o, r.held, context.Cause(ctx)), false
			}
			return r.held, a.taken(o, at, r.err), r.err == nil
		}
	}
}

// signalled is the cause of a wait's end.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return s.String() }

// gaveUp finishes a wait that a signal, or something else, has ended. The locks may have come
// just then.
func (a *app) gaveUp(o runOptions, held []hold, why error) int {
	a.giveBack(held)
	if o.undone == "" {
		a.say(fmt.Sprintf("stopped waiting (%s) for %s", oneLine(why), visible(o.locks[0])))
	} else {
		a.say(fmt.Sprintf("stopped waiting (%s); the lock was not taken, and %s", oneLine(why), o.undone))
	}
	if s, ok := why.(signalled); ok {
		return exitSignal + signalNumber(s.Signal)
	}
	return exitError
}

// giveBack releases locks under which nothing was done, so that the next holder learns of the
// last one with work done.
func (a *app) giveBack(held []hold) {
	for _, h := range slices.Backward(held) {
		var err error
		if file, ok := h.(interface{ ReleaseUnused() error }); ok {
			err = file.ReleaseUnused()
		} else {
			_, err = h.LeaveToChildren() // there are none
		}
		if err != nil {
			a.say("releasing the lock: " + oneLine(err))
		}
	}
}

// taken says why the lock could not be acquired, if so.
func (a *app) taken(o runOptions, at locks, err error) int {
	var locked *lock.LockedError
	switch {
	case err == nil:
		return exitOK
	case !errors.As(err, &locked):
		return a.fail(err)
	}
	if o.permits > 0 {
		return a.noPermit(o, at, err, locked)
	}
	undone := ""
	if o.undone != "" {
		undone = "; " + o.undone
	}
	var out *permitsOut
	if errors.As(err, &out) {
		a.noWhole(at, out, o.timeout, undone)
		return o.conflict
	}
	path := visible(locked.Path)
	found := at.refusal(context.Background(), locked)
	next := at.words().advice(found)
	if errors.Is(err, lock.ErrReentrant) {
		above := "a process that has started this one"
		if found.Info != nil && found.Info.OwnerPID != 0 {
			above = "a session from which this process comes"
		}
		a.say(path + " is held by " + above + ", and would be waited for in vain" + undone)
		next = insteadOfWaiting(found)
		if _, ok := at.(files); ok && len(o.command) > 0 && heldAbove(locked.Path) {
			next = []string{"with --nested, the command runs under that hold"}
		}
	} else if errors.Is(err, lock.ErrTimeout) {
		a.say(fmt.Sprintf("%s is still locked after %s%s", path, o.timeout, undone))
	} else {
		a.say(path + " is locked" + undone)
	}
	at.words().describeWith(a.stderr, found, next)
	return o.conflict
}
