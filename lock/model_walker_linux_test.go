package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-go/holdfast/lock"
)

func init() {
	roles["walker"] = walker
	roles["another program"] = func(_ string, orders *bufio.Scanner) {
		fmt.Println("at another program")
		for orders.Scan() {
		}
	}
}

// walker is a process of the model (tests/model). It acquires, holds and releases, and pauses
// at each hook, which it tells: "at STEP". It goes on when it is told to.
//
//	begin ROLE PATH [tidy] [fence]   it starts, and goes to the first hook
//	go                               it goes to the next one
//	cancel                           the same, after its context has ended
//	exec                             it becomes another program
func walker(_ string, orders *bufio.Scanner) {
	at, goOn := make(chan string), make(chan bool)
	var cancel context.CancelFunc
	for orders.Scan() {
		switch fields := strings.Fields(orders.Text()); fields[0] {
		case "begin":
			var ctx context.Context
			ctx, cancel = context.WithCancel(context.Background())
			defer cancel()
			// What goes on in the background, while it pauses or when it is over, does not pause.
			var pauses, over atomic.Bool
			pause := func(step string) {
				if !over.Load() && pauses.CompareAndSwap(false, true) {
					at <- step
					<-goOn
					pauses.Store(false)
				}
			}
			w := walk{File: lock.File{Path: fields[2], Cmd: "walker", StaleAfter: -1, Tidy: slices.Contains(fields, "tidy")}.Unprepared(),
				role: fields[1], fence: slices.Contains(fields, "fence"), pause: pause}
			lock.NeverLookAgain(w.Path)
			go func() {
				end := w.do(ctx)
				over.Store(true)
				at <- end
			}()
		case "exec":
			fmt.Println("error:", replaceMe("another program"))
			continue
		case "cancel":
			cancel()
			fallthrough
		default:
			goOn <- true
		}
		fmt.Println("at", <-at)
	}
}

// A walk is what a walker does. It returns where it ends.
type walk struct {
	lock.File
	role  string
	fence bool
	pause func(step string)
}

func (w walk) do(ctx context.Context) (end string) {
	if w.role == "i" {
		return w.inspect(ctx)
	}
	return w.acquire(ctx)
}

// inspect pauses when it has the lock file's own lock, for the first time.
func (w walk) inspect(ctx context.Context) (end string) {
	paused := false
	_, err := w.Park(func(step string) {
		if step == lock.StepPeeked && !paused {
			paused = true
			w.pause(step)
		}
	}).Inspect(ctx)
	if err != nil {
		return "error: " + err.Error()
	}
	return "done"
}

// acquire acquires, pauses as the holder, and releases.
func (w walk) acquire(ctx context.Context) (end string) {
	f := w.Park(func(step string) {
		if !lock.Passes(step) && (w.role != "b" || !lock.PassesInFallback(step)) {
			w.pause(step)
		}
	})
	if w.role == "b" {
		f = f.WithoutKernelLock()
	}
	acquire := map[string]func(context.Context) (*lock.FileHold, error){
		"w": f.Acquire, "b": f.Acquire, "r": sharing(f).Acquire, "t": f.TryAcquire, "u": sharing(f).TryAcquire,
	}[w.role]
	held, err := acquire(ctx)
	var locked *lock.LockedError
	switch {
	case errors.As(err, &locked), ctx.Err() != nil && errors.Is(err, context.Canceled):
		return "gave up"
	case err != nil:
		return "error: " + err.Error()
	}
	w.pause("held")
	if w.fence && (w.role == "w" || w.role == "t") {
		switch fence, err := held.Fence(); {
		case err == nil:
			err = appendLine(w.Path+".fences", fence)
			fallthrough
		case !errors.Is(err, lock.ErrLost):
			if err != nil {
				return "error: " + err.Error()
			}
		}
	}
	// Its file may be one that can't be removed: see withoutRemoval.
	if err := held.Release(); err != nil && !errors.Is(err, lock.ErrLost) && !errors.Is(err, fs.ErrPermission) {
		return "error: " + err.Error()
	}
	return "done"
}

// replaceMe has this process go on as another program, which has none of its files.
func replaceMe(role string) error {
	os.Setenv("HOLDFAST_TEST_ROLE", role)
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(exe, []string{exe, ""}, os.Environ())
}

func appendLine(path string, n int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, n)
	return errors.Join(err, f.Close())
}
