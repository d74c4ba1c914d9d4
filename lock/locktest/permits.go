package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/permits"
)

var permitTests = []test{
	{"Processes", processesSharePermits},
	{"Order", permitsInOrder},
	{"Resize", resizePermits},
	{"GateKilled", gateKilled},
	{"GivenUp", permitGivenUp},
}

// pool returns one of so many permits, nil where there are none.
func (s *subtest) pool(key lock.Key, n int) *permits.Pool {
	s.Helper()
	pool := permits.New(s.locker, key, n)
	one, err := pool.TryAcquire(s.ctx)
	if errors.Is(err, lock.ErrInvalidName) {
		s.Log("there are no permits where names can't be added to: a permit's is its gate's, and more")
		return nil
	} else if err != nil {
		s.Fatal(err)
	}
	s.release(one)
	return pool
}

// takePermits works with a permit, again and again, until the room is closed.
func takePermits(ctx context.Context, l lock.Locker, o order) error {
	pool := permits.New(l, o.Key, o.Rounds)
	for !o.Room.closed() {
		held, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		if held.Number() < 1 || held.Number() > o.Rounds {
			return fmt.Errorf("permit %d of %d", held.Number(), o.Rounds)
		}
		leave, err := o.Room.takePlace(held.Number())
		if err != nil {
			return err
		}
		err = o.Room.log("in", int64(held.Number()))
		time.Sleep(10 * time.Millisecond) // work, for longer than it takes the next one to come in
		if err = errors.Join(err, o.Room.log("out", int64(held.Number())), leave(), held.Release()); err != nil {
			return err
		}
	}
	return nil
}

// resize has the child's pool be of so many permits.
func (c obedient) resize(o order) answer {
	if pool := c.pools[o.Key]; pool != nil {
		pool.Resize(o.Rounds)
	} else {
		c.pools[o.Key] = permits.New(c.locker, o.Key, o.Rounds)
	}
	return said("done", nil)
}

// takePermit answers when the child has a permit of its pool.
func (c obedient) takePermit(ctx context.Context, pool *permits.Pool, key lock.Key) {
	held, err := pool.Acquire(ctx)
	if err == nil {
		c.holds.Store(key, held)
	}
	said("held", err).print()
}

// close has the workers leave the room, and closed tells them.
func (r room) close() error { return os.WriteFile(filepath.Join(r.Dir, "closed"), nil, 0o600) }

func (r room) closed() bool {
	_, err := os.Lstat(filepath.Join(r.Dir, "closed"))
	return err == nil
}

// fairShare is by how much of the average a process's turns may differ from it.
const fairShare = 0.15

// processesSharePermits: twelve processes share four permits, beside others that are killed.
// There are never five inside: every permit has a place, where nobody else is. None of the
// permits is lost; and all have their share, if there is a queue that can be seen.
func processesSharePermits(s *subtest) {
	const processes, size = 12, 4
	key, r := s.key(), s.room()
	pool := s.pool(key, size)
	if pool == nil {
		return
	}
	deaths, whole := kills(3)
	turns := processes * max(10, deaths) // at least
	var children []*child
	work := func(who *room) *child {
		c := s.start()
		c.order(order{Do: "permits", Key: key, Rounds: size, Room: who})
		return c
	}
	for i := range processes {
		children = append(children, work(r.as(fmt.Sprint("child", i))))
	}
	inside := func(since int) map[string]int {
		had := map[string]int{}
		events, err := r.events()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Fatal(err)
		}
		for _, e := range events[min(since, len(events)):] {
			if e.what == "in" {
				had[e.who]++
			}
		}
		return had
	}
	working := func(beside ...*child) bool { // as long as nobody says what is wrong
		for _, c := range append(beside, children...) {
			select {
			case a := <-c.answers:
				s.Fatalf("a child answers %q (%s)", a.Said, a.Error)
			default:
			}
		}
		return true
	}
	s.eventually("all work", func() bool { return working() && len(inside(0)) == processes })
	events, err := r.events()
	if err != nil {
		s.Fatal(err)
	}
	begun := len(events)
	for i := range deaths {
		who := r.doomed(fmt.Sprint("victim", i))
		victim := work(who)
		s.eventually("the victim works", func() bool { return working(victim) && who.visits() > 0 })
		time.Sleep(rand.N(5 * time.Millisecond)) // any moment will do
		victim.kill()
	}
	everyone := func(had map[string]int) bool {
		for i := range processes {
			if had[r.as(fmt.Sprint("child", i)).name()] == 0 {
				return false
			}
		}
		return true
	}
	s.eventually("many turns, and one of each", func() bool {
		events, err := r.events()
		return working() && err == nil && len(events) > begun+2*turns && everyone(inside(begun))
	})
	had := inside(begun)
	if err := r.close(); err != nil {
		s.Fatal(err)
	}
	for _, c := range children {
		c.answer("done")
	}
	least, greatest, sum := 1<<30, 0, 0
	for i := range processes {
		n := had[r.as(fmt.Sprint("child", i)).name()]
		least, greatest, sum = min(least, n), max(greatest, n), sum+n
	}
	average := float64(sum) / processes
	s.Logf("%d turns of the %d, each %d to %d, and %d deaths", sum, processes, least, greatest, deaths)
	if whole && !s.engine.HidesWaiters && (float64(least) < (1-fairShare)*average || float64(greatest) > (1+fairShare)*average) {
		s.Errorf("somebody had %d turns, somebody %d; %.0f on the average", least, greatest, average)
	}
	s.wantPermits(pool, size)
}

