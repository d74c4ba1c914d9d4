package pg_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
)

// TestNestersDoNotStarve: more goroutines than there are connections, all of whom take
// three locks in one order.
func TestNestersDoNotStarve(t *testing.T) {
	l, prefix := open(t, pg.Options{}), key().Name
	at := func(name string) lock.Key { return lock.Key{Space: prefix, Name: name} }
	ctx := limited(t)
	var all sync.WaitGroup
	var done atomic.Int64
	for n := range 60 {
		all.Go(func() {
			err := lock.Do(ctx, l, at(fmt.Sprint("agent", n)), func(ctx context.Context, _ lock.Hold) error {
				return lock.Do(ctx, l, at("ledger"), func(ctx context.Context, _ lock.Hold) error {
					return lock.Do(ctx, l, at("audit"), func(context.Context, lock.Hold) error {
						done.Add(1)
						return nil
					})
				})
			})
			noErr(t, err)
		})
	}
	all.Wait()
	t.Logf("%d of 60 have finished", done.Load())
	wantIdle(t, l)
}

// TestDeadlockOfNestedHolds: the server finds it, one of the two is told, keeps what it
// has, and the other goes on when it releases that.
func TestDeadlockOfNestedHolds(t *testing.T) {
	l, a, b := open(t, pg.Options{}), key(), key()
	one, other := acquire(t, l, a), acquire(t, l, b)
	came := []<-chan outcome{begin(l, one.Context(limited(t)), b), begin(l, other.Context(limited(t)), a)}
	holds := []lock.Hold{one, other}
	var o outcome
	loser := 0
	select {
	case o = <-came[0]:
	case o = <-came[1]:
		loser = 1
	case <-time.After(patience):
		t.Fatal("the deadlock is not found")
	}
	if o.err == nil {
		t.Fatal("acquired what another has")
	}
	wantIs(t, o.err, pg.ErrDeadlock)
	wantStillHeld(t, holds[loser])
	check(t, holds[loser].Release())
	check(t, await(t, "the winner's lock", came[1-loser]).mustHave(t).Release())
	check(t, holds[1-loser].Release())
	wantIdle(t, l)
	wantFree(t, l, a)
	wantFree(t, l, b)
}

// wantStillHeld checks that a hold is none the worse, by itself and by the server.
func wantStillHeld(t testing.TB, h lock.Hold) {
	t.Helper()
	notYet(t, h.Lost(), "the hold is lost")
	_, err := open(t, pg.Options{}).TryAcquire(limited(t), h.(*pg.Hold).Key())
	wantLocked(t, err)
}

// TestTwoNestUnderOneHold: who comes while the session waits takes one of its own.
func TestTwoNestUnderOneHold(t *testing.T) {
	l, hot := open(t, pg.Options{}), key()
	elsewhere := acquire(t, open(t, pg.Options{}), hot)
	outer := acquire(t, l, key())
	ctx := outer.Context(limited(t))
	came := begin(l, ctx, hot)
	untilWaiting(t, l, hot)
	sibling, err := l.Acquire(ctx, key())
	check(t, err)
	that(t, !pg.SameSession(sibling, outer), "two are at work on one session")
	_, err = l.TryAcquire(ctx, hot)
	wantLocked(t, err)
	// Who comes with what the sibling has is on the sibling's session.
	deeper := must(l.Acquire(sibling.Context(ctx), key()))(t)
	that(t, pg.SameSession(deeper, sibling), "a nested hold is not on the session of the one that it is under")
	check(t, deeper.Release())
	check(t, sibling.Release())
	check(t, elsewhere.Release())
	inner := await(t, "the lock", came).mustHave(t)
	that(t, pg.SameSession(inner, outer), "a nested hold is not on the session of the one that it is under")
	check(t, inner.Release())
	check(t, outer.Release())
	wantIdle(t, l)
}

// TestTwoNestersOfOneKey: the server would grant it twice to one session.
func TestTwoNestersOfOneKey(t *testing.T) {
	for _, acquires := range [][2]func(*pg.Locker) func(context.Context, lock.Key) (lock.Hold, error){
		{func(l *pg.Locker) func(context.Context, lock.Key) (lock.Hold, error) { return l.Acquire },
			func(l *pg.Locker) func(context.Context, lock.Key) (lock.Hold, error) { return l.AcquireShared }},
		{func(l *pg.Locker) func(context.Context, lock.Key) (lock.Hold, error) { return l.AcquireShared },
			func(l *pg.Locker) func(context.Context, lock.Key) (lock.Hold, error) { return l.Acquire }},
		{func(l *pg.Locker) func(context.Context, lock.Key) (lock.Hold, error) { return l.Acquire },
			func(l *pg.Locker) func(context.Context, lock.Key) (lock.Hold, error) { return l.Acquire }},
	} {
		l, k := open(t, pg.Options{Conn: server.Conn() + " pool_max_conns=2"}), key()
		outer, full := acquire(t, l, key()), acquire(t, l, key())
		ctx := outer.Context(limited(t))
		first := must(acquires[0](l)(ctx, k))(t)
		came := make(chan outcome, 1)
		go func() {
			h, err := acquires[1](l)(ctx, k)
			came <- outcome{h, err}
		}()
		eventually(t, "the second stands in line", func() bool { return l.QueuedHere(k) == 1 })
		select {
		case o := <-came:
			t.Fatalf("two have the lock, or %v", o.err)
		default:
		}
		// There is no connection for it; it goes on with the session when that is free.
		check(t, first.Release())
		check(t, await(t, "the lock", came).mustHave(t).Release())
		check(t, full.Release())
		check(t, outer.Release())
		wantIdle(t, l)
	}
}

