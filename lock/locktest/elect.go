package locktest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/elect"
	"github.com/holdfast-go/holdfast/lock/permits"
)

var electTests = []test{
	{"LeaderKilled", leaderKilled},
}

// lead answers when the child leads for the first time. It leads until it is killed.
func (c obedient) lead(ctx context.Context, o order) answer {
	led := make(chan answer, 1)
	go func() {
		err := elect.Run(ctx, c.locker, o.Key, func(ctx context.Context) error {
			fence, err := lock.HoldOf(ctx).Fence()
			select {
			case led <- said("done", errors.Join(err, o.Room.log("in", fence))).with(fence):
			default:
			}
			<-ctx.Done()
			return ctx.Err()
		})
		led <- said("done", fmt.Errorf("no campaign any more: %w", err))
	}()
	return <-led
}

// leaderKilled: the leader is killed, again and again, and another one leads. Never do two.
func leaderKilled(s *subtest) {
	const candidates, kills = 3, 3
	key, r := s.key(), s.room()
	type led struct {
		c   *child
		who *room
		a   answer
	}
	came := make(chan led)
	var all []led
	start := func() {
		c, who := s.start(), r.as(fmt.Sprint("candidate", len(all)))
		all = append(all, led{c: c, who: who})
		c.order(order{Do: "lead", Key: key, Room: who})
		go func() {
			if a, ok := <-c.answers; ok {
				select {
				case came <- led{c, who, a}:
				case <-s.ctx.Done():
				}
			}
		}()
	}
	for range candidates {
		start()
	}
	kill := func(l led) {
		if err := l.who.log("killed", 0); err != nil {
			s.Fatal(err)
		}
		l.c.kill()
	}
	var last int64
	for range kills {
		var l led
		select {
		case l = <-came:
		case <-s.ctx.Done():
			s.Fatal("nobody leads")
		}
		if l.a.Said != "done" || l.a.Fence <= last {
			s.Errorf("the leader answers %+v, after fence %d", l.a, last)
		}
		last = l.a.Fence
		kill(l)
		start()
	}
	for _, l := range all {
		if !l.c.killed {
			kill(l)
		}
	}
	events, err := r.events()
	if err != nil {
		s.Fatal(err)
	}
	leads := ""
	for i, e := range events {
		switch {
		case e.what == "killed":
			if e.who == leads {
				leads = ""
			}
		case leads != "":
			s.Errorf("event %d: %s %s while %s leads", i, e.who, e.what, leads)
		default:
			leads = e.who
		}
	}
	s.wantFree(key)
}

var permitTests = []test{
	{"Processes", processesSharePermits},
}

// permitsOf is how many there are in the test.
const permitsOf = 2

// takePermits works with a permit, again and again.
func takePermits(ctx context.Context, l lock.Locker, o order) error {
	pool := permits.New(l, o.Key, permitsOf)
	for range o.Rounds {
		held, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(o.Room.log("in", 0), o.Room.log("out", 0), held.Release()); err != nil {
			return err
		}
	}
	return nil
}

// processesSharePermits: no more are inside than there are permits, and whoever is killed has
// given back theirs.
func processesSharePermits(s *subtest) {
	const processes, rounds = 4, 8
	key, r := s.key(), s.room()
	pool := permits.New(s.locker, key, permitsOf)
	one, err := pool.TryAcquire(s.ctx)
	if errors.Is(err, lock.ErrInvalidName) {
		s.Log("there are no permits where names can't be added to: a permit's is its gate's, and more")
		return
	} else if err != nil {
		s.Fatal(err)
	}
	s.held(one)
	var children []*child
	for i := range processes {
		c := s.start()
		c.order(order{Do: "permits", Key: key, Rounds: rounds, Room: r.as(fmt.Sprint("child", i))})
		children = append(children, c)
	}
	victim, who := s.start(), r.doomed("victim")
	victim.order(order{Do: "permits", Key: key, Rounds: 1 << 30, Room: who})
	s.eventually("the victim works", func() bool { return who.visits() > 0 })
	victim.kill()
	if err := who.log("out", 0); err != nil {
		s.Fatal(err)
	}
	s.release(one)
	for _, c := range children {
		c.answer("done")
	}
	events, err := r.events()
	if err != nil {
		s.Fatal(err)
	}
	inside := map[string]bool{}
	for i, e := range events {
		inside[e.who] = e.what == "in"
		n := 0
		for who, in := range inside {
			if in && !strings.HasPrefix(who, doomedPrefix) { // which may be dead
				n++
			}
		}
		if n > permitsOf {
			s.Fatalf("event %d: %d are inside, of %d", i, n, permitsOf)
		}
	}
	var all []*permits.Permit
	for range permitsOf {
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
		s.Errorf("more than %d permits", permitsOf)
	}
	for _, h := range all {
		s.release(h)
	}
}