// wantPermits checks that so many are free, and no more.
func (s *subtest) wantPermits(pool *permits.Pool, n int) {
	s.Helper()
	var all []*permits.Permit
	for range n {
		held, err := pool.Acquire(s.ctx)
		if err != nil {
			s.Fatal("a permit was lost: ", err)
		}
		s.held(held)
		all = append(all, held)
	}
	held, err := pool.TryAcquire(s.ctx)
	if err == nil {
		_ = held.Release()
		s.Errorf("more than %d permits", n)
	}
	for _, h := range all {
		s.release(h)
	}
}

// untilAtGate waits until so many wait there, behind the one that has passed it.
func (s *subtest) untilAtGate(gate lock.Key, n int) {
	s.Helper()
	s.eventually("they wait at the gate", func() bool {
		l := s.listed(gate)
		return holders(l) == 1 && len(l.Waiters) == n
	})
}

// permitsInOrder: first come, first served. On a busy machine a process that is not run for
// long may be overtaken, as if it were stopped; not each time.
func permitsInOrder(s *subtest) {
	if s.engine.HidesWaiters {
		s.Skip("needs an engine that shows waiters, to tell who came first")
	}
	key := s.key()
	pool := s.pool(key, 2)
	if pool == nil {
		return
	}
	var line []*child
	for range 5 {
		c := s.start()
		c.do(order{Do: "slots", Key: key, Rounds: 2}, "done")
		line = append(line, c)
	}
	var orders [][]int
	for range 3 {
		served := s.serve(key, pool, line)
		if slices.IsSorted(served) {
			s.wantPermits(pool, 2)
			return
		}
		orders = append(orders, served)
	}
	s.Errorf("those in line were served in these orders, of three times: %v", orders)
}

