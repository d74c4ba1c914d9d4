package pg_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5/pgxpool"
)

// silence is for tests what ten seconds are for others.
const silence = 900 * time.Millisecond

// TestHolderInSilence: behind a network, or a proxy, that falls silent a holder is told,
// with the pool that Open makes, and with a caller's.
func TestHolderInSilence(t *testing.T) {
	t.Parallel()
	for _, callers := range []bool{false, true} {
		t.Run(fmt.Sprint("callers=", callers), func(t *testing.T) {
			p, k := newProxy(t, server.Conn()), key()
			o := pg.Options{Conn: p.through(server.Conn())}
			if callers {
				pool := must(pgxpool.New(limited(t), o.Conn))(t)
				defer pool.Close()
				o.Pool = pool
			}
			l := open(t, o)
			l.SetSilence(silence)
			held := acquire(t, l, k)
			inner := must(l.Acquire(held.Context(limited(t)), key()))(t)
			p.swallow(true)
			await(t, "Lost", held.Lost())
			await(t, "Lost of the inner", inner.Lost())
			// The network comes back, and the session that was given up is seen to.
			p.swallow(false)
			check(t, acquire(t, l, k).Release())
			wantIs(t, held.Release(), lock.ErrLost)
			wantIs(t, inner.Release(), lock.ErrLost)
			wantIdle(t, l)
		})
	}
}

// TestUseBesideSignsOfLife: whoever comes while the server is asked for a sign of life waits
// for the answer, and spoils nothing. On a slow link it is asked nearly all the time.
func TestUseBesideSignsOfLife(t *testing.T) {
	t.Parallel()
	p := newProxy(t, server.Conn())
	l := open(t, pg.Options{Conn: p.through(server.Conn())})
	l.SetSilence(3 * time.Second)
	p.slow(200 * time.Millisecond)
	held := acquire(t, l, key())
	for range 3 {
		time.Sleep(900*time.Millisecond + rand.N(400*time.Millisecond)) // it is asked about then, and any moment will do
		inner := must(l.Acquire(held.Context(limited(t)), key()))(t)
		that(t, pg.SameSession(inner, held), "not on the session of the hold")
		check(t, inner.Release())
	}
	p.slow(0)
	check(t, held.Release())
	wantIdle(t, l)
}

// TestReleaseBesideSignOfLife: who waits with a context for the answer to a sign of life
// waits no longer than that.
func TestReleaseBesideSignOfLife(t *testing.T) {
	t.Parallel()
	p := newProxy(t, server.Conn())
	l := open(t, pg.Options{Conn: p.through(server.Conn())})
	l.SetSilence(6 * time.Second) // it is asked for after two, and must be answered within more
	outer := acquire(t, l, key())
	p.swallow(true)
	asked := p.swallowed()
	eventually(t, "a sign of life is asked for", func() bool { return p.swallowed() > asked })
	ctx, cancel := context.WithTimeout(outer.Context(limited(t)), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, key()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want the context's", err)
	}
	notYet(t, outer.Lost(), "lost before its time: this test shows nothing")
	ctx, cancel = context.WithCancel(limited(t))
	defer cancel()
	time.AfterFunc(10*time.Millisecond, cancel) // any time will do
	wantIs(t, outer.ReleaseContext(ctx), lock.ErrLost, context.Canceled)
	wantIs(t, context.Cause(outer.Context(limited(t))), context.Canceled) // and not for the silence
	p.cut()
	p.swallow(false)
	wantIdle(t, l)
}

// TestSilentWaiterIsEnded: the network of a session is cut while it waits for a lock, and
// others are not. Granted, it does not answer, and does not keep the lock.
func TestSilentWaiterIsEnded(t *testing.T) {
	t.Parallel()
	p, k := newProxy(t, server.Conn()), key()
	l, other := open(t, pg.Options{Conn: p.through(server.Conn())}), open(t, pg.Options{})
	l.SetSilence(silence)
	held := acquire(t, other, k)
	outer := acquire(t, l, key())
	came := begin(l, context.WithoutCancel(outer.Context(context.Background())), k)
	untilWaiting(t, other, k)
	p.swallowOld()
	check(t, held.Release())
	that(t, await(t, "the end of the wait", came).err != nil, "acquired, by an answer that did not come")
	await(t, "Lost of the outer", outer.Lost())
	check(t, acquire(t, other, k).Release())
	check(t, acquire(t, other, outer.Key()).Release())
	check(t, acquire(t, l, k).Release())
	wantIs(t, outer.Release(), lock.ErrLost)
	wantIdle(t, l)
}

// TestWaiterCutOffWithLease: a waiter's network is cut, all of it, and the waiter gives up.
// What the server grants it later it frees within the lease, which began before.
func TestWaiterCutOffWithLease(t *testing.T) {
	t.Parallel()
	p, k := newProxy(t, server.Conn()), key()
	l := open(t, pg.Options{Conn: p.through(server.Conn()), Lease: time.Second})
	l.SetSilence(silence)
	other := open(t, pg.Options{})
	held := acquire(t, other, k)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	came := begin(l, ctx, k)
	untilWaiting(t, other, k)
	p.swallow(true)
	cancel()
	wantIs(t, await(t, "the end of the wait", came).err, context.Canceled)
	check(t, held.Release())
	check(t, acquire(t, other, k).Release())
	wantIdle(t, l)
}

// TestWaiterKilled: a process that is killed while it waits does not stay in the server's
// queue, where new readers would stand behind it.
func TestWaiterKilled(t *testing.T) {
	t.Parallel()
	l, k := open(t, pg.Options{}), key()
	reader := must(l.AcquireShared(limited(t), k))(t)
	c := start(t, server.Conn(), 0)
	c.Order("acquire " + k.Name)
	untilWaiting(t, l, k)
	if _, err := l.TryAcquireShared(limited(t), k); err == nil {
		t.Fatal("a reader passes a writer who waits: this test shows nothing")
	}
	check(t, c.Cmd.Process.Kill())
	eventually(t, "the dead writer has left the queue", func() bool { return len(waiting(t, l, k)) == 0 })
	another := must(l.TryAcquireShared(limited(t), k))(t)
	check(t, another.Release())
	check(t, reader.Release())
	wantIdle(t, l)
}

// TestTwoWaysToOneServer: by socket and by TCP it is the same, and who waits for
// themselves is told.
func TestTwoWaysToOneServer(t *testing.T) {
	p, k := newProxy(t, server.Conn()), key()
	l, other := open(t, pg.Options{}), open(t, pg.Options{Conn: p.throughTCP(server.Conn())})
	held := acquire(t, l, k)
	_, err := other.Acquire(held.Context(limited(t)), k)
	wantLocked(t, err, lock.ErrReentrant)
	// Two databases of one server are not the same.
	elsewhere := must(open(t, pg.Options{Conn: database(t)}).Acquire(held.Context(limited(t)), k))(t)
	check(t, elsewhere.Release())
	check(t, held.Release())
	wantIdle(t, other)
}
