package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// subtest is a test with locks of its own.
type subtest struct {
	*testing.T
	engine  Engine
	address string
	locker  lock.Locker
	// ctx bounds what must not hang.
	ctx context.Context
	// witness is another process: see elsewhere. It is nil until it is needed.
	witness *child
}

func newSubtest(t *testing.T, e Engine) *subtest {
	ctx, cancel := context.WithTimeout(context.Background(), e.Patience+killsTake())
	t.Cleanup(cancel)
	s := &subtest{T: t, engine: e, address: e.Address(t), ctx: ctx}
	s.locker = s.open()
	return s
}

// open opens the locks once more.
func (s *subtest) open() lock.Locker {
	s.Helper()
	l, err := s.engine.OpenAt(s.ctx, s.address)
	if err != nil {
		s.Fatal("open: ", err)
	}
	s.Cleanup(func() {
		if s.Failed() {
			go shut(l) // it may wait for ever for what nobody releases any more
		} else if err := shut(l); err != nil {
			s.Error("close: ", err)
		}
	})
	return l
}

// shut closes locks that can be closed.
func shut(l lock.Locker) error {
	switch l := l.(type) {
	case interface{ Close() error }:
		return l.Close()
	case interface{ Close() }:
		l.Close()
	}
	return nil
}

// key returns a key that nobody has used.
func (s *subtest) key() lock.Key { return s.engine.Key(int(lastKey.Add(1))) }

func (s *subtest) acquire(key lock.Key) lock.Hold {
	s.Helper()
	held, err := s.call(s.locker.Acquire, s.ctx, key)
	if err != nil {
		s.Fatalf("acquire %v: %v", key, err)
	}
	return s.held(held)
}

// call calls a method of the Locker, and fails the test if that hangs.
func (s *subtest) call(acquire acquirer, ctx context.Context, key lock.Key) (lock.Hold, error) {
	s.Helper()
	o := s.end(begin(func() (lock.Hold, error) { return acquire(ctx, key) }))
	return o.held, o.err
}

// within is a method that acquires with a limit.
func (s *subtest) within(limit time.Duration) acquirer {
	return func(ctx context.Context, key lock.Key) (lock.Hold, error) {
		return lock.AcquireWithin(ctx, s.locker, key, limit)
	}
}

type acquirer func(ctx context.Context, key lock.Key) (lock.Hold, error)

// held checks that there is a hold, and has it end with the test.
func (s *subtest) held(h lock.Hold) lock.Hold {
	s.Helper()
	if h == nil {
		s.Fatal("neither a hold nor an error")
	}
	s.Cleanup(func() { _ = h.Release() })
	return h
}

func (s *subtest) release(h interface{ Release() error }) {
	s.Helper()
	if err := h.Release(); err != nil {
		s.Error("release: ", err)
	}
}

func (s *subtest) fence(h lock.Hold) int64 {
	s.Helper()
	fence, err := h.Fence()
	if err != nil {
		s.Fatal("fence: ", err)
	}
	return fence
}

// outcome is what an acquisition returned.
type outcome struct {
	held lock.Hold
	err  error
}

// begin calls acquire in another goroutine.
func begin(acquire func() (lock.Hold, error)) <-chan outcome {
	came := make(chan outcome, 1)
	go func() {
		held, err := acquire()
		came <- outcome{held, err}
	}()
	return came
}

// beginAcquire begins to wait for a lock that is held, and returns once it waits.
func (s *subtest) beginAcquire(ctx context.Context, key lock.Key) <-chan outcome {
	s.Helper()
	came := begin(func() (lock.Hold, error) { return s.locker.Acquire(ctx, key) })
	s.untilWaiting(key)
	return came
}

// end waits for an outcome, and fails the test if none comes.
func (s *subtest) end(came <-chan outcome) outcome {
	s.Helper()
	select {
	case o := <-came:
		return o
	case <-time.After(s.engine.Patience): // s.ctx may be the one that was to end it
		s.Fatal("acquiring does not end")
		return outcome{}
	}
}

func (s *subtest) endHeld(came <-chan outcome) lock.Hold {
	s.Helper()
	o := s.end(came)
	if o.err != nil {
		s.Fatal("acquire: ", o.err)
	}
	return s.held(o.held)
}

