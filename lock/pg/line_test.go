package pg_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lock/pg"
)

// TestLine: of all who want a lock in one process, one waits at the server, and they come
// in the order in which they came.
func TestLine(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	held := acquire(t, open(t, pg.Options{}), k)
	ctx := limited(t)
	var order []int
	var mu sync.Mutex
	var all sync.WaitGroup
	const waiters = 30
	for n := range waiters {
		all.Go(func() {
			acquire := l.Acquire
			if n%5 == 0 {
				acquire = l.AcquireShared
			}
			h, err := acquire(ctx, k)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, n)
			mu.Unlock()
			noErr(t, h.Release())
		})
		eventually(t, "it stands in line", func() bool { return l.QueuedHere(k) == n+1 })
	}
	untilWaiting(t, l, k)
	equal(t, len(waiting(t, l, k)), 1, "wait at the server")
	if taken, _, _ := l.Stat(); taken != 1 {
		t.Errorf("%d connections are taken, want 1", taken)
	}
	check(t, held.Release())
	all.Wait()
	// A reader releases beside the next one who comes, so their notes may cross.
	if !slices.IsSortedFunc(order, func(a, b int) int { return (a - b) / 2 }) || len(order) != waiters {
		t.Errorf("they came in the order %v", order)
	}
	wantIdle(t, l)
}

// TestNextIsQueued: while one of a process holds, the next is in the server's queue.
func TestNextIsQueued(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	held := acquire(t, l, k)
	came := []<-chan outcome{begin(l, limited(t), k), begin(l, limited(t), k)}
	untilWaiting(t, l, k)
	check(t, held.Release())
	for range came {
		var o outcome
		select {
		case o = <-came[0]:
		case o = <-came[1]:
		}
		if n := l.QueuedHere(k); n > 1 {
			t.Errorf("%d in line", n)
		}
		check(t, o.mustHave(t).Release())
	}
	wantIdle(t, l)
}

// TestLineGivesUp: from the middle and the head, and the rest goes on.
func TestLineGivesUp(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	held := acquire(t, open(t, pg.Options{Cmd: "first"}), k)
	var came []<-chan outcome
	var cancels []context.CancelFunc
	for n := range 4 {
		ctx, cancel := context.WithCancel(limited(t))
		defer cancel()
		came, cancels = append(came, begin(l, ctx, k)), append(cancels, cancel)
		eventually(t, "it stands in line", func() bool { return l.QueuedHere(k) == n+1 })
	}
	untilWaiting(t, l, k)
	for _, n := range []int{2, 0} {
		cancels[n]()
		locked := wantLocked(t, await(t, "the end of the wait", came[n]).err, context.Canceled)
		if locked.Info == nil || locked.Info.PID != held.Info().PID || locked.Waited <= 0 {
			t.Errorf("in the way of %d is %+v, want session %d; waited %v", n, locked.Info, held.Info().PID, locked.Waited)
		}
	}
	check(t, held.Release())
	for _, n := range []int{1, 3} {
		check(t, await(t, "the lock", came[n]).mustHave(t).Release())
	}
	wantIdle(t, l)
}
