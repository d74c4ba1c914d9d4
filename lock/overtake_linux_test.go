package lock_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"golang.org/x/sys/unix"
)

// countingSteps counts the steps that the lock goes through.
func countingSteps(f lock.File, step string) (lock.File, *atomic.Int32) {
	var n atomic.Int32
	return f.Park(func(at string) {
		if at == step {
			n.Add(1)
		}
	}), &n
}

// TestStuck_AtTheTurnstile: somebody stands at the turnstile, and does not take the lock
// that is free, as they were stopped. They are overtaken, and that they are stuck is
// remembered until they move: the price is paid once.
func TestStuck_AtTheTurnstile(t *testing.T) {
	needsTurnstile(t)
	for name, stand := range map[string]func(t *testing.T, f lock.File) (move func()){
		"stopped on the way in": func(t *testing.T, f lock.File) func() {
			// Behind a holder, so first in the queue; stopped; and the holder goes.
			held := tryHold(t, f)
			first := start(t, "member", f.Path)
			first.Do("acquire", "waiting")
			waitedFor(t, f)
			first.Stop()
			letGo(t, held)
			return func() {
				first.Continue()
				first.Expect("held")
				first.Do("release", "released")
			}
		},
		"a shared wait that was given up": func(t *testing.T, f lock.File) func() {
			held := tryHold(t, f)
			first := start(t, "member", f.Path)
			first.Do("give up shared", "waiting")
			first.Expect("locked: kernel lock held")
			first.Stop()
			letGo(t, held)
			return func() {
				first.Continue()
				first.Order("shared") // which takes the wait that was left behind, or comes after it
				for first.Answer() == "waiting" {
				}
				first.Do("release", "released")
			}
		},
		"anybody's byte lock": func(t *testing.T, f lock.File) func() {
			letGo(t, tryHold(t, f)) // makes the sibling
			turnstile, err := takeTurnstile(f.Path + ".flock")
			check(t, err)
			return func() { turnstile.Close() }
		},
	} {
		for _, mode := range []string{"exclusive", "shared"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				f := queued(t)
				move := stand(t, f)
				f, looks := countingSteps(f, lock.StepLooked)
				acquire := inMode(f, mode == "shared")
				for range 20 {
					held, err := acquire(t.Context())
					check(t, err)
					letGo(t, held)
				}
				// The first had to look, twice at least; the others had no need to.
				if n := looks.Load(); n > 10 {
					t.Errorf("%d looks for 20 acquisitions", n)
				}
				// Once it has moved, the queue is what it was.
				move()
				parkedIs(t, 0)
				again := looks.Load()
				for range 20 {
					held, err := acquire(t.Context())
					check(t, err)
					letGo(t, held)
				}
				if n := looks.Load() - again; n != 0 {
					t.Errorf("%d looks for a free lock", n)
				}
				wantFree(t, f.Path)
			})
		}
	}
}

