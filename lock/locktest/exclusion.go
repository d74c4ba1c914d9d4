package locktest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

var exclusionTests = []test{
	{"Goroutines", goroutinesExclude},
	{"Processes", processesExclude},
	{"KilledProcesses", killedProcessesExclude},
	{"TryRace", oneWinsTryRace},
}

// goroutinesExclude: however many goroutines there are, on two Lockers of the same locks,
// one is in at a time.
func goroutinesExclude(s *subtest) {
	const goroutines, rounds = 12, 20
	key := s.key()
	other := s.open()
	var v visits
	var workers []func() error
	for i := range goroutines {
		l := s.locker
		if i%2 == 1 {
			l = other
		}
		workers = append(workers, func() error {
			for range rounds {
				held, err := l.Acquire(s.ctx, key)
				if err != nil {
					return err
				}
				if err := errors.Join(v.visit(), held.Release()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.workers(workers...)
	for _, problem := range v.problems() {
		s.Error(problem)
	}
	if n := v.count.Load(); n != goroutines*rounds && !s.Failed() {
		s.Errorf("%d of %d counts are left: others were overwritten", n, goroutines*rounds)
	}
}

// visits are a room for goroutines: when each was in, which is in, and a counter that loses
// counts. All are atomic: an engine whose locks are elsewhere need not order the memory of
// this process in a way that the race detector knows.
type visits struct {
	inside, count atomic.Int64

	mu  sync.Mutex
	all []visit
}

type visit struct{ from, to time.Time } // with monotonic readings

func (v *visits) visit() error {
	from := time.Now()
	if n := v.inside.Add(1); n != 1 {
		return fmt.Errorf("not alone: %d are in", n)
	}
	count := v.count.Load()
	time.Sleep(time.Microsecond) // lets others run
	v.count.Store(count + 1)
	v.inside.Add(-1)
	to := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, visit{from, to})
	return nil
}

func (v *visits) problems() (problems []string) {
	slices.SortFunc(v.all, func(a, b visit) int { return a.from.Compare(b.from) })
	for i, one := range v.all {
		if i > 0 && one.from.Before(v.all[i-1].to) {
			problems = append(problems, fmt.Sprintf("visit %d began %v before the end of the one before", i, v.all[i-1].to.Sub(one.from)))
		}
	}
	return problems
}

// processesExclude: one of several processes is in at a time.
func processesExclude(s *subtest) { s.workTogether(4, 25) }

// workTogether has children and this process take a lock in turns, so many times each, and
// checks what they leave in the room.
func (s *subtest) workTogether(processes, rounds int) {
	s.Helper()
	key, r := s.key(), s.room()
	var children []*child
	for range processes {
		children = append(children, s.start())
	}
	for i, c := range children {
		c.order(order{Do: "work", Key: key, Rounds: rounds, Room: r.as(fmt.Sprint("child", i))})
	}
	if err := work(s.ctx, s.locker, order{Key: key, Rounds: rounds, Room: &r}); err != nil {
		s.Error(err)
	}
	for _, c := range children {
		c.answer("done")
	}
	if left := s.checkRoom(r, 0); left != (processes+1)*rounds && !s.Failed() {
		s.Errorf("%d visits, want %d", left, (processes+1)*rounds)
	}
}

// killedProcessesExclude: processes that are killed at any moment, waiting, inside, or on
// their way, neither keep the lock nor let two in.
func killedProcessesExclude(s *subtest) {
	const steady, rounds, victims = 2, 30, 6
	key, r := s.key(), s.room()
	var children []*child
	for i := range steady {
		c := s.start()
		c.order(order{Do: "work", Key: key, Rounds: rounds, Room: r.as(fmt.Sprint("child", i))})
		children = append(children, c)
	}
	for i := range victims {
		who := r.doomed(fmt.Sprint("victim", i))
		victim := s.start()
		victim.order(order{Do: "work", Key: key, Rounds: 1 << 30, Room: who})
		s.eventually("a victim works", func() bool { return who.visits() > i })
		victim.kill()
	}
	for _, c := range children {
		c.answer("done")
	}
	s.checkRoom(r, victims)
	s.wantFree(key)
}

// oneWinsTryRace: when several try at once for a free lock, at most one gets it, and the
// others are told that it is locked.
func oneWinsTryRace(s *subtest) {
	const processes, rounds = 4, 20
	key := s.key()
	var children []*child
	for range processes {
		children = append(children, s.start())
	}
	for range rounds {
		for _, c := range children {
			c.order(order{Do: "try", Key: key})
		}
		var winners []*child
		for _, c := range children {
			switch a := c.next(); a.Said {
			case "held":
				winners = append(winners, c)
			case "locked":
			default:
				s.Errorf("child answered %q (%s)", a.Said, a.Error)
			}
		}
		if len(winners) > 1 {
			s.Errorf("%d have the lock", len(winners))
		}
		for _, c := range winners {
			c.do(order{Do: "release", Key: key}, "released")
		}
	}
}

var tryTests = []test{
	{"Free", tryFree},
	{"Held", tryHeld},
	{"HeldByOtherProcess", tryHeldElsewhere},
	{"EndedContext", tryEnded},
}

func tryFree(s *subtest) {
	key := s.key()
	held, err := s.call(s.locker.TryAcquire, s.ctx, key)
	if err != nil {
		s.Fatal(err)
	}
	s.held(held)
	s.wantHeld(key)
	s.release(held)
	s.wantFree(key)
}

func tryHeld(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	s.wantTryFails(key)
	s.release(held)
	s.wantFree(key)
}

func tryHeldElsewhere(s *subtest) {
	key := s.key()
	c := s.start()
	c.do(order{Do: "acquire", Key: key}, "held")
	s.wantTryFails(key)
	c.do(order{Do: "release", Key: key}, "released")
	s.wantFree(key)
}

// wantTryFails: trying for a lock that is held is contention, and neither a timeout nor
// re-entrance.
func (s *subtest) wantTryFails(key lock.Key) {
	s.Helper()
	held, err := s.call(s.locker.TryAcquire, s.ctx, key)
	locked := s.wantLocked(held, err)
	s.wantNot(err, lock.ErrTimeout, lock.ErrReentrant)
	if locked.Waited != 0 {
		s.Errorf("waited %v", locked.Waited)
	}
	if locked.Path == "" || locked.Error() == "" {
		s.Errorf("the error does not say what is locked: %#v", locked)
	}
	s.wantSkipped(s.ctx, key)
}
