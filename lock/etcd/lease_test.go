package etcd_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// idOf is a Locker's id in the cluster, while it has one.
func idOf(l *etcd.Locker) string { return strconv.FormatUint(uint64(l.LeaseID()), 16) }

// TestLeaseIsKept: for several times its length. On a machine that is too busy to keep a short
// one, it is a longer one's turn.
func TestLeaseIsKept(t *testing.T) {
	t.Parallel()
	const longest = 16 * time.Second
	for lease := time.Second; ; lease *= 2 {
		var answered atomic.Int64
		w := newWire(t, server)
		w.set(func(w *wire) {
			w.came = func(method string, _ any) {
				if method == "LeaseKeepAlive" {
					answered.Add(1)
				}
			}
		})
		held := acquire(t, open(t, etcd.Options{Client: w.client, Lease: lease}), key())
		eventually(t, "the lease is kept three times over", func() bool { return answered.Load() > 12 || isLost(held) })
		err := held.Release()
		if err == nil {
			return
		}
		if t.Logf("a lease of %v: %v", lease, err); lease == longest {
			t.Fatal("no lease is kept")
		}
	}
}

func isLost(held lock.Hold) bool {
	select {
	case <-held.Lost():
		return true
	default:
		return false
	}
}

// cutOff has a client hear nothing, and be heard by nobody, until the test ends. (A client
// can't be closed while it sends.)
func (w *wire) cutOff(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, _ string, r request) error {
			select {
			case <-release:
				return r.send(ctx)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		w.sent = func(string, any) { <-release }
	})
}

// TestSilence: the holder knows of its loss while the cluster still keeps its key.
func TestSilence(t *testing.T) {
	t.Parallel()
	w, k := newWire(t, server), key()
	l := open(t, etcd.Options{Client: w.client, Lease: 5 * time.Second})
	other := open(t, etcd.Options{})
	admin := server.client(t)
	held := acquire(t, l, k)
	ctx := held.Context(context.Background())
	came := begin(other, limited(t), k)
	untilWaiting(t, other, k, 1)
	w.cutOff(t) // the last keepalive that is answered
	await(t, "Lost", held.Lost())
	equal(t, count(t, admin, held.Own()), 1, "the cluster had dropped the lock before its holder knew")
	wantIs(t, context.Cause(ctx), lock.ErrLost)
	next := await(t, "the lock", came).mustHave(t)
	if held.Created() >= next.Created() {
		t.Errorf("created at %d, after %d", next.Created(), held.Created())
	}
	wantIs(t, held.Release(), lock.ErrLost)
	check(t, next.Release())
}

// fakeClock goes only when it is told to.
type fakeClock struct {
	now   atomic.Int64 // of the two that nobody can set
	wall  atomic.Int64
	tells bool         // of the time that includes sleep, as Linux does
	looks atomic.Int64 // how often it was read
}

func (c *fakeClock) read() (boot, running, wall time.Duration) {
	c.looks.Add(1)
	now := time.Duration(c.now.Load())
	if c.tells {
		boot = now
	}
	return boot, now, time.Duration(c.wall.Load())
}

func (c *fakeClock) add(d time.Duration) {
	c.now.Add(int64(d))
	c.wall.Add(int64(d))
}

// withClock opens locks with a lease that goes by a clock of the test's.
func withClock(t *testing.T, c *clientv3.Client, lease time.Duration) (*etcd.Locker, *fakeClock) {
	clock := &fakeClock{tells: true}
	return openByClock(t, c, lease, clock), clock
}

func openByClock(t *testing.T, c *clientv3.Client, lease time.Duration, clock *fakeClock) *etcd.Locker {
	clock.add(time.Hour)
	l := must(etcd.OpenByClock(limited(t), etcd.Options{Client: c, Lease: lease}, clock.read))(t)
	t.Cleanup(l.Close)
	return l
}

// TestMachineSlept: time passes that no timer has counted, and in which nothing is said.
func TestMachineSlept(t *testing.T) {
	t.Parallel()
	const lease = 2 * patience // a timer that waited for its end would be too late
	w := newWire(t, server)
	l, clock := withClock(t, w.client, lease)
	held := acquire(t, l, key())
	asleep := make(chan struct{})
	wake := sync.OnceFunc(func() { close(asleep) })
	t.Cleanup(wake)
	w.set(func(w *wire) {
		w.sent = func(method string, _ any) {
			if method == "LeaseKeepAlive" {
				<-asleep
			}
		}
	})
	clock.add(lease / 2)
	if isLost(held) {
		t.Fatal("lost after half of the lease")
	}
	clock.add(lease)
	await(t, "Lost", held.Lost())
	wake()
	wantIs(t, held.Release(), lock.ErrLost)
	check(t, acquire(t, l, key()).Release()) // with the next lease
}

