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

	"github.com/holdfast-go/holdfast/lock/pg"
)

// TestPhantomStorm has clients give up while others release, again and again, so that
// some are granted what they no longer want. HOLDFAST_PG_STORM is for how long.
func TestPhantomStorm(t *testing.T) {
	took := stormTakes()
	for name, ending := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"timeouts": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Millisecond)
		},
		"cancels": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			timer := time.AfterFunc(rand.N(6*time.Millisecond), cancel)
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

func storm(t *testing.T, took time.Duration, ending func(context.Context) (context.Context, context.CancelFunc)) {
	const clients = 8
	k := key()
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
			for time.Now().Before(end) {
				ctx, cancel := ending(bounded)
				h, err := lockers[i].Acquire(ctx, k)
				cancel()
				if err == nil {
					held.Add(1)
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d have the lock", n)
					}
					time.Sleep(rand.N(4 * time.Millisecond)) // work
					inside.Add(-1)
					err = h.Release()
				} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					failed.Add(1)
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
	t.Logf("%d acquired, %d gave up, of whom %d had been granted the lock after all", held.Load(), failed.Load(), phantoms.Load())
	if held.Load() == 0 || failed.Load() == 0 {
		t.Error("nobody had the lock, or nobody gave up: this test shows nothing")
	}
	for _, l := range lockers {
		wantIdle(t, l)
	}
	wantFree(t, lockers[0], k)
	check(t, acquireNow(t, lockers[0], k).Release())
}
