package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/elect"
)

var electTests = []test{
	{"LeaderKilled", leaderKilled},
	{"Lost", leaderLost},
	{"Resigns", leaderResigns},
	{"Observed", leaderObserved},
}

// killsVar says how many leaders, and how many holders of permits, are to be killed: a few, if
// it is not set.
const killsVar = "HOLDFAST_LOCKTEST_KILLS"

// kills returns how many there are to be, and whether that was asked for.
func kills(few int) (n int, whole bool) {
	if n, err := strconv.Atoi(os.Getenv(killsVar)); err == nil {
		return n, true
	}
	return few, false
}

// killsTake is how long all kills together may take.
func killsTake() time.Duration {
	n, _ := kills(0)
	return time.Duration(n) * 5 * time.Second
}

// lead answers when the child leads for the first time. It leads until it is killed.
func (c obedient) lead(ctx context.Context, o order) answer {
	led := make(chan answer, 1)
	go func() {
		err := elect.Run(ctx, c.locker, o.Key, func(ctx context.Context) error {
			leave, err := o.Room.takePlace(0)
			var fence int64
			if err == nil {
				defer leave()
				fence, err = lock.HoldOf(ctx).Fence()
			}
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

// leaderKilled: of five candidates the leader is killed, again and again, and another one
// leads. Never do two.
func leaderKilled(s *subtest) {
	const candidates = 5
	deaths, whole := kills(5)
	key, r := s.key(), s.room()
	type led struct {
		c *child
		a answer
	}
	came := make(chan led)
	var all []*child
	start := func() {
		c := s.start()
		c.order(order{Do: "lead", Key: key, Room: r.as(fmt.Sprint("candidate", len(all)))})
		all = append(all, c)
		go func() {
			if a, ok := <-c.answers; ok {
				select {
				case came <- led{c, a}:
				case <-s.ctx.Done():
				}
			}
		}()
	}
	for range candidates {
		start()
	}
	var last int64
	var waits []time.Duration
	var killed time.Time
	for range deaths {
		var l led
		select {
		case l = <-came:
		case <-time.After(s.engine.Patience):
			s.Fatal("nobody leads")
		}
		waits = append(waits, time.Since(killed))
		if l.a.Said != "done" || l.a.Fence <= last {
			s.Fatalf("the leader answers %+v, after fence %d", l.a, last)
		}
		last = l.a.Fence
		start()
		killed = time.Now()
		l.c.kill()
	}
	if waits = waits[1:]; len(waits) > 0 && (whole || s.engine.Buried == nil) {
		slices.Sort(waits)
		s.Logf("the next leader, from SIGKILL for the last: median %v, at most %v, of %d", waits[len(waits)/2], waits[len(waits)-1], len(waits))
	}
	for _, c := range all {
		if !c.gone {
			c.kill()
		}
	}
	// Only children that answered have led, or one that came after the last.
	events, err := r.events()
	if err != nil {
		s.Fatal(err)
	}
	if n := len(events) - deaths; n < 0 || n > candidates {
		s.Errorf("%d have led, of whom %d were killed one by one", len(events), deaths)
	}
	s.wantFree(key)
}

// candidate keeps its failures.
func (s *subtest) candidate(key lock.Key) (c elect.Candidate, failures *[]error) {
	failures = new([]error)
	return elect.Candidate{Locker: s.locker, Key: key, Failed: func(err error) { *failures = append(*failures, err) }}, failures
}

// leaderLost: a leader whose lock is lost is told by its context, where the engine notices, and
// campaigns again, whatever it returns; so does one that fails.
func leaderLost(s *subtest) {
	mine := errors.New("error of the leader")
	key := s.key()
	c, failures := s.candidate(key)
	var fences []int64
	err := c.Run(s.ctx, func(ctx context.Context) error {
		fences = append(fences, s.fence(lock.HoldOf(ctx)))
		switch len(fences) {
		case 1:
			return mine
		case 2:
			s.lose(key, lock.HoldOf(ctx))
			if s.engine.NoticesLoss {
				s.wantEndedByLoss(ctx)
			}
		}
		return nil
	})
	if err != nil || len(fences) != 3 || !slices.IsSorted(fences) || fences[0] == fences[1] || fences[1] == fences[2] {
		s.Errorf("%v, after leading with fences %d; want three that grow", err, fences)
	}
	if f := *failures; len(f) != 2 || f[0] != mine {
		s.Errorf("failures: %v", f)
	} else {
		s.wantIs(f[1], lock.ErrLost)
	}
	s.wantFree(key)
}

// leaderResigns: when its context ends, the leader finishes, and only then another one leads.
func leaderResigns(s *subtest) {
	key := s.key()
	c, _ := s.candidate(key)
	next := s.start()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	err := c.Run(ctx, func(ctx context.Context) error {
		next.order(order{Do: "acquire", Key: key})
		s.untilWaiting(key)
		cancel()
		<-ctx.Done()
		s.wantHeld(key)
		return ctx.Err()
	})
	s.wantIs(err, context.Canceled)
	next.answer("held")
	next.do(order{Do: "release", Key: key}, "released")
	// Nobody leads under a context that has ended.
	err = c.Run(ctx, func(context.Context) error {
		s.Error("leads")
		return nil
	})
	s.wantIs(err, context.Canceled)
	s.wantFree(key)
}

// leaderObserved: others see the leader.
func leaderObserved(s *subtest) {
	key := s.key()
	c, _ := s.candidate(key)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	elsewhere := s.start()
	var seen []int64 // fences of leaders
	for e, err := range c.Leaders(ctx) {
		switch {
		case err != nil:
			s.Fatal("leaders: ", err)
		case len(seen) == 0:
			if e != nil {
				s.Errorf("%+v leads", e)
			}
			seen = append(seen, 0)
			elsewhere.do(order{Do: "acquire", Key: key}, "held")
		case len(seen) == 1:
			if e == nil || e.Key != key || e.Info == nil {
				s.Fatalf("%+v leads", e)
			}
			seen = append(seen, 1)
			elsewhere.kill()
		default:
			if e != nil {
				s.Errorf("%+v leads still", e)
			}
			cancel()
		}
	}
	if s.ctx.Err() != nil {
		s.Error("not all was seen")
	}
	s.wantFree(key)
}
