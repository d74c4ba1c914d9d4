package pg_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
)

// TestPhantomStorm has clients give up while others release, again and again, so that
// some are granted what they no longer want. HOLDFAST_PG_STORM is for how long.
func TestPhantomStorm(t *testing.T) {
	t.Parallel()
	took := stormTakes()
	for name, ending := range map[string]func(context.Context, time.Duration) (context.Context, context.CancelFunc){
		"timeouts": context.WithTimeout,
		"cancels": func(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			timer := time.AfterFunc(rand.N(2*limit), cancel)
			return ctx, func() { timer.Stop(); cancel() }
		},
	} {
		t.Run(name, func(t *testing.T) { storm(t, took/2, ending) })
	}
}

func stormTakes() time.Duration {
	if took, err := time.ParseDuration(os.Getenv("HOLDFAST_PG_STORM")); err == nil {
		return took
	}
	return 3 * time.Second
}

func storm(t *testing.T, took time.Duration, ending func(context.Context, time.Duration) (context.Context, context.CancelFunc)) {
	const clients = 8
	k := key()
	var limit atomic.Int64 // of a wait: on a fast machine and a slow one, some get the lock and some give up
	limit.Store(int64(3 * time.Millisecond))
	var held, failed, phantoms, inside atomic.Int64
	var lockers []*pg.Locker
	var all sync.WaitGroup
	for range clients {
		l := open(t, pg.Options{})
		l.OnCleaned(func(had bool) {
			if had {
				phantoms.Add(1)
			}
		})
		lockers = append(lockers, l)
	}
	bounded := limited(t)
	for end, i := time.Now().Add(took), 0; i < clients; i++ {
		all.Go(func() {
			for time.Now().Before(end) || (held.Load() == 0 || failed.Load() == 0) && bounded.Err() == nil { // on a slow machine, longer
				ctx, cancel := ending(bounded, time.Duration(limit.Load()))
				h, err := lockers[i].Acquire(ctx, k)
				cancel()
				if err == nil {
					held.Add(1)
					limit.Store(max(int64(time.Millisecond), limit.Load()*3/4))
					equal(t, inside.Add(1), 1, "have the lock")
					time.Sleep(rand.N(4 * time.Millisecond)) // work
					inside.Add(-1)
					err = h.Release()
				} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					failed.Add(1)
					limit.Store(min(int64(time.Second), limit.Load()*9/8))
					err = nil
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d acquired, %d gave up, of whom %d had been granted the lock after all; in the end they waited for %v",
		held.Load(), failed.Load(), phantoms.Load(), time.Duration(limit.Load()))
	that(t, held.Load() != 0 && failed.Load() != 0, "nobody had the lock, or nobody gave up: this test shows nothing")
	for _, l := range lockers {
		wantIdle(t, l)
	}
	wantFree(t, lockers[0], k)
	check(t, acquireNow(t, lockers[0], k).Release())
}

// TestNestedStorm has many nest locks in any order, in three processes' worth of Lockers, as
// writers and readers, wait and try, give up at any time, and lose their sessions, while
// other processes are killed that hold or wait. A writer is always alone, deadlocks are
// found, and nothing stays.
func TestNestedStorm(t *testing.T) {
	t.Parallel()
	const clients, lockers = 80, 3
	const reader, writer = 1, 1000 // as they count in inside
	conn := database(t)
	var keys []lock.Key
	var inside [6]atomic.Int64
	for range inside {
		keys = append(keys, key())
	}
	var all []*pg.Locker
	for range lockers {
		all = append(all, open(t, pg.Options{Conn: conn + tenConns}))
	}
	bounded := limited(t)
	end := time.Now().Add(stormTakes())
	var had, gaveUp, deadlocks, lost, killed atomic.Int64
	enter := func(n int, who int64) {
		if all := inside[n].Add(who); who == writer && all != writer || all%writer > 0 && all >= writer {
			t.Errorf("%d writers and %d readers have %v", all/writer, all%writer, keys[n])
		}
	}
	var nest func(ctx context.Context, l *pg.Locker, depth int) error
	nest = func(ctx context.Context, l *pg.Locker, depth int) error {
		n := rand.N(len(keys))
		acquire, who := l.Acquire, int64(writer)
		switch rand.N(8) {
		case 0:
			acquire = l.TryAcquire
		case 1, 2:
			acquire, who = l.AcquireShared, reader
		case 3:
			acquire, who = l.TryAcquireShared, reader
		}
		h, err := acquire(ctx, keys[n])
		if err != nil {
			return err
		}
		had.Add(1)
		enter(n, who)
		if depth > 0 {
			err = nest(h.Context(ctx), l, depth-1)
		} else {
			time.Sleep(rand.N(2 * time.Millisecond)) // work
		}
		inside[n].Add(-who)
		if depth == 2 && rand.N(10) == 0 { // the outermost, which takes nobody else's with it
			sessions, herr := l.Holders(bounded, keys[n])
			if herr == nil && len(sessions) == 1 && sessions[0].PID == h.Info().PID && l.EndSession(bounded, sessions[0]) == nil {
				lost.Add(1)
			}
		}
		if rerr := h.Release(); rerr != nil && !errors.Is(rerr, lock.ErrLost) {
			t.Error(rerr)
		}
		return err
	}
	var group sync.WaitGroup
	for n := range clients {
		group.Go(func() {
			for time.Now().Before(end) || had.Load() == 0 && bounded.Err() == nil { // on a slow machine, longer
				limit := rand.N(60 * time.Millisecond)
				if rand.N(10) == 0 {
					limit *= 20
				}
				ctx, cancel := context.WithTimeout(bounded, limit)
				if n%2 == 0 {
					cancel()
					ctx, cancel = context.WithCancel(bounded)
					time.AfterFunc(limit, cancel)
				}
				err := nest(ctx, all[n%lockers], rand.N(3))
				cancel()
				var locked *lock.LockedError
				switch {
				case err == nil:
				case errors.Is(err, pg.ErrDeadlock):
					deadlocks.Add(1)
				case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, lock.ErrLost), errors.As(err, &locked):
					gaveUp.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for time.Now().Before(end) {
			c, n := start(t, conn, 0), rand.N(len(keys))
			c.Order("acquire " + keys[n].Name)
			if rand.N(2) == 0 {
				time.Sleep(rand.N(100 * time.Millisecond)) // any moment will do
			} else if line, _ := c.Line(); line == "held" {
				enter(n, writer)
				inside[n].Add(-writer)
				killed.Add(1)
			}
			_ = c.Cmd.Process.Kill()
		}
	})
	group.Wait()
	t.Logf("%d had, %d gave up, %d deadlocks, %d sessions were ended, %d holders killed",
		had.Load(), gaveUp.Load(), deadlocks.Load(), lost.Load(), killed.Load())
	that(t, had.Load() != 0 && gaveUp.Load() != 0, "this test shows nothing")
	for _, l := range all {
		wantIdle(t, l)
	}
	for _, k := range keys {
		h := must(all[0].Acquire(limited(t), k))(t)
		check(t, h.Release())
	}
}