// wantLocked checks that an outcome says that somebody else has the lock.
func (s *subtest) wantLocked(h lock.Hold, err error) *lock.LockedError {
	s.Helper()
	s.wantNoHold(h, err)
	var locked *lock.LockedError
	if !errors.As(err, &locked) {
		s.Fatalf("error is %T (%v), want *lock.LockedError", err, err)
	}
	return locked
}

// wantNoHold checks that there is an error, and nothing beside it: a nil pointer in an
// interface would pass for a hold.
func (s *subtest) wantNoHold(h lock.Hold, err error) {
	s.Helper()
	if err == nil {
		if h != nil {
			_ = h.Release()
		}
		s.Fatal("acquired, want an error")
	}
	if h != nil {
		s.Errorf("with the error comes a hold, %T", h)
	}
}

func (s *subtest) wantIs(err error, targets ...error) {
	s.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			s.Errorf("error %q does not match %q", err, target)
		}
	}
}

func (s *subtest) wantNot(err error, targets ...error) {
	s.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			s.Errorf("error %q matches %q", err, target)
		}
	}
}

// wantHeld checks that somebody has the lock, as this process sees it and as another.
func (s *subtest) wantHeld(key lock.Key) {
	s.Helper()
	held, err := s.call(s.locker.TryAcquire, s.ctx, key)
	s.wantLocked(held, err)
	s.elsewhere().do(order{Do: "try", Key: key}, "locked")
}

// wantFree checks that the lock is free: here, in another process, and here again. It waits
// for the lock, as a wait that was called off may still be handed it for an instant.
func (s *subtest) wantFree(key lock.Key) {
	s.Helper()
	s.release(s.acquire(key))
	c := s.elsewhere()
	c.do(order{Do: "acquire", Key: key}, "held")
	c.do(order{Do: "release", Key: key}, "released")
	s.release(s.acquire(key))
}

// elsewhere returns a process that holds nothing.
func (s *subtest) elsewhere() *child {
	s.Helper()
	if s.witness == nil {
		s.witness = s.start()
	}
	return s.witness
}

// eventually looks again until cond holds.
func (s *subtest) eventually(what string, cond func() bool) {
	s.Helper()
	for !cond() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-s.ctx.Done():
			s.Fatalf("never happened: %s", what)
		}
	}
}

// listed is a lock as List has it: free, if it has it not.
func (s *subtest) listed(key lock.Key) lock.Status {
	s.Helper()
	found, times := lock.Status{Key: key, State: evidence.Free}, 0
	for l, err := range s.locker.List(s.ctx) {
		if err != nil {
			s.Fatal("list: ", err)
		}
		if l.Key == key {
			found = l
			times++
		}
	}
	if times > 1 {
		s.Errorf("%q is listed %d times", key, times)
	}
	return found
}

// holders counts who has a lock, or died holding it.
func holders(l lock.Status) int {
	if l.State == evidence.Free {
		return 0
	}
	return max(1, len(l.Processes))
}

// untilWaiting waits until List shows a waiter for the lock. An engine need not show all
// waiters of one process.
func (s *subtest) untilWaiting(key lock.Key) {
	s.Helper()
	if s.engine.HidesWaiters {
		return
	}
	s.eventually("List shows who waits", func() bool {
		return len(s.listed(key).Waiters) > 0
	})
}

// limited returns a context whose deadline comes soon.
func (s *subtest) limited() context.Context { return s.limitedTo(250 * time.Millisecond) }

func (s *subtest) limitedTo(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	s.Cleanup(cancel)
	return ctx
}

// callLimited is call with a limit. On a busy machine that may pass before the first look,
// which would name a holder: then a longer one is tried.
func (s *subtest) callLimited(acquire acquirer, key lock.Key) (held lock.Hold, err error) {
	s.Helper()
	for limit := 50 * time.Millisecond; limit < time.Minute; limit *= 4 {
		held, err = s.call(acquire, s.limitedTo(limit), key)
		if err == nil || errors.As(err, new(*lock.LockedError)) {
			break
		}
	}
	return held, err
}
