package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
)

// TestLeaseIsKept: over many spans, and a connection that lies in the pool has none.
func TestLeaseIsKept(t *testing.T) {
	t.Parallel()
	l, k := open(t, pg.Options{Lease: time.Second}), key()
	c := raw(t, server.Conn())
	held := acquire(t, l, k)
	beat := func() time.Time {
		return value[time.Time](t, c, "SELECT query_start FROM pg_stat_activity WHERE pid = $1", held.Info().PID)
	}
	for first := beat(); beat().Sub(first) < 3*time.Second; {
		select {
		case <-held.Lost():
			t.Fatal("lost")
		case <-time.After(50 * time.Millisecond):
		}
	}
	that(t, errOf(open(t, pg.Options{}).TryAcquire(limited(t), k)) != nil, "two have the lock")
	check(t, held.Release())
	wantIdle(t, l)
	// Released by those who failed, too.
	blocker := acquire(t, open(t, pg.Options{}), k)
	_, err := lock.AcquireWithin(limited(t), l, k, 10*time.Millisecond)
	wantLocked(t, err, lock.ErrTimeout)
	check(t, blocker.Release())
}

// TestLeaseInSilence: the holder knows before the server gives the lock to another.
func TestLeaseInSilence(t *testing.T) {
	t.Parallel()
	p, k := newProxy(t, server.Conn()), key()
	l := open(t, pg.Options{Conn: p.through(server.Conn()), Lease: 4 * time.Second})
	l.SetSilence(2 * time.Second)
	other := open(t, pg.Options{})
	c := raw(t, server.Conn())
	held := acquire(t, l, k)
	ctx := held.Context(context.Background())
	came := begin(other, limited(t), k)
	untilWaiting(t, other, k)
	p.swallow(true)
	await(t, "Lost", held.Lost())
	known := time.Now()
	if value[int](t, c, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", held.Info().PID) == 0 {
		t.Error("the server had ended the session before its holder knew")
	}
	wantIs(t, context.Cause(ctx), lock.ErrLost)
	next := await(t, "the lock", came).mustHave(t)
	t.Logf("the next one had the lock %v after the first knew of its loss", time.Since(known))
	wantIs(t, held.Release(), lock.ErrLost)
	wantIdle(t, l)
	check(t, next.Release())
}

// TestLeaseMargin: a holder gives up a tenth of the lease before the server does, whatever
// the lease.
func TestLeaseMargin(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{time.Second, 1999 * time.Millisecond, time.Minute, 24 * time.Hour} {
		l := open(t, pg.Options{Lease: lease})
		check(t, acquire(t, l, key()).Release())
		var servers time.Duration
		l.Idle(limited(t), func(c *pgx.Conn) {
			servers = time.Duration(value[int64](t, c, "SELECT setting::bigint FROM pg_settings WHERE name = 'idle_session_timeout'")) * time.Millisecond
		})
		if ours := l.Trusted(); ours > servers/10*9 || ours < servers/2 {
			t.Errorf("lease %v: the holder counts on it for %v, the server waits for %v", lease, ours, servers)
		}
	}
}

func TestLeaseTooShort(t *testing.T) {
	for _, lease := range []time.Duration{-time.Second, 1, time.Second - 1} {
		l, err := pg.Open(limited(t), pg.Options{Conn: server.Conn(), Lease: lease})
		that(t, l == nil && errors.Is(err, lock.ErrInvalidName), "%v: %v, want to be refused", lease, err)
	}
}
