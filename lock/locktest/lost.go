package locktest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lock"
)

var lostTests = []test{
	{"Release", lostRelease}, // guards: T2
	{"Noticed", lostNoticed},
	{"Do", lostDo},
}

func (s *subtest) lose(key lock.Key, held lock.Hold) {
	s.Helper()
	if s.engine.Lose == nil {
		s.Skip("needs Engine.Lose, to take a lock from its holder")
	}
	s.engine.Lose(s.T, s.address, key, held)
}

// lostRelease: a robbed holder is told on release, at the latest.
func lostRelease(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	ctx := held.Context(s.ctx)
	fence := s.fence(held)
	s.lose(key, held)
	s.wantIs(held.Release(), lock.ErrLost)
	select {
	case <-held.Lost():
	case <-s.ctx.Done():
		s.Fatal("Lost is not closed, though Release said so")
	}
	s.wantEndedByLoss(ctx)
	s.wantEndedByLoss(held.Context(s.ctx)) // made too late
	s.release(held)                        // a further call
	next := s.acquire(key)
	if again := s.fence(next); again <= fence {
		s.Errorf("fence %d, after %d of a holder who lost the lock", again, fence)
	}
	s.release(held) // harms nobody
	s.wantHeld(key)
	s.release(next)
	s.wantFree(key)
}

func (s *subtest) wantEndedByLoss(ctx context.Context) {
	s.Helper()
	select {
	case <-ctx.Done():
		s.wantIs(context.Cause(ctx), lock.ErrLost)
	case <-s.ctx.Done():
		s.Fatal("the context of a lost hold goes on")
	}
}

// lostNoticed: where the engine watches, the holder is told while it holds, and others
// can acquire the lock at once.
func lostNoticed(s *subtest) {
	if !s.engine.NoticesLoss {
		s.Skip("needs an engine that notices a loss while it holds")
	}
	key := s.key()
	held := s.acquire(key)
	ctx := held.Context(s.ctx)
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	s.lose(key, held)
	select {
	case <-held.Lost():
	case <-s.ctx.Done():
		s.Fatal("the loss is not noticed")
	}
	s.wantEndedByLoss(ctx)
	s.wantEndedByLoss(derived)
	s.wantEndedByLoss(held.Context(s.ctx))
	next := s.acquire(key)
	s.wantIs(held.Release(), lock.ErrLost)
	s.release(held)
	s.wantHeld(key)
	s.release(next)
	s.wantFree(key)
}

// lostDo: work under a lock that was lost is not taken for done, unless its own error
// says so.
func lostDo(s *subtest) {
	mine := errors.New("error of the function")
	for _, want := range []error{nil, mine} {
		key := s.key()
		robbed := &robbed{Locker: s.locker}
		err := lock.Do(s.ctx, robbed, key, func(context.Context, lock.Hold) error {
			s.lose(key, robbed.held)
			return want
		})
		if want == nil {
			s.wantIs(err, lock.ErrLost)
		} else if err != want {
			s.Errorf("error is %v, want the very one of the function", err)
		}
		s.wantFree(key)
	}
}

// robbed is a Locker that shows its last hold, which Do keeps to itself.
type robbed struct {
	lock.Locker
	held lock.Hold
}

func (r *robbed) Acquire(ctx context.Context, key lock.Key) (held lock.Hold, err error) {
	r.held, err = r.Locker.Acquire(ctx, key)
	return r.held, err
}
