package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// member is a process that waits, holds and lets go as it is told:
//
//	acquire, shared, try, try-shared   "held", or "locked: EVIDENCE"; before it "waiting", if it waits
//	give up shared                     the same, and it waits no more once it has begun to
//	release                            "released", or "lost"
//	note TEXT                          "noted"
//	park STEP                          no answer; "parked" when that step is reached, and then nothing more before "go"
//	close all                          "closed": it has lost its files, as if it were ending
//	become UID                         no answer; another user, with umask 077 (Linux, root)
//	perm MODE                          no answer; File.Perm from here on
//	key SPACE NAME                     no answer; the path is a Dir's, and this is the lock from here on
//	status                             "STATE, EVIDENCE, USER"
//	tidy folder                        each file that Tidy finds there, and "goes" or "stays"
//	tidy                               no answer; it removes the sibling, too, from here on
//	fallback                           no answer; as on a system without kernel locks from here on
func member(path string, orders *bufio.Scanner) {
	var held *lock.FileHold
	f := lock.File{Path: path, Cmd: "member", Observe: sayWaiting{}.Observe}
	ctx := context.Background()
	for orders.Scan() {
		verb, arg, _ := strings.Cut(orders.Text(), " ")
		var err error
		switch verb {
		case "park":
			parked := false
			f = f.Park(func(step string) {
				if step == arg && !parked {
					parked = true
					fmt.Println("parked")
					orders.Scan()
				}
			})
			continue
		case "close":
			closeAll(path)
			fmt.Println("closed")
			continue
		case "note":
			if err := held.Note(arg); err != nil {
				fmt.Println("error:", err)
				continue
			}
			fmt.Println("noted")
			continue
		case "fallback":
			f = f.WithoutKernelLock()
			continue
		case "become":
			become(arg)
			continue
		case "perm":
			n, _ := strconv.ParseUint(arg, 8, 32)
			f.Perm = fs.FileMode(n)
			continue
		case "key":
			space, name, _ := strings.Cut(arg, " ")
			if f, err = (lock.Dir{Path: path, File: f}).At(lock.Key{Space: space, Name: name}); err != nil {
				fmt.Println("error:", err)
			}
			continue
		case "status":
			s, err := f.Inspect(ctx)
			if err != nil {
				fmt.Println("error:", err)
				continue
			}
			if s.NotPermitted {
				s.Info = &evidence.Claim{User: "not permitted"}
			} else if s.Info == nil {
				s.Info = new(evidence.Claim)
			}
			fmt.Printf("%s, %s, %s\n", s.State, s.Evidence, s.Info.User)
			continue
		case "tidy":
			if arg == "folder" {
				for file, err := range lock.Tidy(ctx, filepath.Dir(path), lock.Tidying{}) {
					fmt.Print(filepath.Base(file.Path), map[bool]string{true: " goes ", false: " stays "}[file.Removed && err == nil])
				}
				fmt.Println()
				continue
			}
			f.Tidy = true
			continue
		case "release":
			switch err := held.Release(); {
			case errors.Is(err, lock.ErrLost):
				fmt.Println("lost")
			case err != nil:
				fmt.Println("error:", err)
			default:
				fmt.Println("released")
			}
			continue
		case "give":
			waiting, cancel := context.WithCancel(ctx)
			g := f
			g.Observe = sayWaiting{cancel}.Observe
			held, err = sharing(g).Acquire(waiting)
			cancel()
		case "acquire":
			held, err = f.Acquire(ctx)
		case "shared":
			held, err = sharing(f).Acquire(ctx)
		case "try":
			held, err = f.TryAcquire(ctx)
		case "try-shared":
			held, err = sharing(f).TryAcquire(ctx)
		}
		var locked *lock.LockedError
		switch {
		case errors.As(err, &locked):
			fmt.Println("locked:", locked.Evidence)
		case err != nil:
			fmt.Println("error:", err)
		default:
			fmt.Println("held")
		}
	}
}

// become makes this process another user's.
var become = func(uid string) {}

// closeAll closes this process's open files of a lock.
var closeAll = func(path string) {}

// sayWaiting says that a wait has begun, and calls then, if that is not nil.
type sayWaiting struct{ then func() }

func (s sayWaiting) Observe(e lock.Event) {
	if e.Kind == lock.EventWaiting && e.Duration == 0 {
		fmt.Println("waiting")
		if s.then != nil {
			s.then()
		}
	}
}

// outcome is what came of an acquisition.
type outcome struct {
	held *lock.FileHold
	err  error
}

// begin starts to acquire in another goroutine, and returns once that one is in
// the queue, or has been there.
func begin(t *testing.T, f lock.File, shared bool, acquire func() (*lock.FileHold, error)) <-chan outcome {
	t.Helper()
	before := lock.QueueLen(f, shared)
	came := make(chan outcome, 1)
	go func() {
		held, err := acquire()
		came <- outcome{held, err}
	}()
	eventually(t, "a place in the queue", func() bool { return lock.QueueLen(f, shared) == before+1 || len(came) > 0 })
	return came
}

func beginAcquire(t *testing.T, ctx context.Context, f lock.File) <-chan outcome {
	t.Helper()
	return begin(t, f, false, func() (*lock.FileHold, error) { return f.Acquire(ctx) })
}

// get returns what came, and fails the test if nothing does.
func get(t *testing.T, came <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-came:
		return o
	case <-time.After(patience):
		t.Fatal("the acquisition hangs")
		return outcome{}
	}
}

// getHeld is get for one that must succeed.
func getHeld(t *testing.T, came <-chan outcome) *lock.FileHold {
	t.Helper()
	o := get(t, came)
	check(t, o.err)
	return o.held
}

// parkedIs waits until so many threads wait in the kernel.
func parkedIs(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d threads parked", n), func() bool { return lock.Parked() == n })
}

// queued gives a lock where waiting is in the kernel, and skips where it isn't.
func queued(t *testing.T) lock.File {
	t.Helper()
	if !platform.OwnLocks {
		t.Skip("needs a system where lock files have kernel locks of their own, to wait for them")
	}
	parkedIs(t, 0) // of earlier tests
	return lock.File{Path: filepath.Join(t.TempDir(), ".lock")}
}

// wantFree checks that nobody has the lock, nor anything of it: not even a wait
// that its caller has left.
func wantFree(t *testing.T, path string) {
	t.Helper()
	parkedIs(t, 0)
	if err := peek(path + ".flock"); err != nil {
		t.Errorf("kernel lock: %v; want it free", err)
	}
	if platform.HasTurnstile() {
		if turnstile, err := takeTurnstile(path + ".flock"); err != nil {
			t.Errorf("turnstile: %v; want it free", err)
		} else {
			turnstile.Close()
		}
	}
	left := func() string { return names(t, filepath.Dir(path)) }
	want := filepath.Base(path) + ".flock"
	if !platform.HasTurnstile() {
		// There a file is locked by its path, so a wait for the file before it can have this
		// one's lock for an instant. A last reader who meets that removes the file a little later.
		eventually(t, "only "+want+" is left", func() bool { return left() == want })
	}
	equal(t, left(), want, "left behind")
	equal(t, lock.Queues(), 0, "queues are left")
	// Whoever left readers behind looks for a moment whether they have gone: see clearSoon.
	eventually(t, "all is closed", func() bool { return len(openUnder(t, filepath.Dir(path))) == 0 })
}

// openUnder lists this process's open files in a folder.
func openUnder(t *testing.T, dir string) (open []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc, to count open files: ", err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			open = append(open, to)
		}
	}
	return open
}
