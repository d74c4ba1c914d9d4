package etcd_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestStorm has clients acquire one lock, give up, and lose requests, answers and leases at
// random. HOLDFAST_ETCD_STORM is how many acquisitions there are to be.
func TestStorm(t *testing.T) {
	t.Parallel()
	const clients = 6
	want := int64(testkit.Rounds(300, 3))
	if n, err := strconv.ParseInt(os.Getenv("HOLDFAST_ETCD_STORM"), 10, 64); err == nil {
		want = n
	}
	k := key()
	admin := server.client(t)
	bounded, cancel := context.WithTimeout(context.Background(), patience+time.Duration(want)*200*time.Millisecond)
	defer cancel()
	var had, gaveUp, lost, inside, fence atomic.Int64
	var all, late sync.WaitGroup
	var lockers []*etcd.Locker
	for range clients {
		w := newWire(t, server)
		w.set(func(w *wire) {
			w.unary = func(ctx context.Context, _ string, r request) error {
				switch rand.N(20) {
				case 0: // the answer is lost
					_ = r.send(ctx)
					return errLostOnTheWire
				case 1: // the request arrives when it was given up
					late.Go(func() {
						time.Sleep(rand.N(20 * time.Millisecond)) // any interleaving will do
						_ = r.late()
					})
					return errLostOnTheWire
				case 2: // it is lost
					return errLostOnTheWire
				}
				return r.send(ctx)
			}
		})
		l := open(t, etcd.Options{Client: w.client})
		lockers = append(lockers, l)
		all.Go(func() {
			for had.Load() < want && bounded.Err() == nil {
				ctx, cancel := context.WithCancel(bounded)
				var timer *time.Timer
				if rand.N(4) == 0 {
					timer = time.AfterFunc(rand.N(20*time.Millisecond), cancel)
				}
				held, err := l.Acquire(ctx, k)
				if timer != nil {
					timer.Stop()
				}
				cancel()
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
						return
					}
					gaveUp.Add(1)
					continue
				}
				had.Add(1)
				equal(t, inside.Add(1), 1, "have the lock")
				if number, err := held.Fence(); err == nil {
					if last := fence.Swap(number); number <= last {
						t.Errorf("fence %d after %d", number, last)
					}
				} else if !errors.Is(err, lock.ErrLost) {
					t.Error(err)
				}
				inside.Add(-1)
				if rand.N(50) == 0 { // and by hand
					_, _ = admin.Revoke(bounded, clientv3.LeaseID(l.LeaseID()))
				}
				if err := held.Release(); errors.Is(err, lock.ErrLost) {
					lost.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if bounded.Err() != nil {
		t.Errorf("%d acquisitions in the time", had.Load())
	}
	for _, l := range lockers {
		l.Close()
	}
	late.Wait()
	wantNoKeys(t, admin, folder(k))
	t.Logf("%d acquired, %d given up, %d lost; the last fence is %d", had.Load(), gaveUp.Load(), lost.Load(), fence.Load())
}
