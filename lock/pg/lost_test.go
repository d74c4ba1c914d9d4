package pg_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
)

// TestHolderKilled prints how long the next one waits.
func TestHolderKilled(t *testing.T) {
	l := open(t, pg.Options{})
	for range 5 {
		k := key()
		c := start(t, server.Conn(), 0)
		c.Do("acquire "+k.Name, "held")
		came := begin(l, limited(t), k)
		untilWaiting(t, l, k)
		killed := time.Now()
		check(t, c.Cmd.Process.Kill())
		held := await(t, "the lock", came).mustHave(t)
		t.Logf("had the lock %v after SIGKILL for its holder", time.Since(killed))
		check(t, held.Release())
	}
	wantIdle(t, l)
}

// TestSessionTerminated prints how long a holder does not know of its loss.
func TestSessionTerminated(t *testing.T) {
	l := open(t, pg.Options{})
	admin := raw(t, server.Conn())
	for range 5 {
		held := acquire(t, l, key())
		ctx := held.Context(limited(t))
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		begun := time.Now()
		exec1(t, admin, "SELECT pg_terminate_backend($1)", held.Info().PID)
		await(t, "Lost", held.Lost())
		t.Logf("told %v after the order to end the session", time.Since(begun))
		for _, ctx := range []context.Context{ctx, inner, held.Context(context.Background())} {
			await(t, "the end of a context", ctx.Done())
			wantIs(t, context.Cause(ctx), lock.ErrLost)
		}
		wantIs(t, held.Release(), lock.ErrLost)
		check(t, held.Release())
		wantIdle(t, l)
	}
}

// TestServerStops: by order and by accident, with holders, waiters, and connections that
// lie in the pool.
func TestServerStops(t *testing.T) {
	t.Parallel()
	s := must(pgtest.Start())(t)
	defer func() { check(t, s.Stop()) }()
	l := open(t, pg.Options{Conn: s.Conn()})
	for name, stop := range map[string]func() error{"End": s.End, "Kill": s.Kill} {
		k, idle := key(), []*pg.Hold{}
		for range 8 {
			idle = append(idle, acquire(t, l, key()))
		}
		for _, h := range idle {
			check(t, h.Release())
		}
		held := acquire(t, l, k)
		fence := fenceOf(t, held)
		ctx := held.Context(limited(t))
		came := begin(l, limited(t), k)
		untilWaiting(t, l, k)
		check(t, stop())
		await(t, "Lost", held.Lost())
		await(t, "the end of the context", ctx.Done())
		wantIs(t, context.Cause(ctx), lock.ErrLost)
		wantIs(t, held.Release(), lock.ErrLost)
		if o := await(t, "the end of the wait", came); o.err == nil {
			// The server ended the holder's session first, and granted the lock to
			// who waited before it ended theirs.
			await(t, "the loss of a lock of a server that is gone", o.held.Lost())
			wantIs(t, o.held.Release(), lock.ErrLost)
		}
		eventually(t, "an error that there is no server", func() bool { // processes of one that was killed go on for a moment
			h, err := l.TryAcquire(limited(t), key())
			if err == nil {
				_ = h.Release()
			} else if strings.Contains(err.Error(), "stale") {
				t.Errorf("%s: error is %v", name, err)
			}
			return err != nil
		})
		check(t, s.Run())
		// All of them at once: each connection in the pool is stale.
		var next []<-chan outcome
		for range 8 {
			next = append(next, begin(l, limited(t), key()))
		}
		for _, came := range next {
			h := await(t, "a lock", came).mustHave(t)
			check(t, h.Release())
		}
		again := acquire(t, l, k)
		if next := fenceOf(t, again); next <= fence {
			t.Errorf("fence %d, after %d", next, fence)
		}
		check(t, again.Release())
		wantIdle(t, l)
	}
}

// fenceOf asks for a fence.
func fenceOf(t testing.TB, held lock.Hold) int64 {
	t.Helper()
	return must(held.Fence())(t)
}

// TestStaleConnections: those that died while they lay in the pool are no error.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	l := open(t, pg.Options{})
	admin := raw(t, server.Conn())
	for _, acquire := range []func(context.Context, lock.Key) (lock.Hold, error){l.Acquire, l.TryAcquire, l.AcquireShared} {
		var holds []lock.Hold
		for range 5 {
			held := must(acquire(limited(t), key()))(t)
			holds = append(holds, held)
		}
		for _, h := range holds {
			check(t, h.Release())
			exec1(t, admin, "SELECT pg_terminate_backend($1, 10000)", h.Info().PID)
		}
		held := must(acquire(limited(t), key()))(t)
		check(t, held.Release())
		wantIdle(t, l)
	}
}
