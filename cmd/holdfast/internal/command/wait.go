package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// waitOptions is what a call of "holdfast wait" asks for.
type waitOptions struct {
	timed   bool // timeout was given
	timeout time.Duration
	quiet   bool
	locks   []string
}

// wait returns when each of the locks has been free, one after the other.
func (a *app) wait(args []string) int {
	o, code, ok := a.parseWait(args)
	if !ok {
		return code
	}
	if o.quiet {
		silent := *a
		silent.stderr = io.Discard
		a = &silent
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, caughtSignals()...)
	defer signal.Stop(signals)
	ctx := context.Background()
	if o.timed {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	for _, path := range o.locks {
		if code := a.waitFor(ctx, o, lock.File{Path: path}, signals); code != exitOK {
			return code
		}
	}
	return exitOK
}

func (a *app) parseWait(args []string) (o waitOptions, code int, ok bool) {
	flags := newFlags("wait")
	duration(flags, &o.timeout, "timeout")
	flags.BoolVar(&o.quiet, "quiet", false, "")
	if code, ok := a.parse(flags, args); !ok {
		return o, code, false
	}
	o.timed, o.locks = isSet(flags, "timeout"), flags.Args()
	if len(o.locks) == 0 {
		return o, a.misuse("wait", "LOCK is missing"), false
	}
	for i, path := range o.locks {
		if i > 0 && strings.HasPrefix(path, "-") {
			return o, a.misuse("wait", "flags go before LOCK: "+visible(path)), false
		}
		if wrong := noLock(path); wrong != "" {
			return o, a.misuse("wait", wrong), false
		}
	}
	return o, exitOK, true
}

// waitFor waits for one lock, and returns the exit code that comes of it.
func (a *app) waitFor(ctx context.Context, o waitOptions, file lock.File, signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// As in take, signals and notices are handled here, one at a time.
	results := make(chan error, 1)
	go func() { results <- awaitWhole(ctx, file) }()
	notice := &waitNotice{at: files{}, name: file.Path}
	ticker := time.NewTicker(noticeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			a.tellWait(ctx, notice)
		case s := <-signals:
			cancel()
			<-results
			a.say(fmt.Sprintf("stopped waiting (%s) for %s", s, visible(file.Path)))
			return exitSignal + signalNumber(s)
		case err := <-results:
			return a.waited(o, err)
		}
	}
}

// awaitWhole waits until a lock is free, and nobody has a permit of it.
func awaitWhole(ctx context.Context, file lock.File) error {
	if err := awaitFree(ctx, file); err != nil {
		return err
	}
	err := withoutPermits(ctx, files{}, []string{file.Path}, false)
	var locked *lock.LockedError
	if err != nil && !errors.As(err, &locked) && errors.Is(err, context.DeadlineExceeded) {
		return withoutPermits(context.Background(), files{}, []string{file.Path}, true)
	}
	return err
}

// awaitFree waits until a lock is free. If ctx allows no wait, or that would be in vain, it
// only looks.
func awaitFree(ctx context.Context, file lock.File) error {
	if !isObstacle(file.Path) {
		err := file.AwaitFree(ctx)
		var locked *lock.LockedError
		if err == nil || errors.As(err, &locked) || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	s, err := file.Inspect(context.Background())
	if err != nil || s.State == evidence.Free || s.State == evidence.Dead {
		return err
	}
	return asRefusal(s)
}

// waited tells, for a lock that is not free, why the wait is over.
func (a *app) waited(o waitOptions, err error) int {
	var locked *lock.LockedError
	var out *permitsOut
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &out):
		a.noWhole(files{}, out, o.timeout, "")
		return exitNotHad
	case !errors.As(err, &locked):
		return a.fail(err)
	case errors.Is(err, lock.ErrReentrant):
		a.say(visible(locked.Path) + " is held by a process that has started this one, and would be waited for in vain")
		found := locked.Status
		fileWords.describeWith(a.stderr, found, insteadOfWaiting(found))
		return exitNotHad
	case errors.Is(err, lock.ErrTimeout):
		a.say(fmt.Sprintf("%s is still locked after %s", visible(locked.Path), o.timeout))
	default:
		a.say(visible(locked.Path) + " is locked")
	}
	fileWords.describe(a.stderr, locked.Status)
	return exitNotHad
}
