package locktest

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
)

var releaseTests = []test{
	{"Twice", releaseTwice}, // guards: S13
	{"OtherGoroutine", releaseElsewhere},
	{"Concurrently", releaseConcurrently},
	{"OfOldHold", releaseOldHold}, // guards: S13
	{"EndsNothing", releaseEndsNothing},
	{"Info", infoOfHold},
}

func releaseTwice(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	for range 3 {
		s.release(held)
	}
	s.wantFree(key)
}

func releaseElsewhere(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	s.workers(held.Release)
	s.wantFree(key)
}

func releaseConcurrently(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	s.workers(held.Release, held.Release, held.Release, held.Release, held.Release, held.Release)
	s.wantFree(key)
}

// releaseOldHold: a further release of a hold that is over does nothing to the next one.
func releaseOldHold(s *subtest) {
	key := s.key()
	old := s.acquire(key)
	s.release(old)
	next := s.acquire(key)
	s.release(old)
	s.wantHeld(key)
	s.release(next)
	c := s.start()
	c.do(order{Do: "acquire", Key: key}, "held")
	s.release(next)
	s.release(old)
	s.wantTryFails(key)
	c.do(order{Do: "release", Key: key}, "released")
	s.wantFree(key)
}

// releaseEndsNothing: contexts go on after a release, and nothing is said to be lost.
func releaseEndsNothing(s *subtest) {
	held := s.acquire(s.key())
	parent, cancel := context.WithCancel(s.ctx)
	defer cancel()
	before := held.Context(parent)
	s.release(held)
	after := held.Context(parent)
	select {
	case <-held.Lost():
		s.Error("a lock that was released is said to be lost")
	default:
	}
	for name, ctx := range map[string]context.Context{"before": before, "after": after} {
		if ctx.Err() != nil {
			s.Errorf("the context made %s the release has ended: %v", name, context.Cause(ctx))
		}
		if _, has := ctx.Deadline(); !has {
			s.Errorf("the context made %s the release does not have its parent's deadline", name)
		}
	}
	cancel()
	<-before.Done()
	<-after.Done()
}

// infoOfHold: a hold tells its holder and since when, and keeps to it.
func infoOfHold(s *subtest) {
	key := s.key()
	held := s.acquire(key)
	info := held.Info()
	if info.PID <= 0 || info.CreatedAt.IsZero() {
		s.Errorf("info: %+v; want a pid, and a time", info)
	}
	if again := held.Info(); again.PID != info.PID || !again.CreatedAt.Equal(info.CreatedAt) {
		s.Errorf("info: first %+v, then %+v", info, again)
	}
	s.release(held)
	s.wantFree(key)
}

var fenceTests = []test{
	{"Increases", fenceIncreases}, // guards: F1
	{"Stable", fenceStable},
	{"SomeDoNotAsk", fenceWithGaps},
	{"Rule", fenceRule},   // guards: F2
	{"Moved", fenceMoved}, // guards: F2
}

// fenceIncreases: the fence grows from one holder to the next, in whichever processes. The
// room checks it.
func fenceIncreases(s *subtest) { s.workTogether(3, 15) }

// fenceStable: one hold has one fence, for all goroutines, also after its release.
func fenceStable(s *subtest) {
	held := s.acquire(s.key())
	want := s.fence(held)
	if want <= 0 {
		s.Errorf("fence %d", want)
	}
	ask := func() error {
		if fence, err := held.Fence(); err != nil || fence != want {
			return fmt.Errorf("fence %d, %v; want %d still", fence, err, want)
		}
		return nil
	}
	s.workers(ask, ask, ask, ask)
	s.release(held)
	s.workers(ask)
}

// fenceWithGaps: holders that do not ask make no difference.
func fenceWithGaps(s *subtest) {
	key := s.key()
	c := s.start()
	var last int64
	for i := range 12 {
		var fence int64
		if i%2 == 0 {
			held := s.acquire(key)
			fence = s.fence(held)
			s.release(held)
		} else {
			c.do(order{Do: "acquire", Key: key}, "held")
			fence = c.do(order{Do: "fence", Key: key}, "done").Fence
			c.do(order{Do: "release", Key: key}, "released")
		}
		if fence <= last {
			s.Errorf("hold %d: fence %d, after %d", i, fence, last)
		}
		last = fence
		s.release(s.acquire(key))
	}
}

// fenceRule: it is the time in microseconds, or more, and exact in all that reads JSON.
func fenceRule(s *subtest) {
	key := s.key()
	c := s.start()
	for range 3 {
		before := time.Now().UnixMicro()
		held := s.acquire(key)
		here := s.fence(held)
		s.release(held)
		c.do(order{Do: "acquire", Key: key}, "held")
		there := c.do(order{Do: "fence", Key: key}, "done").Fence
		c.do(order{Do: "release", Key: key}, "released")
		if here < before || there <= here || there > engine.MaxFence {
			s.Errorf("fences %d and %d, at %d; want those of engine.NextFence", here, there, before)
		}
	}
}

// fenceMoved: from one engine to another, fences go on upwards.
func fenceMoved(s *subtest) {
	key := s.key()
	last := int64(0)
	for i, l := range []lock.Locker{lock.Dir{Path: s.TempDir()}, s.locker, lock.Dir{Path: s.TempDir()}} {
		held, err := s.call(l.Acquire, s.ctx, key)
		if err != nil {
			s.Fatalf("acquire %v: %v", key, err)
		}
		fence := s.fence(s.held(held))
		s.release(held)
		if fence <= last {
			s.Errorf("engine %d: fence %d, after %d of the one before", i, fence, last)
		}
		last = fence
	}
}
