package locktest

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

var reentrantTests = []test{
	{"Acquire", reentrantAcquire}, // guards: W11
	{"Do", reentrantDo},
	{"OtherKey", nestedOtherKey},
	{"OuterReleasedFirst", nestedOuterReleasedFirst},
	{"TwoUnderOne", nestedTwoUnderOne},
	{"OuterReleasedInWait", nestedOuterReleasedInWait},
	{"Set", reentrantSet},
	{"AfterRelease", notReentrantAfterRelease},
	{"WithoutContext", notReentrantWithoutContext},
}

type contextKey struct{}

// reentrantAcquire: a caller that would wait for itself is told so at once, under any
// context derived from the hold's.
func reentrantAcquire(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	ctx := held.Context(s.ctx)
	derived, cancel := context.WithCancel(context.WithValue(ctx, contextKey{}, 1))
	defer cancel()
	for _, ctx := range []context.Context{ctx, derived, context.WithoutCancel(derived)} {
		for _, acquire := range []acquirer{s.locker.Acquire, s.locker.TryAcquire, s.within(-1), s.within(0), s.within(time.Hour)} {
			s.wantReentrant(s.call(acquire, ctx, key))
		}
		s.wantSkipped(ctx, key)
		if ctx.Err() != nil {
			s.Error("the context has ended: ", context.Cause(ctx))
		}
	}
	s.wantHeld(key)
	s.release(held)
	s.wantFree(key)
}

func (s *subtest) wantReentrant(held lock.Hold, err error) {
	s.Helper()
	s.wantLocked(held, err)
	s.wantIs(err, lock.ErrReentrant)
	s.wantNot(err, lock.ErrTimeout)
}

// wantSkipped checks that TryDo does nothing, and calls that no error.
func (s *subtest) wantSkipped(ctx context.Context, key lock.Key) {
	s.Helper()
	acquired, err := lock.TryDo(ctx, s.locker, key, func(context.Context, lock.Hold) error {
		s.Error("TryDo called its function under a lock that is another's")
		return nil
	})
	if acquired || err != nil {
		s.Errorf("TryDo: %v, %v; want false, and no error", acquired, err)
	}
}

func reentrantDo(s *subtest) {
	key := s.key()
	err := lock.Do(s.ctx, s.locker, key, func(ctx context.Context, _ lock.Hold) error {
		s.wantReentrant(s.call(func(ctx context.Context, key lock.Key) (lock.Hold, error) {
			return nil, lock.Do(ctx, s.locker, key, func(context.Context, lock.Hold) error { return nil })
		}, ctx, key))
		s.wantSkipped(ctx, key)
		s.wantHeld(key)
		return nil
	})
	if err != nil {
		s.Error(err)
	}
	s.wantFree(key)
}

// nestedOtherKey: under one lock another can be acquired, and both are found in the context.
func nestedOtherKey(s *subtest) {
	outer, inner := s.key(), s.key()
	held := s.acquire(outer)
	nested, err := s.call(s.locker.Acquire, held.Context(s.ctx), inner)
	if err != nil {
		s.Fatal("another key under the first: ", err)
	}
	ctx := s.held(nested).Context(held.Context(s.ctx))
	for _, key := range []lock.Key{outer, inner} {
		s.wantReentrant(s.call(s.locker.Acquire, ctx, key))
	}
	s.release(nested)
	s.wantReentrant(s.call(s.locker.Acquire, ctx, outer))
	s.wantFree(inner)
	s.wantHeld(outer)
	s.release(held)
	s.wantFree(outer)
}

// nestedOuterReleasedFirst: the inner lock is none the worse.
func nestedOuterReleasedFirst(s *subtest) {
	outer, inner := s.key(), s.key()
	held := s.acquire(outer)
	nested, err := s.call(s.locker.Acquire, held.Context(s.ctx), inner)
	if err != nil {
		s.Fatal("another key under the first: ", err)
	}
	s.held(nested)
	s.release(held)
	s.wantFree(outer)
	s.wantHeld(inner)
	s.release(nested)
	s.wantFree(inner)
}

// nestedTwoUnderOne: two goroutines that acquire under one hold exclude each other, and one
// that waits does not keep the other from what is free.
func nestedTwoUnderOne(s *subtest) {
	key, free := s.key(), s.key()
	outer := s.acquire(s.key())
	ctx := outer.Context(s.ctx)
	first, err := s.call(s.locker.Acquire, ctx, key)
	if err != nil {
		s.Fatal("another key under the first: ", err)
	}
	s.held(first)
	came := begin(func() (lock.Hold, error) { return s.locker.Acquire(ctx, key) })
	got, err := s.call(s.locker.TryAcquire, ctx, key)
	s.wantLocked(got, err)
	s.wantNot(err, lock.ErrReentrant)
	another, err := s.call(s.locker.Acquire, ctx, free)
	if err != nil {
		s.Fatal("a free key while a sibling waits: ", err)
	}
	s.release(s.held(another))
	select {
	case o := <-came:
		s.Fatalf("two have the lock, or %v", o.err)
	default:
	}
	s.release(first)
	s.release(s.endHeld(came))
	s.release(outer)
	s.wantFree(key)
}

// nestedOuterReleasedInWait: a wait goes on when its outer hold is released, and that release
// does not wait for it.
func nestedOuterReleasedInWait(s *subtest) {
	key, free := s.key(), s.key()
	c := s.start()
	c.do(order{Do: "acquire", Key: key}, "held")
	outer := s.acquire(free)
	came := begin(func() (lock.Hold, error) { return s.locker.Acquire(outer.Context(s.ctx), key) })
	s.untilWaiting(key)
	s.release(outer)
	s.wantFree(free)
	c.do(order{Do: "release", Key: key}, "released")
	s.release(s.endHeld(came))
	s.wantFree(key)
}

func reentrantSet(s *subtest) {
	a, b := s.key(), s.key()
	set, err := s.acquireSet(s.ctx, a, b)
	if err != nil {
		s.Fatal(err)
	}
	for _, h := range set.Held() {
		s.held(h)
	}
	ctx := set.Context(s.ctx)
	for _, key := range []lock.Key{a, b} {
		s.wantReentrant(s.call(s.locker.Acquire, ctx, key))
		s.wantHeld(key)
	}
	s.release(set)
	s.wantFree(a)
	s.wantFree(b)
}

// notReentrantAfterRelease: a context that outlives its hold is like any other.
func notReentrantAfterRelease(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	ctx := held.Context(s.ctx)
	s.release(held)
	if ctx.Err() != nil {
		s.Fatal("the release has ended the context: ", context.Cause(ctx))
	}
	again, err := s.call(s.locker.Acquire, ctx, key)
	if err != nil {
		s.Fatal("acquire under a context of a hold that is over: ", err)
	}
	s.held(again)
	// The first hold's context does not carry the second hold.
	got, err := s.call(s.locker.TryAcquire, ctx, key)
	s.wantLocked(got, err)
	s.wantNot(err, lock.ErrReentrant)
	s.release(again)
	s.wantFree(key)
}

// notReentrantWithoutContext: a goroutine without the holder's context is contention, like
// any other process.
func notReentrantWithoutContext(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	got, err := s.call(s.locker.TryAcquire, s.ctx, key)
	s.wantLocked(got, err)
	s.wantNot(err, lock.ErrReentrant)
	got, err = s.callLimited(s.locker.Acquire, key)
	s.wantLocked(got, err)
	s.wantIs(err, lock.ErrTimeout)
	s.wantNot(err, lock.ErrReentrant)
	s.release(held)
	s.wantFree(key)
}
