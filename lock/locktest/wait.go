package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

var waitTests = []test{
	{"Granted", waitGranted},
	{"Timeout", waitTimeout}, // guards: W6
	{"Cancel", waitCancel},   // guards: W6
	{"CancelOneOfTwo", cancelOneOfTwo},
	{"EndRacesRelease", endRacesRelease}, // guards: S19
	{"EndedContext", waitEnded},
	{"Within", acquireWithin},
	{"WithinOfFreeLock", acquireFreeWithin},
}

// waitGranted: a waiter gets the lock once it is released, here or elsewhere.
func waitGranted(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	came := s.beginAcquire(s.ctx, key)
	s.release(held)
	held = s.endHeld(came)
	s.wantHeld(key)
	c := s.start()
	c.order(order{Do: "acquire", Key: key})
	s.untilWaiting(key)
	s.release(held)
	c.answer("held")
	came = s.beginAcquire(s.ctx, key)
	c.do(order{Do: "release", Key: key}, "released")
	s.release(s.endHeld(came))
	s.wantFree(key)
}

func waitTimeout(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	got, err := s.callLimited(s.locker.Acquire, key)
	locked := s.wantLocked(got, err)
	s.wantIs(err, lock.ErrTimeout, context.DeadlineExceeded)
	s.wantNot(err, context.Canceled, lock.ErrReentrant)
	if locked.Waited <= 0 {
		s.Errorf("waited %v", locked.Waited)
	}
	if locked.Path == "" {
		s.Errorf("the error does not say what is locked: %#v", locked)
	}
	s.wantHeld(key)
	s.release(held)
	s.wantFree(key)
}

func waitCancel(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	mine := errors.New("cause of the cancelling")
	ctx, cancel := context.WithCancelCause(s.ctx)
	came := s.beginAcquire(ctx, key)
	cancel(mine)
	o := s.end(came)
	if !s.engine.HidesWaiters { // else the context may have ended before there was anything to wait for
		s.wantLocked(o.held, o.err)
	}
	s.wantIs(o.err, context.Canceled, mine)
	s.wantNot(o.err, lock.ErrTimeout, context.DeadlineExceeded)
	s.wantHeld(key)
	s.release(held)
	s.wantFree(key)
}

// cancelOneOfTwo: a waiter that is cancelled takes nothing from other waiters.
func cancelOneOfTwo(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	leaves := s.beginAcquire(ctx, key)
	stays := s.beginAcquire(s.ctx, key)
	c := s.start()
	c.order(order{Do: "acquire", Key: key})
	cancel()
	o := s.end(leaves)
	s.wantNoHold(o.held, o.err)
	s.wantIs(o.err, context.Canceled)
	s.release(held)
	// Either of the two may be first.
	select {
	case o := <-stays:
		if o.err != nil {
			s.Fatal(o.err)
		}
		s.release(s.held(o.held))
		c.answer("held")
		c.do(order{Do: "release", Key: key}, "released")
	case a := <-c.answers:
		if a.Said != "held" {
			s.Fatalf("child answered %q (%s)", a.Said, a.Error)
		}
		c.do(order{Do: "release", Key: key}, "released")
		s.release(s.endHeld(stays))
	case <-s.ctx.Done():
		s.Fatal("nobody has the lock")
	}
	s.wantFree(key)
}