// TestReleaseAfterSleep: who releases before anything was noticed is told.
func TestReleaseAfterSleep(t *testing.T) {
	t.Parallel()
	const lease = time.Minute // the guard sleeps long
	l, clock := withClock(t, server.client(t), lease)
	held := acquire(t, l, key())
	clock.add(lease)
	wantIs(t, held.Release(), lock.ErrLost)
	await(t, "Lost", held.Lost())
}

// TestMargin: a holder believes in its lease for nine tenths of it, and no longer.
func TestMargin(t *testing.T) {
	t.Parallel()
	const lease = time.Minute
	l, clock := withClock(t, server.client(t), lease)
	held, kept := acquire(t, l, key()), acquire(t, l, key())
	clock.add(lease * 89 / 100)
	check(t, held.Release())
	clock.add(lease * 2 / 100)
	wantIs(t, kept.Release(), lock.ErrLost)
}

// TestCountedFromSending: an answer that was long under way gives no more time than it had
// left when it was asked for.
func TestCountedFromSending(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second
	w := newWire(t, server)
	l, clock := withClock(t, w.client, lease)
	held := acquire(t, l, key())
	slow := make(chan struct{})
	var once atomic.Bool
	w.set(func(w *wire) {
		w.came = func(method string, _ any) {
			if method == "LeaseKeepAlive" && once.CompareAndSwap(false, true) {
				clock.add(lease * 8 / 10) // the way of the answer
				close(slow)
			}
		}
		w.sent = nil
	})
	await(t, "an answer that was long under way", slow)
	w.cutOff(t)
	clock.add(lease * 2 / 10)
	await(t, "Lost", held.Lost())
	wantIs(t, held.Release(), lock.ErrLost)
}

// TestClockIsSet: a wall clock that jumps back makes no lease longer, anywhere. One that
// jumps forward costs the lease where the system does not tell of sleep, and nothing where
// it does.
func TestClockIsSet(t *testing.T) {
	t.Parallel()
	const lease, jump = 10 * time.Second, 24 * time.Hour
	for _, tells := range []bool{true, false} {
		for _, forward := range []bool{true, false} {
			w, clock := newWire(t, server), &fakeClock{tells: tells}
			l := openByClock(t, w.client, lease, clock)
			held := acquire(t, l, key())
			w.cutOff(t) // else the lease begins anew
			clock.wall.Add(int64(jump))
			if !forward {
				clock.wall.Add(int64(-2 * jump))
			}
			if costs := forward && !tells; !costs {
				looks := clock.looks.Load()
				eventually(t, "the clock is looked at", func() bool { return clock.looks.Load() > looks+3 })
				that(t, !isLost(held), "lost by a jump: forward %v, of a system that tells of sleep: %v", forward, tells)
				clock.add(lease)
			}
			await(t, "Lost", held.Lost())
			wantIs(t, held.Release(), lock.ErrLost)
		}
	}
}

// TestRevoked: a lease that was revoked by hand is lost with all that was held, and waited
// for, under it. Who waits begins anew.
func TestRevoked(t *testing.T) {
	t.Parallel()
	l, other := open(t, etcd.Options{}), open(t, etcd.Options{})
	admin := server.client(t)
	mine, others := key(), key()
	held, blocker := acquire(t, l, mine), acquire(t, other, others)
	waits := begin(l, limited(t), others)
	untilWaiting(t, l, others, 1)
	next := begin(other, limited(t), mine)
	untilWaiting(t, l, mine, 1)
	check(t, errOf(admin.Revoke(limited(t), clientv3.LeaseID(l.LeaseID()))))
	await(t, "Lost", held.Lost())
	check(t, await(t, "the lock", next).mustHave(t).Release())
	wantIs(t, held.Release(), lock.ErrLost)
	untilWaiting(t, l, others, 1)
	check(t, blocker.Release())
	check(t, await(t, "the lock", waits).mustHave(t).Release())
	wantNoKeys(t, admin, folder(mine))
	wantNoKeys(t, admin, folder(others))
}

// TestNextLeaseBeside: a Locker gets another lease while others use it. (Those do nothing that
// would order the two for the race detector.)
func TestNextLeaseBeside(t *testing.T) {
	t.Parallel()
	l, other, admin := open(t, etcd.Options{}), open(t, etcd.Options{}), server.client(t)
	k := key()
	held := acquire(t, other, k)
	ctx := held.Context(limited(t))
	var over atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for !over.Load() {
			if _, err := l.Acquire(ctx, k); !errors.Is(err, lock.ErrReentrant) {
				t.Error(err)
				return
			}
		}
	})
	check(t, errOf(admin.Revoke(limited(t), clientv3.LeaseID(l.LeaseID()))))
	check(t, acquire(t, l, key()).Release())
	over.Store(true)
	all.Wait()
	check(t, held.Release())
}

