package pg_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
)

// TestPoolerIsRefused, of which nothing but the process gives it away.
func TestPoolerIsRefused(t *testing.T) {
	p := newProxy(t, server.Conn())
	p.pretend(4711)
	l, err := pg.Open(limited(t), pg.Options{Conn: p.through(server.Conn())})
	if l != nil {
		t.Fatal("opened")
	}
	wantIs(t, err, pg.ErrPooler)
}

func TestConnectionClosed(t *testing.T) {
	p, k := newProxy(t, server.Conn()), key()
	l := open(t, pg.Options{Conn: p.through(server.Conn())})
	other := open(t, pg.Options{})
	held := acquire(t, l, k)
	ctx := held.Context(limited(t))
	p.cut()
	await(t, "Lost", held.Lost())
	await(t, "the end of the context", ctx.Done())
	wantIs(t, context.Cause(ctx), lock.ErrLost)
	wantIs(t, held.Release(), lock.ErrLost)
	check(t, acquire(t, other, k).Release())
	check(t, acquire(t, l, k).Release())
	wantIdle(t, l)
}

// TestCancelInSilence: a network that swallows everything keeps nobody who wants to go.
func TestCancelInSilence(t *testing.T) {
	t.Parallel()
	p, k := newProxy(t, server.Conn()), key()
	l := open(t, pg.Options{Conn: p.through(server.Conn())})
	l.SetSilence(3 * time.Second)
	other := open(t, pg.Options{})
	held := acquire(t, other, k)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	came := begin(l, ctx, k)
	untilWaiting(t, other, k)
	p.swallow(true)
	cancelled := time.Now()
	cancel()
	o := await(t, "the end of the wait", came)
	t.Logf("a cancelled wait ended after %v", time.Since(cancelled))
	wantLocked(t, o.err, context.Canceled)
	wantIdle(t, l)
	// The server hears of it when the network comes back: here, by its end.
	p.cut()
	p.swallow(false)
	check(t, held.Release())
	check(t, acquire(t, other, k).Release())
	check(t, acquire(t, l, k).Release())
}

func TestReleaseInSilence(t *testing.T) {
	t.Parallel()
	p, k := newProxy(t, server.Conn()), key()
	r := &recorder{}
	l := open(t, pg.Options{Conn: p.through(server.Conn()), Observe: r.Observe})
	l.SetSilence(600 * time.Millisecond)
	l.SetReleasePatience(50 * time.Millisecond)
	held := acquire(t, l, k)
	p.swallow(true)
	released := make(chan error, 1)
	go func() { released <- held.Release() }()
	wantIs(t, await(t, "the end of Release", released), lock.ErrLost)
	await(t, "Lost", held.Lost())
	equal(t, r.count(lock.EventLost), 1, "losses are told")
	wantIdle(t, l)
	p.cut()
	p.swallow(false)
	check(t, acquire(t, open(t, pg.Options{}), k).Release())
}

// TestLateCancel: a request to cancel never meets the next one who has the connection.
func TestLateCancel(t *testing.T) {
	t.Parallel()
	l, k := open(t, pg.Options{}), key()
	blocker := acquire(t, open(t, pg.Options{}), k)
	ctx := limited(t)
	for i := range 200 {
		short, cancel := context.WithTimeout(ctx, time.Duration(i)*20*time.Microsecond)
		_, err := l.Acquire(short, k)
		cancel()
		wantIs(t, err, context.DeadlineExceeded)
		if _, idle, _ := l.Stat(); idle > 0 {
			l.Idle(ctx, func(c *pgx.Conn) { exec1(t, c, "SELECT pg_sleep(0.001)") })
		}
	}
	wantMade(t, l, 1)
	check(t, blocker.Release())
	wantFree(t, l, k)
}

// TestEarlyCancel: a request to cancel can come before the query does, and must be made
// again.
func TestEarlyCancel(t *testing.T) {
	p, k := newProxy(t, server.Conn()), key()
	l := open(t, pg.Options{Conn: p.through(server.Conn())})
	l.SetSilence(10 * patience) // nothing but the query is said
	outer := acquire(t, l, key())
	inner := must(l.Acquire(outer.Context(limited(t)), k))(t) // from now on the query is the first that is said of k
	check(t, inner.Release())
	held := acquire(t, open(t, pg.Options{}), k)
	ctx, cancel := context.WithCancel(outer.Context(limited(t)))
	defer cancel()
	kept := p.pause(outer.Info().PID)
	came := begin(l, ctx, k)
	await(t, "the query", kept)
	cancel()
	wantIs(t, await(t, "the end of the wait", came).err, context.Canceled)
	wantMade(t, l, 1)
	check(t, outer.Release())
	check(t, acquire(t, l, key()).Release())
	check(t, held.Release())
	wantFree(t, l, k)
}
