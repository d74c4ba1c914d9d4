package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

var sharedTests = []test{
	{"ReadersTogether", readersTogether},
	{"ReadersAndWriters", readersAndWriters}, // guards: R1
	{"WriterAmongReaders", writerAmongReaders},
	{"ReaderKilled", readerKilled},
	{"Timeout", sharedTimeout},
	{"Within", sharedWithin},
	{"Do", sharedDo},
	{"WriterGivesUp", writerGivesUp},
	{"EndedContext", sharedEnded},
	{"Reentrant", sharedReentrant},
}

// shared gives the Locker, and skips where there are no shared locks.
func (s *subtest) shared() lock.SharedLocker {
	s.Helper()
	l, ok := s.locker.(lock.SharedLocker)
	if !ok || s.engine.NoShared {
		s.Skip("needs an engine with shared locks")
	}
	return l
}

func (s *subtest) acquireShared(key lock.Key) lock.Hold {
	s.Helper()
	held, err := s.call(s.shared().AcquireShared, s.ctx, key)
	if err != nil {
		s.Fatalf("acquire %v shared: %v", key, err)
	}
	return s.held(held)
}

func readersTogether(s *subtest) {
	key := s.key()
	one, other := s.acquireShared(key), s.acquireShared(key)
	c := s.start()
	c.do(order{Do: "shared", Key: key}, "held")
	tried, err := s.call(s.shared().TryAcquireShared, s.ctx, key)
	if err != nil {
		s.Fatal("a reader beside readers: ", err)
	}
	s.wantHeld(key)
	s.release(one)
	s.release(tried)
	s.wantHeld(key)
	s.release(other)
	s.wantHeld(key)
	c.do(order{Do: "release", Key: key}, "released")
	held := s.acquire(key)
	got, err := s.call(s.shared().TryAcquireShared, s.ctx, key)
	s.wantLocked(got, err)
	c.do(order{Do: "try-shared", Key: key}, "locked")
	s.release(held)
	s.wantFree(key)
}

// readersAndWriters: a writer is always alone.
func readersAndWriters(s *subtest) {
	const rounds = 15
	l := s.shared()
	key, r := s.key(), s.room()
	reader, writer := s.start(), s.start()
	// Chance may keep them apart on a busy machine, so here they meet for certain.
	s.release(s.acquire(key)) // what an engine does at first may take longer than the limit
	writer.do(order{Do: "acquire", Key: key}, "held")
	held, err := s.callLimited(l.AcquireShared, key)
	s.wantLocked(held, err)
	writer.do(order{Do: "release", Key: key}, "released")
	reader.order(order{Do: "read", Key: key, Rounds: rounds, Room: r.as("child-reader")})
	writer.order(order{Do: "work", Key: key, Rounds: rounds, Room: r.as("child-writer")})
	s.workers(
		func() error { return read(s.ctx, l, order{Key: key, Rounds: rounds, Room: r.as("reader1")}) },
		func() error { return read(s.ctx, l, order{Key: key, Rounds: rounds, Room: r.as("reader2")}) },
		func() error { return work(s.ctx, l, order{Key: key, Rounds: rounds, Room: r.as("writer")}) },
	)
	reader.answer("done")
	writer.answer("done")
	if left := s.checkRoom(r, 0); left != 2*rounds && !s.Failed() {
		s.Errorf("%d visits of writers, want %d", left, 2*rounds)
	}
	s.wantFree(key)
}