// TestStuck_WithTheSibling: a process that is stopped between two steps has the sibling's lock,
// and not its lock file's. It counts as the holder, however long that takes: others wait, are
// told of it, and are never in together, those who go by flock(1) on the sibling among them.
func TestStuck_WithTheSibling(t *testing.T) {
	for step, does := range map[string]func(t *testing.T, f lock.File, p *child){
		lock.StepSiblingLocked: func(_ *testing.T, _ lock.File, p *child) { p.Do("try", "parked") },
		lock.StepCreated:       func(_ *testing.T, _ lock.File, p *child) { p.Do("try", "parked") },
		lock.StepOwnUnlocked: func(_ *testing.T, _ lock.File, p *child) {
			p.Do("try", "held")
			p.Do("release", "parked")
		},
		lock.StepGranted: func(t *testing.T, f lock.File, p *child) { // with the turnstile
			needsTurnstile(t)
			held := tryHold(t, f)
			p.Do("acquire", "waiting")
			waitedFor(t, f)
			letGo(t, held)
			p.Expect("parked")
		},
	} {
		t.Run(step, func(t *testing.T) {
			f := queuedListed(t)
			stuck := start(t, "member", f.Path)
			stuck.Order("park " + step)
			does(t, f, stuck)
			stuck.Stop()

			var inside atomic.Int32
			leave := make(chan struct{})
			enter := func(in chan<- error) {
				if inside.Add(1) > 1 {
					t.Error("two are in together")
				}
				in <- nil
				<-leave
				inside.Add(-1)
			}
			watched, looks := countingSteps(f, lock.StepLooked)
			waiter, flocked := make(chan error, 1), make(chan error, 1)
			var both sync.WaitGroup
			both.Go(func() {
				if held, err := watched.Acquire(t.Context()); err != nil {
					waiter <- err
				} else {
					enter(waiter)
					letGo(t, held)
				}
			})
			both.Go(func() {
				k, err := os.Open(f.Path + ".flock")
				if err == nil {
					err = unix.Flock(int(k.Fd()), unix.LOCK_EX)
				}
				if err != nil {
					flocked <- err
				} else {
					enter(flocked)
				}
				k.Close()
			})
			eventually(t, "four looks", func() bool { return looks.Load() >= 4 || len(waiter)+len(flocked) > 0 })
			early := len(waiter)+len(flocked) > 0
			if early {
				t.Error("somebody is in before the one who is stopped")
			}
			if l := notHad(t, f); l.Evidence != lock.EvidenceKernelLockHeld || !slices.Equal(pids(l.Processes), []int{stuck.Cmd.Process.Pid}) || !strings.Contains(l.Error(), ", stopped") {
				t.Error(l)
			}
			if s := inspect(t, f); s.State != lock.StateHeld || s.Evidence != lock.EvidenceKernelLockHeld ||
				len(s.Processes) != 1 || s.Processes[0].PID != stuck.Cmd.Process.Pid || !s.Processes[0].Stopped {
				t.Errorf("%+v", s)
			}
			stuck.Continue()
			stuck.Order("go")
			if step == lock.StepOwnUnlocked {
				stuck.Expect("released")
			} else if got := stuck.Answer(); got == "held" {
				stuck.Do("release", "released")
			} else {
				t.Error("the first one has lost its place: ", got)
			}
			if early { // then both get in
				check(t, errors.Join(<-waiter, <-flocked))
			}
			close(leave)
			both.Wait()
			wantFree(t, f.Path)
		})
	}
}

// TestStuck_NotOvertaken: who has the sibling's lock in another way, or the lock, though its
// file was removed, is not overtaken, however long they take.
func TestStuck_NotOvertaken(t *testing.T) {
	for name, hold := range map[string]func(t *testing.T, f lock.File) (end func()){
		"flock(1)": func(t *testing.T, f lock.File) func() {
			letGo(t, tryHold(t, f))
			k, err := os.Open(f.Path + ".flock")
			if err == nil {
				err = syscall.Flock(int(k.Fd()), syscall.LOCK_EX)
			}
			check(t, err)
			return func() { k.Close() }
		},
		"lock file removed": func(t *testing.T, f lock.File) func() {
			holder := start(t, "member", f.Path)
			holder.Do("try", "held")
			check(t, os.Remove(f.Path))
			return func() { holder.Do("release", "lost") }
		},
		"readers' lock file removed": func(t *testing.T, f lock.File) func() {
			holder := start(t, "member", f.Path)
			holder.Do("try-shared", "held")
			check(t, os.Remove(f.Path))
			return func() { holder.Do("release", "lost") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := queued(t)
			end := hold(t, f)
			watched, looks := countingSteps(f, lock.StepLooked)
			waiter := beginAcquire(t, t.Context(), watched)
			eventually(t, "four looks", func() bool { return looks.Load() >= 4 })
			select {
			case o := <-waiter:
				t.Fatal("overtaken: ", o.held, o.err)
			default:
			}
			end()
			letGo(t, getHeld(t, waiter))
			wantFree(t, f.Path)
		})
	}
}

// TestStuck_Forgotten: once whoever stood at a turnstile has moved, newcomers stand behind it
// again.
func TestStuck_Forgotten(t *testing.T) {
	needsTurnstile(t)
	f := queued(t)
	letGo(t, tryHold(t, f)) // makes the sibling
	stand := func() (move func()) {
		turnstile, err := takeTurnstile(f.Path + ".flock")
		check(t, err)
		return func() { turnstile.Close() }
	}
	move := stand()
	letGo(t, getHeld(t, beginAcquire(t, t.Context(), f)))
	move()
	parkedIs(t, 0)
	move = stand()
	waited := false
	letGo(t, getHeld(t, beginAcquire(t, t.Context(), f.Park(func(step string) {
		if step == lock.StepParks {
			waited = true
			move()
		}
	}))))
	if !waited {
		t.Error("a newcomer has passed by somebody at the turnstile")
	}
	wantFree(t, f.Path)
}
