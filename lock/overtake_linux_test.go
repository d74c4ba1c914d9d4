package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
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
func TestStuck_AtTheTurnstile(t *testing.T) { // guards: W3
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
			return standAtTurnstile(t, f)
		},
	} {
		for _, mode := range []string{"exclusive", "shared"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				f := queued(t)
				move := stand(t, f)
				f, looks := countingSteps(f, lock.StepLooked)
				acquire := inMode(f, mode == "shared")
				for range 20 {
					held := must(acquire(t.Context()))(t)
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
					held := must(acquire(t.Context()))(t)
					letGo(t, held)
				}
				equal(t, looks.Load()-again, 0, "looks for a free lock")
				wantFree(t, f.Path)
			})
		}
	}
}

// TestStuck_Forgotten: once whoever stood at a turnstile has moved, newcomers stand behind it
// again. Before, readers who only try don't ask it, either.
func TestStuck_Forgotten(t *testing.T) { // guards: W3
	f := queued(t)
	move := standAtTurnstile(t, f)
	tries, busy := countingSteps(f, lock.StepBusy)
	tryShared := func() int32 {
		before := busy.Load()
		held := must(sharing(tries).TryAcquire(t.Context()))(t)
		letGo(t, held)
		return busy.Load() - before
	}
	that(t, tryShared() != 0, "a reader who tries has passed the turnstile by at once")
	letGo(t, getHeld(t, beginAcquire(t, t.Context(), f)))
	if n := tryShared(); n != 0 {
		t.Errorf("a reader has tried %d times at a turnstile that is known to be stuck", n)
	}
	move()
	parkedIs(t, 0)
	move = standAtTurnstile(t, f)
	waited := false
	letGo(t, getHeld(t, beginAcquire(t, t.Context(), f.Park(func(step string) {
		if step == lock.StepParks {
			waited = true
			move()
		}
	}))))
	if !waited {
		move()
		t.Error("a newcomer has passed by whoever stands at the turnstile")
	}
	wantFree(t, f.Path)
}

// TestStuck_TwiceInARow: a turnstile is passed by when two looks, one after the other, have found
// the sibling free. A reader who passes it by lets other readers in.
func TestStuck_TwiceInARow(t *testing.T) { // guards: W3
	for _, mode := range []string{"exclusive", "shared"} {
		t.Run(mode, func(t *testing.T) {
			f := queued(t)
			move := standAtTurnstile(t, f)
			looks := 0
			var other *platform.File
			acquire := inMode(f.Park(func(step string) {
				if step != lock.StepLooked {
					return
				}
				switch looks++; looks {
				case 1:
					var err error
					if other, err = lockFile(f.Path+".flock", platform.Exclusive); err != nil {
						t.Error(err)
					}
				case 2:
					other.Close()
				}
			}), mode == "shared")
			held := getHeld(t, begin(t, f, mode == "shared", func() (*lock.FileHold, error) { return acquire(t.Context()) }))
			that(t, looks == 4, "it was passed by at look %d; want the fourth", looks)
			if mode == "shared" {
				another := must(sharing(f).TryAcquire(t.Context()))(t)
				letGo(t, another)
			} else {
				notHad(t, f)
			}
			move()
			letGo(t, held)
			wantFree(t, f.Path)
		})
	}
}

// TestStuck_LeftAtTheTurnstile: a wait that was given up at the turnstile does not keep it when
// it comes to it: nobody would be behind it. But it does if another one has adopted it.
func TestStuck_LeftAtTheTurnstile(t *testing.T) { // guards: W3
	for _, adopted := range []bool{false, true} {
		t.Run(fmt.Sprintf("adopted: %t", adopted), func(t *testing.T) {
			f := queuedListed(t)
			held := tryHold(t, f)
			move := standAtTurnstile(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			gaveUp := beginAcquire(t, ctx, f)
			parkedIs(t, 1)
			cancel()
			get(t, gaveUp)
			var next <-chan outcome
			if adopted {
				watched, looks := countingSteps(f, lock.StepLooked)
				next = beginAcquire(t, t.Context(), watched)
				eventually(t, "it looks after the wait", func() bool { return looks.Load() > 0 })
			}
			move()
			id := must(platform.IdentifyFile(f.Path + ".flock"))(t)
			waits := regexp.MustCompile(fmt.Sprintf(`-> FLOCK .*:%d 0 EOF`, id.Ino))
			eventually(t, "it waits at the sibling", func() bool {
				locks := must(os.ReadFile("/proc/locks"))(t)
				return waits.Match(locks)
			})
			sibling := openSibling(t, f)
			taken, err := sibling.TurnstileTaken()
			check(t, errors.Join(err, sibling.Close()))
			equal(t, taken, adopted, "the turnstile is taken")
			letGo(t, held)
			if adopted {
				letGo(t, getHeld(t, next))
			}
			wantFree(t, f.Path)
		})
	}
}

// standAtTurnstile has somebody stand at a lock's turnstile who does not go on.
func standAtTurnstile(t *testing.T, f lock.File) (move func()) {
	t.Helper()
	needsTurnstile(t)
	turnstile := must(takeTurnstile(f.Path + ".flock"))(t)
	return func() { turnstile.Close() }
}