// TestOuterReleasedWhileInnerWaits: the wait goes on elsewhere, and nobody waits for it.
func TestOuterReleasedWhileInnerWaits(t *testing.T) {
	l, hot := open(t, pg.Options{}), key()
	other := open(t, pg.Options{})
	elsewhere := acquire(t, other, hot)
	outer := acquire(t, l, key())
	came := begin(l, outer.Context(limited(t)), hot)
	untilWaiting(t, l, hot)
	check(t, outer.Release())
	check(t, acquire(t, other, outer.Key()).Release())
	untilWaiting(t, l, hot)
	select {
	case o := <-came:
		t.Fatal("the wait has ended: ", o.err)
	default:
	}
	check(t, elsewhere.Release())
	check(t, await(t, "the lock", came).mustHave(t).Release())
	wantIdle(t, l)
	wantFree(t, l, hot)
}

// TestSiblingReleasedWhileInnerWaits: the wait goes on with the session, which is the
// outer's still.
func TestSiblingReleasedWhileInnerWaits(t *testing.T) {
	l, hot := open(t, pg.Options{}), key()
	elsewhere := acquire(t, open(t, pg.Options{}), hot)
	outer := acquire(t, l, key())
	ctx := outer.Context(limited(t))
	sibling := must(l.Acquire(ctx, key()))(t)
	came := begin(l, ctx, hot)
	untilWaiting(t, l, hot)
	if fence, err := sibling.Fence(); fence == 0 || err != nil {
		t.Errorf("fence %d, %v", fence, err)
	}
	check(t, sibling.Release())
	untilWaiting(t, l, hot)
	check(t, elsewhere.Release())
	inner := await(t, "the lock", came).mustHave(t)
	that(t, pg.SameSession(inner, outer), "not on the outer's session")
	check(t, inner.Release())
	check(t, outer.Release())
	wantIdle(t, l)
}

// TestOuterReleasedWhileInnerIsHeld: the inner stays.
func TestOuterReleasedWhileInnerIsHeld(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	outer := acquire(t, l, key())
	inner := must(l.Acquire(outer.Context(limited(t)), k))(t)
	check(t, outer.Release())
	wantStillHeld(t, inner)
	check(t, acquire(t, l, outer.Key()).Release())
	// What is acquired under the inner is on its session.
	deeper := must(l.Acquire(inner.Context(limited(t)), key()))(t)
	that(t, pg.SameSession(deeper, inner), "not on the session of the one that it is under")
	check(t, inner.Release())
	check(t, deeper.Release())
	wantIdle(t, l)
}

// TestInnerFails: by a cancel, by a lock that was granted and failed all the same, by a
// name that collides. The outer does not feel it.
func TestInnerFails(t *testing.T) {
	l, hot := open(t, pg.Options{}), key()
	elsewhere := acquire(t, open(t, pg.Options{}), hot)
	outer := acquire(t, l, key())
	for range 20 {
		ctx, cancel := context.WithCancel(outer.Context(limited(t)))
		came := begin(l, ctx, hot)
		untilWaiting(t, l, hot)
		cancel()
		wantLocked(t, await(t, "the end of the wait", came).err, context.Canceled)
	}
	wantStillHeld(t, outer)
	l.FailGranted(true)
	had := make(chan bool, 1)
	l.OnCleaned(func(h bool) { had <- h })
	that(t, errOf(l.Acquire(outer.Context(limited(t)), key())) != nil, "acquired, want it to fail")
	that(t, <-had, "the lock had not been granted: this test shows nothing")
	l.FailGranted(false)
	l.OnCleaned(nil)
	wantStillHeld(t, outer)
	inner := must(l.Acquire(outer.Context(limited(t)), key()))(t)
	that(t, pg.SameSession(inner, outer), "the session of the outer is not used any more")
	check(t, inner.Release())
	check(t, outer.Release())
	check(t, elsewhere.Release())
	wantMade(t, l, 1)
	wantIdle(t, l)
}

// TestLossTakesAllHoldsOfTheSession, and each is told.
func TestLossTakesAllHoldsOfTheSession(t *testing.T) {
	r := &recorder{}
	l, hot := open(t, pg.Options{Observe: r.Observe}), key()
	elsewhere := acquire(t, open(t, pg.Options{}), hot)
	outer := acquire(t, l, key())
	inner := must(l.Acquire(outer.Context(limited(t)), key()))(t)
	came := begin(l, context.WithoutCancel(inner.Context(limited(t))), hot)
	untilWaiting(t, l, hot)
	terminate(t, server.Conn(), inner)
	for _, h := range []lock.Hold{outer, inner} {
		await(t, "Lost", h.Lost())
		wantIs(t, context.Cause(h.Context(limited(t))), lock.ErrLost)
	}
	that(t, await(t, "the end of the wait", came).err != nil, "acquired what another has")
	// Others of this Locker can have them.
	check(t, acquire(t, l, outer.Key()).Release())
	for _, h := range []lock.Hold{inner, outer} {
		wantIs(t, h.Release(), lock.ErrLost)
	}
	equal(t, r.count(lock.EventLost), 2, "losses are told")
	check(t, elsewhere.Release())
	wantIdle(t, l)
}
