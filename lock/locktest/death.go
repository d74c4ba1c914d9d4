package locktest

import "github.com/holdfast-go/holdfast/lock"

var deathTests = []test{
	{"HolderKilled", holderKilled}, // guards: E2
	{"HolderKilledNobodyWaits", holderKilledAlone},
	{"HolderExits", holderExits},
	{"WaiterKilled", waiterKilled},   // guards: W8
	{"HolderStopped", holderStopped}, // guards: E8
}

// holderKilled: a waiter gets the lock of a holder that was killed, with a greater fence.
func holderKilled(s *subtest) {
	key := s.key()
	var last int64
	for range 3 {
		victim, c := s.start(), s.start()
		victim.do(order{Do: "acquire", Key: key}, "held")
		fence := victim.do(order{Do: "fence", Key: key}, "done").Fence
		if fence <= last {
			s.Errorf("fence %d, after %d", fence, last)
		}
		came := s.beginAcquire(s.ctx, key)
		victim.kill()
		held := s.endHeld(came)
		if last = s.fence(held); last <= fence {
			s.Errorf("fence %d, after %d of a holder that was killed", last, fence)
		}
		// Another process gets it in the same way.
		c.order(order{Do: "acquire", Key: key})
		s.untilWaiting(key)
		s.release(held)
		c.answer("held")
		c.kill()
	}
	s.wantFree(key)
}

func holderKilledAlone(s *subtest) {
	key := s.key()
	for range 3 {
		victim := s.start()
		victim.do(order{Do: "acquire", Key: key}, "held")
		victim.kill()
		s.release(s.acquire(key))
	}
	s.wantFree(key)
}

// holderExits: a process that ends without releasing keeps nothing.
func holderExits(s *subtest) {
	key := s.key()
	c := s.start()
	c.do(order{Do: "acquire", Key: key}, "held")
	came := s.beginAcquire(s.ctx, key)
	c.end()
	c.bury()
	s.release(s.endHeld(came))
	s.wantFree(key)
}

// waiterKilled: nothing is granted to a dead waiter.
func waiterKilled(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	for range 3 {
		victim := s.start()
		victim.order(order{Do: "acquire", Key: key})
		s.untilWaiting(key)
		victim.kill()
	}
	s.wantHeld(key)
	s.release(held)
	s.wantFree(key)
}

// holderStopped: a process that is stopped lives, and keeps its lock.
func holderStopped(s *subtest) {
	if s.engine.LosesStopped {
		s.Skip("needs an engine in which a process that is stopped keeps its locks")
	}
	if !canStop {
		s.Skip("needs a system where package syscall can wait for a process to stop")
	}
	key := s.key()
	c := s.start()
	c.do(order{Do: "acquire", Key: key}, "held")
	fence := c.do(order{Do: "fence", Key: key}, "done").Fence
	c.stop()
	s.wantTryFails(key)
	held, err := s.callLimited(s.locker.Acquire, key)
	s.wantLocked(held, err)
	s.wantIs(err, lock.ErrTimeout)
	came := s.beginAcquire(s.ctx, key)
	c.resume()
	if again := c.do(order{Do: "fence", Key: key}, "done").Fence; again != fence {
		s.Errorf("fence %d, after being stopped %d", fence, again)
	}
	c.do(order{Do: "release", Key: key}, "released")
	held = s.endHeld(came)
	if next := s.fence(held); next <= fence {
		s.Errorf("fence %d, after %d", next, fence)
	}
	s.release(held)
	s.wantFree(key)
}
