package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestPoolerIsRefused(t *testing.T) {
	conn := database(t)
	open(t, pg.Options{Conn: conn}) // makes the tables
	p := newProxy(t, conn)
	p.pretend(4711)
	l := open(t, pg.Options{Conn: p.through(conn)})
	c := raw(t, conn)
	for range 3 {
		for _, acquire := range []func(context.Context, lock.Key) (lock.Hold, error){l.Acquire, l.TryAcquire, l.AcquireShared} {
			_, err := acquire(limited(t), key())
			wantIs(t, err, pg.ErrPooler)
			var locked *lock.ErrLocked
			if errors.As(err, &locked) {
				t.Errorf("%v passes for contention", err)
			}
			if n := advisory(t, c, true) + advisory(t, c, false); n != 0 {
				t.Errorf("%d locks", n)
			}
		}
	}
	wantIdle(t, l)
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
	p, k := newProxy(t, server.Conn()), key()
	l := open(t, pg.Options{Conn: p.through(server.Conn())})
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
	p, k := newProxy(t, server.Conn()), key()
	r := &recorder{}
	l := open(t, pg.Options{Conn: p.through(server.Conn()), Observer: r})
	l.SetUnlockPatience(50 * time.Millisecond)
	held := acquire(t, l, k)
	p.swallow(true)
	released := time.Now()
	err := held.Release()
	t.Logf("Release ended after %v", time.Since(released))
	wantIs(t, err, lock.ErrLost)
	await(t, "Lost", held.Lost())
	if n := r.count(lock.EventLost); n != 1 {
		t.Errorf("%d losses are told, want 1", n)
	}
	wantIdle(t, l)
	p.cut()
	p.swallow(false)
	check(t, acquire(t, open(t, pg.Options{}), k).Release())
}

// TestLateCancel: a request to cancel never meets the next one who has the connection.
func TestLateCancel(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	blocker := acquire(t, open(t, pg.Options{}), k)
	ctx := limited(t)
	for i := range 200 {
		short, cancel := context.WithTimeout(ctx, time.Duration(i)*20*time.Microsecond)
		_, err := l.Acquire(short, k)
		cancel()
		wantIs(t, err, context.DeadlineExceeded)
		var slept string
		// The pool has one connection, and gives it back at once.
		check(t, l.Pool().QueryRow(ctx, "SELECT pg_sleep(0.001)::text").Scan(&slept))
	}
	if n := l.Pool().Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were made, want one that goes on", n)
	}
	check(t, blocker.Release())
	wantFree(t, l, k)
}

// TestCancelBeforeFirstUse: a connection that was not yet prepared for locks when the
// context ended is as good as it was.
func TestCancelBeforeFirstUse(t *testing.T) {
	config, err := pgxpool.ParseConfig(server.Conn())
	check(t, err)
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	config.PrepareConn = func(given context.Context, _ *pgx.Conn) (bool, error) {
		if given == ctx {
			cancel()
		}
		return true, nil
	}
	pool, err := pgxpool.NewWithConfig(limited(t), config)
	check(t, err)
	t.Cleanup(pool.Close)
	l, k := open(t, pg.Options{Pool: pool}), key()
	_, err = l.Acquire(ctx, k)
	wantIs(t, err, context.Canceled)
	check(t, acquire(t, l, k).Release())
	if n := pool.Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were made, want one that goes on", n)
	}
	wantFree(t, l, k)
}

// TestEarlyCancel: a request to cancel can come before the query does, and must be made
// again.
func TestEarlyCancel(t *testing.T) {
	p, k := newProxy(t, server.Conn()), key()
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	l := open(t, pg.Options{Conn: p.through(server.Conn()), Observer: observeFunc(func(e lock.Event) {
		if e.Kind == lock.EventWaiting {
			p.pause()
			time.AfterFunc(10*time.Millisecond, cancel) // any time after the query is on its way
		}
	})})
	held := acquire(t, open(t, pg.Options{}), k)
	_, err := l.Acquire(ctx, k)
	wantLocked(t, err, context.Canceled)
	if n := l.Pool().Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were made, want one that goes on", n)
	}
	check(t, acquire(t, l, key()).Release())
	if n := l.Pool().Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were made, want one that goes on", n)
	}
	check(t, held.Release())
	wantFree(t, l, k)
}

type observeFunc func(lock.Event)

func (f observeFunc) Observe(e lock.Event) { f(e) }
