package locktest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

var inspectTests = []test{
	{"Free", inspectFree},
	{"Holder", inspectHolder},
	{"HolderElsewhere", inspectHolderElsewhere},
	{"Waiter", inspectWaiter},
	{"Readers", inspectReaders},
	{"Keys", inspectKeys},
	{"EndedContext", inspectEnded},
}

func (s *subtest) inspect(key lock.Key) lock.Status {
	s.Helper()
	l, err := s.locker.Inspect(s.ctx, key)
	if err != nil {
		s.Fatalf("inspect %v: %v", key, err)
	}
	if l.Key != key || l.Path == "" || l.Evidence == "" {
		s.Errorf("%v is inspected as %+v", key, l)
	}
	return l
}

// wantAsListed checks that a lock with which nothing happens is inspected as it is listed.
func (s *subtest) wantAsListed(key lock.Key) lock.Status {
	s.Helper()
	l, listed := s.inspect(key), s.listed(key)
	words := func(l lock.Status) string {
		who := evidence.Claim{}
		if l.Info != nil {
			who = *l.Info
		}
		text := fmt.Sprint(l.Path, l.State, l.Evidence, l.Shared, who, who.Nonce)
		for _, p := range slices.Concat(l.Processes, l.Waiters) {
			text += fmt.Sprint(";", p.PID, p.Cmd, p.Since, p.BlockedBy)
		}
		return text
	}
	if words(l) != words(listed) || len(l.Waiters) != len(listed.Waiters) {
		s.Errorf("inspected as %+v, and listed as %+v", l, listed)
	}
	return l
}

func (s *subtest) wantInspectedFree(key lock.Key) {
	s.Helper()
	if l := s.inspect(key); l.State != evidence.Free || l.Info != nil || l.Shared || len(l.Processes)+len(l.Waiters) != 0 {
		s.Errorf("nobody has it, and it is inspected as %+v", l)
	}
}

// inspectFree: of a lock that nobody has had, whoever has others; and looking takes nothing.
func inspectFree(s *subtest) {
	key, other := s.key(), s.key()
	s.wantInspectedFree(key)
	s.acquire(other)
	s.acquire(lock.Key{Space: key.Space + "-other", Name: key.Name})
	s.wantInspectedFree(key)
	s.wantFree(key)
	s.wantInspectedFree(key)
}

func inspectHolder(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	l := s.wantHolder(s.wantAsListed(key))
	if l.Info != nil && l.Info.PID != held.Info().PID {
		s.Errorf("who has pid %d, and the holder %d", l.Info.PID, held.Info().PID)
	}
	s.wantHeld(key) // looking has taken nothing from it
	s.release(held)
	s.wantInspectedFree(key)
}

// inspectHolderElsewhere: another process's lock, too, and not as held when that has died.
func inspectHolderElsewhere(s *subtest) {
	key := s.key()
	c := s.start()
	c.do(order{Do: "acquire", Key: key}, "held")
	s.wantHolder(s.wantAsListed(key))
	c.kill()
	s.eventually("a dead holder is not inspected as held", func() bool { return s.inspect(key).State != evidence.Held })
	if l := s.inspect(key); l.State != evidence.Free && l.State != evidence.Dead {
		s.Errorf("of a holder that died it is said: %q (%s)", l.State, l.Evidence)
	}
	s.wantFree(key)
	s.wantInspectedFree(key)
}

func inspectWaiter(s *subtest) {
	if s.engine.HidesWaiters {
		s.Skip("needs an engine that shows who waits")
	}
	key := s.key()
	held, waiter := s.acquire(key), s.start()
	waiter.order(order{Do: "acquire", Key: key})
	s.untilWaiting(key)
	if l := s.wantAsListed(key); len(l.Waiters) != 1 {
		s.Errorf("one waits, and it is inspected as %+v", l)
	}
	s.release(held)
	waiter.answer("held")
	if l := s.inspect(key); len(l.Waiters) != 0 {
		s.Errorf("nobody waits, and it is inspected as %+v", l)
	}
	waiter.do(order{Do: "release", Key: key}, "released")
}

func inspectReaders(s *subtest) {
	key := s.key()
	one := s.acquireShared(key)
	other := s.acquireShared(key)
	if l := s.wantAsListed(key); l.State != evidence.Held || !l.Shared {
		s.Errorf("readers have it, and it is inspected as %+v", l)
	}
	s.release(one)
	s.release(other)
	s.wantInspectedFree(key)
}

// inspectKeys: a key that can't be acquired can't be inspected either, for the same reason.
func inspectKeys(s *subtest) {
	salt := s.key()
	keys := []lock.Key{{}, {Space: salt.Space}, {Name: salt.Name}}
	for _, name := range odd {
		keys = append(keys, lock.Key{Space: salt.Space + "-odd", Name: name})
	}
	for _, key := range keys {
		held, err := s.call(s.locker.TryAcquire, s.ctx, key)
		if err == nil {
			s.release(s.held(held))
		}
		l, lookErr := s.locker.Inspect(s.ctx, key)
		if lookErr == nil && l.Key != key || errors.Is(err, lock.ErrInvalidName) != errors.Is(lookErr, lock.ErrInvalidName) {
			s.Errorf("%q: acquiring gives %v, and inspecting %+v, %v", key, err, l, lookErr)
		}
	}
}

func inspectEnded(s *subtest) {
	key := s.key()
	s.acquire(key)
	for cause, ctx := range s.ended() {
		if _, err := s.locker.Inspect(ctx, key); !errors.Is(err, cause) && !errors.Is(err, ctx.Err()) {
			s.Errorf("error is %v, want %v", err, cause)
		}
	}
}