// serve has children stand in line for a permit, and give it back, and returns the order in
// which they were served.
func (s *subtest) serve(gate lock.Key, pool *permits.Pool, line []*child) (served []int) {
	s.Helper()
	var held []lock.Hold
	for range 2 {
		h, err := pool.Acquire(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		held = append(held, s.held(h))
	}
	for i, c := range line {
		c.order(order{Do: "slot", Key: gate})
		s.untilAtGate(gate, i)
	}
	s.release(held[1])
	for range line {
		s.eventually("one of them is served", func() bool {
			for i, c := range line {
				select {
				case a := <-c.answers:
					if a.Said != "held" {
						s.Fatalf("child answered %q (%s)", a.Said, a.Error)
					}
					served = append(served, i)
					c.do(order{Do: "release", Key: gate}, "released")
					return true
				default:
				}
			}
			return false
		})
	}
	s.release(held[0])
	return served
}

// resizePermits: when there are more permits, a waiter gets one of them. When there are fewer,
// nobody loses a permit, and nobody acquires one beyond the number again.
func resizePermits(s *subtest) {
	key := s.key()
	pool := s.pool(key, 1)
	if pool == nil {
		return
	}
	one, two := s.start(), s.start()
	for _, c := range []*child{one, two} {
		c.do(order{Do: "slots", Key: key, Rounds: 1}, "done")
	}
	one.do(order{Do: "slot", Key: key}, "held")
	two.order(order{Do: "slot", Key: key})
	if !s.engine.HidesWaiters {
		s.eventually("it waits for a permit", func() bool {
			return len(s.listed(permits.Key(key, 1)).Waiters) > 0
		})
	}
	two.order(order{Do: "slots", Key: key, Rounds: 2})
	for range 2 { // in whichever order
		if a := two.next(); a.Said != "done" && a.Said != "held" {
			s.Fatalf("child answered %q (%s)", a.Said, a.Error)
		}
	}
	s.wantHeld(permits.Key(key, 1))
	s.wantHeld(permits.Key(key, 2))

	two.do(order{Do: "slots", Key: key, Rounds: 1}, "done")
	s.wantHeld(permits.Key(key, 2))
	fence := two.do(order{Do: "fence", Key: key}, "done").Fence
	if again := two.do(order{Do: "fence", Key: key}, "done").Fence; again != fence {
		s.Errorf("fence %d, and then %d", fence, again)
	}
	two.do(order{Do: "release", Key: key}, "released")
	if held, err := pool.TryAcquire(s.ctx); err == nil {
		s.release(held)
		s.Error("a permit above the number is taken")
	}
	two.order(order{Do: "slot", Key: key})
	one.do(order{Do: "release", Key: key}, "released")
	two.answer("held")
	s.wantHeld(permits.Key(key, 1))
	two.do(order{Do: "release", Key: key}, "released")
	s.wantPermits(pool, 1)
}

// gateKilled: a process that is killed while it waits for all permits keeps back nobody, and
// takes none.
func gateKilled(s *subtest) {
	key := s.key()
	pool := s.pool(key, 2)
	if pool == nil {
		return
	}
	var held []lock.Hold
	for range 2 {
		h, err := pool.Acquire(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		held = append(held, s.held(h))
	}
	victim, next := s.start(), s.start()
	for _, c := range []*child{victim, next} {
		c.do(order{Do: "slots", Key: key, Rounds: 2}, "done")
	}
	victim.order(order{Do: "slot", Key: key})
	s.eventually("it is at the gate", func() bool {
		return holders(s.listed(key)) > 0
	})
	next.order(order{Do: "slot", Key: key})
	if !s.engine.HidesWaiters {
		s.untilAtGate(key, 1)
	}
	victim.kill()
	s.release(held[1])
	next.answer("held")
	next.do(order{Do: "release", Key: key}, "released")
	s.release(held[0])
	s.wantPermits(pool, 2)
}

// permitGivenUp: a waiter that gives up leaves nothing; of two permits that come at once, one
// is kept.
func permitGivenUp(s *subtest) {
	key := s.key()
	pool := s.pool(key, 2)
	if pool == nil {
		return
	}
	for range 5 {
		var held []*permits.Permit
		for range 2 {
			h, err := pool.Acquire(s.ctx)
			if err != nil {
				s.Fatal("a permit was lost: ", err)
			}
			s.held(h)
			held = append(held, h)
		}
		ctx, cancel := context.WithCancel(s.ctx)
		came := begin(func() (lock.Hold, error) {
			h, err := pool.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return h, nil
		})
		if !s.engine.HidesWaiters {
			s.eventually("it waits for a permit", func() bool {
				return len(s.listed(permits.Key(key, 1)).Waiters) > 0 || len(came) > 0 // one was lost, which Release will tell
			})
		}
		go cancel()
		s.release(held[0])
		s.release(held[1])
		if o := s.end(came); o.err == nil {
			s.release(o.held)
		} else {
			s.wantIs(o.err, context.Canceled)
		}
	}
	s.wantPermits(pool, 2)
}