// TestRevokedAtOnce: a lease that has gone before anything is put under it is followed by
// another.
func TestRevokedAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1) // all its leases are revoked
	w, admin := newWire(t, c), c.client(t)
	var next atomic.Bool // whether the next one is to go
	w.set(func(w *wire) {
		w.unary = func(ctx context.Context, method string, r request) error {
			if method == "Put" && next.CompareAndSwap(true, false) {
				answer, err := admin.Leases(limited(t))
				for i := 0; err == nil && i < len(answer.Leases); i++ {
					_, err = admin.Revoke(limited(t), answer.Leases[i].ID)
				}
				noErr(t, err)
			}
			return r.send(ctx)
		}
	})
	next.Store(true)
	l := open(t, etcd.Options{Client: w.client})
	check(t, errOf(admin.Revoke(limited(t), clientv3.LeaseID(l.LeaseID()))))
	next.Store(true)
	check(t, acquire(t, l, key()).Release())
	that(t, !next.Load(), "nothing was put under the next lease")
}

// TestDeletedByHand: of a holder, a reader and a waiter.
func TestDeletedByHand(t *testing.T) {
	l := open(t, etcd.Options{})
	admin := server.client(t)
	k := key()
	one := must(l.AcquireShared(limited(t), k))(t)
	two := must(l.AcquireShared(limited(t), k))(t)
	check(t, errOf(admin.Delete(limited(t), one.(*etcd.Hold).Own())))
	await(t, "Lost", one.Lost())
	wantIs(t, one.Release(), lock.ErrLost)
	came := begin(l, limited(t), k)
	untilWaiting(t, l, k, 1)
	check(t, errOf(admin.Delete(limited(t), folder(k)+"w/", clientv3.WithPrefix())))
	check(t, two.Release())
	held := await(t, "the lock, by another key", came).mustHave(t)
	if n := count(t, admin, held.Own()); n != 1 {
		t.Errorf("who was deleted while it waited has the lock with %d keys", n)
	}
	check(t, held.Release())
}

func TestOptions(t *testing.T) {
	c := server.client(t)
	for _, o := range []etcd.Options{{}, {Client: c, Lease: -1}, {Client: c, Lease: time.Second - 1}} {
		l, err := etcd.Open(limited(t), o)
		that(t, l == nil, "%+v: opened", o)
		wantIs(t, err, lock.ErrInvalidName)
	}
	a, b := open(t, etcd.Options{Prefix: "a/"}), open(t, etcd.Options{Prefix: "b/", Cmd: `{"a test"}`})
	k := key()
	held, other := acquire(t, a, k), acquire(t, b, k)
	if other.Info().Cmd != `{"a test"}` || other.Info().Hostname == "" {
		t.Errorf("info %+v", other.Info())
	}
	for e, err := range b.List(limited(t)) {
		check(t, err)
		if e.Info == nil || *e.Info != other.Info() {
			t.Errorf("listed is %+v, want %+v", e.Info, other.Info())
		}
	}
	check(t, held.Release())
	check(t, other.Release())
	a.Close()
	b.Close()
	wantNoKeys(t, c, "a/")
	wantNoKeys(t, c, "b/")
	_, err := a.Acquire(limited(t), k)
	that(t, err != nil, "acquired of a Locker that is closed")
	a.Close()
}

// TestClose ends waits, and waits for holds.
func TestClose(t *testing.T) {
	l, other := open(t, etcd.Options{}), open(t, etcd.Options{})
	k := key()
	blocker, held := acquire(t, other, k), acquire(t, l, key())
	came := begin(l, limited(t), k)
	untilWaiting(t, other, k, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.Close()
	}()
	if o := await(t, "the end of the wait", came); o.err == nil {
		t.Error("acquired")
	} else if locked := new(lock.LockedError); errors.As(o.err, &locked) {
		t.Errorf("a Locker that is closed says that another has the lock: %v", o.err)
	}
	select {
	case <-over:
		t.Error("Close has not waited for a hold")
	case <-held.Lost():
		t.Error("Close has taken a lock from its holder")
	default:
	}
	check(t, held.Release())
	await(t, "the end of Close", over)
	check(t, blocker.Release())
	wantNoKeys(t, server.client(t), folder(k))
}