// writerAmongReaders: a stream of readers does not keep out a writer for ever.
func writerAmongReaders(s *subtest) {
	const readers, writes = 4, 5
	l := s.shared()
	key := s.key()
	var stop atomic.Bool
	var workers []func() error
	for range readers {
		workers = append(workers, func() error {
			for !stop.Load() {
				held, err := l.AcquireShared(s.ctx, key)
				if err != nil {
					return fmt.Errorf("reader: %w", err)
				}
				time.Sleep(time.Millisecond) // so that there is nearly always one
				if err := held.Release(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.workers(append(workers, func() error {
		defer stop.Store(true)
		for range writes {
			held, err := l.Acquire(s.ctx, key)
			if err != nil {
				return fmt.Errorf("writer: %w", err)
			}
			if err := held.Release(); err != nil {
				return err
			}
		}
		return nil
	})...)
	s.wantFree(key)
}

// readerKilled: a dead reader keeps out no writer.
func readerKilled(s *subtest) {
	key := s.key()
	stays := s.acquireShared(key)
	victim := s.start()
	victim.do(order{Do: "shared", Key: key}, "held")
	victim.kill()
	s.wantHeld(key)
	s.release(stays)
	s.wantFree(key)

	// Now the last reader, with a writer waiting.
	victim = s.start()
	victim.do(order{Do: "shared", Key: key}, "held")
	came := s.beginAcquire(s.ctx, key)
	victim.kill()
	s.release(s.endHeld(came))
	s.release(s.acquireShared(key))
	s.wantFree(key)
}

func sharedTimeout(s *subtest) {
	l := s.shared()
	key := s.key()
	held := s.acquire(key)
	got, err := s.callLimited(l.AcquireShared, key)
	s.wantLocked(got, err)
	s.wantIs(err, lock.ErrTimeout, context.DeadlineExceeded)
	s.release(held)
	reader := s.acquireShared(key)
	got, err = s.callLimited(l.Acquire, key)
	s.wantLocked(got, err)
	s.wantIs(err, lock.ErrTimeout, context.DeadlineExceeded)
	s.release(reader)
	s.release(s.acquireShared(key))
	s.wantFree(key)
}

// sharedWithin: a reader beside readers is let in, whatever the limit. While a writer has
// the lock, every limit ends, and 0 tries once.
func sharedWithin(s *subtest) {
	l := s.shared()
	key := s.key()
	within := func(limit time.Duration) acquirer {
		return func(ctx context.Context, key lock.Key) (lock.Hold, error) {
			return lock.AcquireWithin(ctx, lock.Readers(l), key, limit)
		}
	}
	reader := s.acquireShared(key)
	for _, limit := range []time.Duration{0, s.engine.Patience, -1} {
		held, err := s.call(within(limit), s.ctx, key)
		if err != nil {
			s.Fatalf("a reader beside readers, within %v: %v", limit, err)
		}
		s.release(s.held(held))
	}
	s.wantHeld(key)
	s.release(reader)
	writer := s.acquire(key)
	got, err := s.call(within(0), s.ctx, key)
	s.wantLocked(got, err)
	s.wantNot(err, lock.ErrTimeout, context.DeadlineExceeded)
	for _, limit := range []time.Duration{1, 20 * time.Millisecond} {
		got, err := s.call(within(limit), s.ctx, key)
		s.wantLocked(got, err)
		s.wantIs(err, lock.ErrTimeout, context.DeadlineExceeded)
	}
	s.release(writer)
	s.wantFree(key)
}

// sharedDo: the function runs as a reader, with a context that carries the hold, and its
// error is passed on as it is.
func sharedDo(s *subtest) {
	l := s.shared()
	key := s.key()
	doShared := func(ctx context.Context, fn func(context.Context) error) error {
		return s.end(begin(func() (lock.Hold, error) {
			return nil, lock.Do(ctx, lock.Readers(l), key, func(ctx context.Context, _ lock.Hold) error { return fn(ctx) })
		})).err
	}
	mine := errors.New("error of the function")
	called := 0
	err := doShared(s.ctx, func(ctx context.Context) error {
		s.wantHeld(key) // no writer gets in
		s.wantReentrant(l.TryAcquireShared(ctx, key))
		return doShared(s.ctx, func(context.Context) error { called++; return mine }) // another reader does
	})
	if err != mine || called != 1 {
		s.Errorf("called %d times, %v, want once, and the very error of the function", called, err)
	}
	s.wantFree(key)
	writer := s.acquire(key)
	err = doShared(s.limited(), func(context.Context) error {
		s.Error("called beside a writer")
		return nil
	})
	s.wantIs(err, lock.ErrTimeout, context.DeadlineExceeded)
	s.release(writer)
	s.wantFree(key)
}

// writerGivesUp: a writer that has given up is in no reader's way.
func writerGivesUp(s *subtest) {
	key := s.key()
	reader := s.acquireShared(key)
	held, err := s.callLimited(s.locker.Acquire, key)
	s.wantLocked(held, err)
	s.release(s.acquireShared(key))
	c := s.start()
	c.do(order{Do: "shared", Key: key}, "held")
	c.do(order{Do: "release", Key: key}, "released")
	s.release(reader)
	s.wantFree(key)
}

func sharedEnded(s *subtest) {
	s.wantRefused(s.shared().AcquireShared)
	s.wantRefused(s.shared().TryAcquireShared)
}

// sharedReentrant: a reader that asks again, to read or to write, might wait for itself.
func sharedReentrant(s *subtest) {
	l := s.shared()
	key := s.key()
	held := s.acquireShared(key)
	ctx := held.Context(s.ctx)
	for _, acquire := range []acquirer{l.Acquire, l.AcquireShared, l.TryAcquire, l.TryAcquireShared} {
		s.wantReentrant(s.call(acquire, ctx, key))
	}
	s.release(held)
	held = s.acquire(key)
	ctx = held.Context(s.ctx)
	s.wantReentrant(s.call(l.AcquireShared, ctx, key))
	s.release(held)
	s.wantFree(key)
}