// endRacesRelease: when the end of a wait and the release of the lock come together, the
// waiter gets the lock or not; it never stays locked for nobody. (PostgreSQL bug 17686 is
// of this kind.)
func endRacesRelease(s *subtest) {
	key := s.key()
	for i := range 40 {
		held := s.acquire(key)
		var ctx context.Context
		var cancel context.CancelFunc
		end := rand.N(4 * time.Millisecond)
		if i%2 == 0 {
			ctx, cancel = context.WithTimeout(s.ctx, end)
		} else {
			ctx, cancel = context.WithCancel(s.ctx)
			time.AfterFunc(end, cancel)
		}
		came := begin(func() (lock.Hold, error) { return s.locker.Acquire(ctx, key) })
		time.Sleep(rand.N(4 * time.Millisecond)) // any interleaving will do
		s.release(held)
		o := s.end(came)
		cancel()
		if o.err == nil {
			s.release(s.held(o.held))
		} else if s.wantNoHold(o.held, o.err); i%2 == 0 {
			s.wantIs(o.err, context.DeadlineExceeded)
		} else {
			s.wantIs(o.err, context.Canceled)
		}
	}
	s.wantFree(key)
}

// ended returns contexts that are done already, by the error that must be matched then.
func (s *subtest) ended() map[error]context.Context {
	mine := errors.New("cause of the end")
	cancelled, cancel := context.WithCancelCause(s.ctx)
	cancel(mine)
	expired, stop := context.WithDeadline(s.ctx, time.Now().Add(-time.Second))
	s.Cleanup(stop)
	return map[error]context.Context{mine: cancelled, context.DeadlineExceeded: expired}
}

// waitEnded: a context that is done already is refused for that reason, whether the lock
// is free or held.
func waitEnded(s *subtest) { s.wantRefused(s.locker.Acquire) }
func tryEnded(s *subtest)  { s.wantRefused(s.locker.TryAcquire) }

func (s *subtest) wantRefused(acquire acquirer) {
	key := s.key()
	for cause, ctx := range s.ended() {
		held, err := s.call(acquire, ctx, key)
		s.wantNoHold(held, err)
		s.wantIs(err, cause, ctx.Err())
		var locked *lock.LockedError
		if errors.As(err, &locked) {
			s.Errorf("a lock that is free is said to be locked: %v", err)
		}
	}
	s.wantFree(key)
	h := s.acquire(key)
	for cause, ctx := range s.ended() {
		held, err := s.call(acquire, ctx, key)
		s.wantNoHold(held, err)
		s.wantIs(err, cause, ctx.Err())
	}
	s.wantHeld(key)
	s.release(h)
	s.wantFree(key)
}

// acquireWithin: every limit ends, and 0 tries once.
func acquireWithin(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	got, err := s.call(s.within(0), s.ctx, key)
	s.wantLocked(got, err)
	s.wantNot(err, lock.ErrTimeout, context.DeadlineExceeded)
	for _, limit := range []time.Duration{1, 100 * time.Microsecond, 20 * time.Millisecond} {
		got, err := s.call(s.within(limit), s.ctx, key)
		s.wantLocked(got, err)
		s.wantIs(err, lock.ErrTimeout, context.DeadlineExceeded)
	}
	got, err = s.callLimited(s.within(-1), key) // as long as the context allows
	s.wantLocked(got, err)
	s.wantIs(err, lock.ErrTimeout)
	came := begin(func() (lock.Hold, error) { return s.within(-1)(s.ctx, key) })
	s.untilWaiting(key)
	s.release(held)
	s.release(s.endHeld(came))
	s.wantFree(key)
}

// acquireFreeWithin: 0 gets a free lock. The shortest limits may fail to, and leave nothing
// behind then.
func acquireFreeWithin(s *subtest) {
	key := s.key()
	for _, limit := range []time.Duration{0, s.engine.Patience, -1} {
		held, err := s.call(s.within(limit), s.ctx, key)
		if err != nil {
			s.Fatalf("within %v: %v", limit, err)
		}
		s.release(s.held(held))
	}
	for range 10 {
		for _, limit := range []time.Duration{1, 100 * time.Microsecond, time.Millisecond} {
			held, err := s.call(s.within(limit), s.ctx, key)
			if err == nil {
				s.release(s.held(held))
				continue
			}
			s.wantNoHold(held, err)
			s.wantIs(err, context.DeadlineExceeded)
		}
	}
	s.wantFree(key)
}
