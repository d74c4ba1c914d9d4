package locktest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

var listTests = []test{
	{"Holder", listHolder},
	{"HolderElsewhere", listHolderElsewhere},
	{"Waiter", listWaiter},
	{"Many", listMany},
	{"StopEarly", listStopEarly},
	{"EndedContext", listEnded},
}

// wantListed checks that a lock is listed as held, with its one holder.
func (s *subtest) wantListed(key lock.Key) lock.Status {
	s.Helper()
	return s.wantHolder(s.listed(key))
}

// wantHolder checks that a lock was found held, with its one holder.
func (s *subtest) wantHolder(l lock.Status) lock.Status {
	s.Helper()
	if n := holders(l); n != 1 {
		s.Fatalf("%v has %d holders, want one", l.Key, n)
	}
	if l.State != evidence.Held || l.Evidence == "" {
		s.Errorf("state is %q (%s), want %q", l.State, l.Evidence, evidence.Held)
	}
	if l.Info == nil || l.Info.PID <= 0 {
		s.Errorf("who is %+v, want a pid", l.Info)
	}
	return l
}

// untilUnlisted waits until nothing is listed of a lock that was released.
func (s *subtest) untilUnlisted(key lock.Key) {
	s.Helper()
	s.eventually("a released lock disappears from List", func() bool {
		l := s.listed(key)
		return holders(l)+len(l.Waiters) == 0
	})
}

func listHolder(s *subtest) {
	key := s.key()
	if l := s.listed(key); holders(l)+len(l.Waiters) != 0 {
		s.Errorf("a lock that nobody has is listed: %+v", l)
	}
	held := s.acquire(key)
	l := s.wantListed(key)
	if l.Info != nil && l.Info.PID != held.Info().PID {
		s.Errorf("who has pid %d, and the holder %d", l.Info.PID, held.Info().PID)
	}
	s.release(held)
	s.untilUnlisted(key)
}

func listHolderElsewhere(s *subtest) {
	key := s.key()
	c := s.start()
	c.do(order{Do: "acquire", Key: key}, "held")
	s.wantListed(key)
	c.do(order{Do: "release", Key: key}, "released")
	s.untilUnlisted(key)
	// A dead holder's lock is not listed as held.
	c.do(order{Do: "acquire", Key: key}, "held")
	c.kill()
	s.eventually("a dead holder is not listed as held", func() bool { return s.listed(key).State != evidence.Held })
	s.wantFree(key)
	s.untilUnlisted(key)
}

func listWaiter(s *subtest) {
	if s.engine.HidesWaiters {
		s.Skip("needs an engine that lists who waits")
	}
	key := s.key()
	c := s.start()
	c.do(order{Do: "acquire", Key: key}, "held")
	holder := s.wantListed(key)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	came := s.beginAcquire(ctx, key)
	s.wantListed(key)
	if l := s.listed(key); len(l.Waiters) == 0 {
		s.Error("who waits has disappeared")
	} else {
		for _, by := range l.Waiters[0].BlockedBy {
			if holder.Info != nil && by != holder.Info.PID {
				s.Errorf("blocked by %d, and the holder is %d", by, holder.Info.PID)
			}
		}
	}
	cancel()
	s.end(came)
	c.do(order{Do: "release", Key: key}, "released")
	s.untilUnlisted(key)
}

// listMany: every lock is listed once, anybody's.
func listMany(s *subtest) {
	c := s.start()
	var keys []lock.Key
	for range 3 {
		mine, its := s.key(), s.key()
		s.acquire(mine)
		c.do(order{Do: "acquire", Key: its}, "held")
		keys = append(keys, mine, its)
	}
	free := s.key()
	s.release(s.acquire(free))
	count := map[lock.Key]int{}
	for l, err := range s.locker.List(s.ctx) {
		if err != nil {
			s.Fatal(err)
		}
		count[l.Key] += holders(l)
	}
	for _, key := range keys {
		if count[key] != 1 {
			s.Errorf("%v is listed %d times as held, want once", key, count[key])
		}
	}
	s.untilUnlisted(free)
}

// listStopEarly: a caller can stop at any lock.
func listStopEarly(s *subtest) {
	a, b := s.key(), s.key()
	s.acquire(a)
	s.acquire(b)
	n := 0
	for range s.locker.List(s.ctx) {
		n++
		break
	}
	if n != 1 {
		s.Errorf("%d locks, want at least one", n)
	}
	s.wantListed(a)
	s.wantListed(b)
}

func listEnded(s *subtest) {
	s.acquire(s.key())
	for cause, ctx := range s.ended() {
		var errs []error
		for _, err := range s.locker.List(ctx) {
			if err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) == 0 {
			s.Errorf("a context that was done before (%v) is no error", cause)
			continue
		}
		if err := errors.Join(errs...); !errors.Is(err, cause) && !errors.Is(err, ctx.Err()) {
			s.Errorf("error is %v, want %v", err, cause)
		}
	}
}
