package pg_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5/pgxpool"
)

const tenConns = " pool_max_conns=10"

// hundred runs fn in a hundred goroutines.
func hundred(t *testing.T, fn func(ctx context.Context, n int) error) {
	t.Helper()
	ctx := limited(t)
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			if err := fn(ctx, n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestHundredGoroutinesOverTenConnections(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	for name, fn := range map[string]func(l *pg.Locker, prefix string) func(context.Context, int) error{
		"one key": func(l *pg.Locker, prefix string) func(context.Context, int) error {
			return func(ctx context.Context, _ int) error {
				return lock.Do(ctx, l, lock.Key{Space: prefix, Name: "one"}, nothing)
			}
		},
		"many keys": func(l *pg.Locker, prefix string) func(context.Context, int) error {
			return func(ctx context.Context, n int) error {
				return lock.Do(ctx, l, lock.Key{Space: prefix, Name: fmt.Sprint(n)}, nothing)
			}
		},
		"nested": func(l *pg.Locker, prefix string) func(context.Context, int) error {
			return func(ctx context.Context, n int) error {
				outer, inner := lock.Key{Space: prefix, Name: fmt.Sprint("outer", n%7)}, lock.Key{Space: prefix, Name: "inner"}
				return lock.Do(ctx, l, outer, func(ctx context.Context) error { return lock.Do(ctx, l, inner, nothing) })
			}
		},
		// Those who tried have locks that all others wait for, and want more.
		"nested in tries": func(l *pg.Locker, prefix string) func(context.Context, int) error {
			return func(ctx context.Context, n int) error {
				outer, inner := lock.Key{Space: prefix, Name: fmt.Sprint("outer", n%7)}, lock.Key{Space: prefix, Name: "inner"}
				nested := func(ctx context.Context) error { return lock.Do(ctx, l, inner, nothing) }
				if n%2 == 0 {
					return lock.Do(ctx, l, outer, nested)
				}
				_, err := lock.TryDo(ctx, l, outer, nested)
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, pg.Options{Conn: server.Conn() + tenConns})
			run := fn(l, key().Name)
			hundred(t, func(ctx context.Context, n int) error {
				for range 3 {
					if err := run(ctx, n); err != nil {
						return err
					}
				}
				return nil
			})
			wantIdle(t, l)
			if n := l.Pool().Stat().MaxConns(); n != 10 {
				t.Errorf("a pool of %d", n)
			}
		})
	}
}

// TestReserve: while all who came with no lock wait, one can try, a holder can have
// another lock, and who tried and won does not keep holders from theirs.
func TestReserve(t *testing.T) {
	l, k := open(t, pg.Options{Conn: server.Conn() + tenConns}), key()
	held := acquire(t, l, k)
	ctx, came := limited(t), make(chan error)
	for range 50 {
		go func() { came <- lock.Do(ctx, l, k, func(context.Context) error { return nil }) }()
	}
	eventually(t, "all general connections wait", func() bool { return len(waiting(t, l, k)) == 5 })
	_, err := l.TryAcquire(limited(t), k)
	wantLocked(t, err)
	won := []lock.Hold{acquireNow(t, l, key()), acquireNow(t, l, key())}
	short, cancel := context.WithTimeout(limited(t), 20*time.Millisecond)
	defer cancel()
	_, err = l.TryAcquire(short, key())
	wantIs(t, err, lock.ErrTimeout, context.DeadlineExceeded) // no connection is left for tries
	for _, h := range append(won, held) {
		inner, err := l.Acquire(h.Context(limited(t)), key())
		check(t, err)
		check(t, inner.Release())
	}
	for _, h := range append(won, held) {
		check(t, h.Release())
	}
	for range 50 {
		check(t, await(t, "a turn", came))
	}
	wantIdle(t, l)
}

func TestCancelWhileNoConnectionIsFree(t *testing.T) {
	l, k := open(t, pg.Options{Conn: server.Conn() + " pool_max_conns=3"}), key()
	held := acquire(t, l, k)
	for _, ctx := range ended(t) {
		_, err := l.Acquire(ctx, key())
		wantIs(t, err, ctx.Err(), context.Cause(ctx))
	}
	mine := fmt.Errorf("mine")
	ctx, cancel := context.WithCancelCause(limited(t))
	came := begin(l, ctx, key())
	cancel(mine)
	wantIs(t, await(t, "the end of the wait", came).err, context.Canceled, mine)
	check(t, held.Release())
	wantIdle(t, l)
}

// ended returns contexts that are done before.
func ended(t testing.TB) []context.Context {
	t.Helper()
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("mine"))
	expired, stop := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	t.Cleanup(stop)
	return []context.Context{cancelled, expired}
}

func TestSmallPools(t *testing.T) {
	for _, n := range []int{1, 2} {
		l, err := pg.Open(limited(t), pg.Options{Conn: fmt.Sprint(server.Conn(), " pool_max_conns=", n)})
		if l != nil {
			t.Fatalf("a pool of %d is accepted", n)
		}
		wantIs(t, err, lock.ErrInvalidName)
	}
	// One holds, and has a second; another waits; a third tries.
	l, k := open(t, pg.Options{Conn: server.Conn() + " pool_max_conns=3"}), key()
	held := acquire(t, l, k)
	came := begin(l, limited(t), k)
	_, err := l.TryAcquire(limited(t), k)
	wantLocked(t, err)
	check(t, acquireNow(t, l, key()).Release())
	inner, err := l.Acquire(held.Context(limited(t)), key())
	check(t, err)
	check(t, inner.Release())
	check(t, held.Release())
	check(t, await(t, "the lock", came).mustHave(t).Release())
	wantIdle(t, l)
}

func TestCallersPool(t *testing.T) {
	ctx := limited(t)
	pool, err := pgxpool.New(ctx, server.Conn())
	check(t, err)
	defer pool.Close()
	l, err := pg.Open(ctx, pg.Options{Pool: pool})
	check(t, err)
	check(t, acquire(t, l, key()).Release())
	l.Close()
	check(t, pool.Ping(ctx))
}

// TestClose waits for holds, and then nothing can be had.
func TestClose(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	held := acquire(t, l, k)
	closed := make(chan struct{})
	go func() {
		l.Close()
		close(closed)
	}()
	eventually(t, "the pool closes", func() bool {
		h, err := l.TryAcquire(limited(t), key())
		if err == nil {
			check(t, h.Release())
		}
		return err != nil
	})
	select {
	case <-closed:
		t.Error("closed, with a lock that is held")
	default:
	}
	check(t, held.Release())
	await(t, "the end of Close", closed)
}
