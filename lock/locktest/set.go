package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/lock"
)

var setTests = []test{
	{"OppositeOrders", setsInOppositeOrders},
	{"AllOrNone", setAllOrNone},
	{"Twice", setWithKeyTwice},
	{"InvalidKey", setWithInvalidKey},
	{"Empty", setOfNothing},
}

// takeSets acquires several locks together, again and again.
func takeSets(ctx context.Context, l lock.Locker, keys []lock.Key, rounds int) error {
	for range rounds {
		set, err := lock.AcquireKeys(ctx, l, keys...)
		if err != nil {
			return err
		}
		if n := len(set.Held()); n != len(keys) {
			return errors.Join(fmt.Errorf("%d locks of %d", n, len(keys)), set.Release())
		}
		if err := set.Release(); err != nil {
			return err
		}
	}
	return nil
}

// acquireSet is lock.AcquireKeys, and fails the test if that hangs.
func (s *subtest) acquireSet(ctx context.Context, keys ...lock.Key) (set *lock.Set, err error) {
	s.Helper()
	o := s.end(begin(func() (lock.Hold, error) {
		set, err = lock.AcquireKeys(ctx, s.locker, keys...)
		return nil, err
	}))
	return set, o.err
}

// setsInOppositeOrders: sets in opposite orders never wait for each other for ever.
func setsInOppositeOrders(s *subtest) {
	const rounds = 15
	keys := []lock.Key{s.key(), s.key(), s.key()}
	opposite := slices.Clone(keys)
	slices.Reverse(opposite)
	one, other := s.start(), s.start()
	one.order(order{Do: "sets", Keys: keys, Rounds: rounds})
	other.order(order{Do: "sets", Keys: opposite, Rounds: rounds})
	s.workers(
		func() error { return takeSets(s.ctx, s.locker, keys, rounds) },
		func() error { return takeSets(s.ctx, s.locker, opposite, rounds) },
	)
	one.answer("done")
	other.answer("done")
	for _, key := range keys {
		s.wantFree(key)
	}
}

// setAllOrNone: when one lock can't be acquired, none is held.
func setAllOrNone(s *subtest) {
	keys := []lock.Key{s.key(), s.key(), s.key()}
	for i, taken := range keys {
		held := s.acquire(taken)
		set, err := s.acquireSet(s.limited(), keys...)
		if err == nil {
			_ = set.Release()
			s.Fatal("acquired, with one of the locks another's")
		}
		if set != nil {
			s.Error("with the error comes a set")
		}
		s.wantIs(err, lock.ErrTimeout)
		for j, key := range keys {
			if j != i {
				s.wantFree(key)
			}
		}
		s.wantHeld(taken)
		s.release(held)
	}
	set, err := s.acquireSet(s.ctx, keys...)
	if err != nil {
		s.Fatal(err)
	}
	for _, h := range set.Held() {
		s.held(h)
	}
	for _, key := range keys {
		s.wantHeld(key)
	}
	s.release(set)
	s.release(set)
	for _, key := range keys {
		s.wantFree(key)
	}
}

func setWithKeyTwice(s *subtest) {
	a, b := s.key(), s.key()
	s.wantInvalidSet(a, b, a)
	s.wantFree(a)
	s.wantFree(b)
}

func setWithInvalidKey(s *subtest) {
	a := s.key()
	s.wantInvalidSet(a, lock.Key{Space: a.Space})
	s.wantInvalidSet(lock.Key{Name: a.Name}, a)
	s.wantFree(a)
}

func (s *subtest) wantInvalidSet(keys ...lock.Key) {
	s.Helper()
	set, err := s.acquireSet(s.ctx, keys...)
	if err == nil {
		_ = set.Release()
		s.Fatalf("acquired %v", keys)
	}
	s.wantIs(err, lock.ErrInvalidName)
}

func setOfNothing(s *subtest) {
	set, err := s.acquireSet(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	if n := len(set.Held()); n != 0 {
		s.Errorf("%d locks of none", n)
	}
	s.release(set)
}
