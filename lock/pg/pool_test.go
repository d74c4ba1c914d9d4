package pg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
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
			noErr(t, fn(ctx, n))
		})
	}
	all.Wait()
}

func TestHundredGoroutinesOverTenConnections(t *testing.T) {
	nothing := func(context.Context, lock.Hold) error { return nil }
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
				return lock.Do(ctx, l, outer, func(ctx context.Context, _ lock.Hold) error { return lock.Do(ctx, l, inner, nothing) })
			}
		},
		// Those who tried have locks that all others wait for, and want more.
		"nested in tries": func(l *pg.Locker, prefix string) func(context.Context, int) error {
			return func(ctx context.Context, n int) error {
				outer, inner := lock.Key{Space: prefix, Name: fmt.Sprint("outer", n%7)}, lock.Key{Space: prefix, Name: "inner"}
				nested := func(ctx context.Context, _ lock.Hold) error { return lock.Do(ctx, l, inner, nothing) }
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
			if _, _, made := l.Stat(); made > 10 {
				t.Errorf("%d connections were made", made)
			}
		})
	}
}

// TestReserve: while as many as may wait wait for as many locks, one can try, and who holds
// can have another lock; and who waits for a hot lock keeps nobody from a free one.
func TestReserve(t *testing.T) {
	l, hot := open(t, pg.Options{Conn: server.Conn() + tenConns}), key()
	other := open(t, pg.Options{})
	held := acquire(t, other, hot)
	ctx, came := limited(t), make(chan error)
	for range 50 {
		go func() { came <- lock.Do(ctx, l, hot, func(context.Context, lock.Hold) error { return nil }) }()
	}
	eventually(t, "all stand in line", func() bool { return l.QueuedHere(hot) == 50 })
	if taken, _, _ := l.Stat(); taken > 1 {
		t.Errorf("%d connections are taken, want one for each lock", taken)
	}
	free, err := lock.AcquireWithin(limited(t), l, key(), patience)
	check(t, err)
	check(t, free.Release())
	var cold []lock.Hold
	var others []<-chan outcome
	for range 9 {
		k := key()
		cold = append(cold, acquire(t, other, k))
		others = append(others, begin(l, ctx, k))
	}
	eventually(t, "some wait, and the rest for a place to do so", func() bool { return l.Taken()["asks"] == 8 && l.Taken()["asking"] == 8 })
	mine := acquire(t, l, key()) // tries, where it could not wait
	_, err = l.TryAcquire(mine.Context(limited(t)), hot)
	wantLocked(t, err)
	inner := must(l.Acquire(mine.Context(limited(t)), key()))(t)
	check(t, inner.Release())
	for _, h := range append(cold, held, mine) {
		check(t, h.Release())
	}
	for _, came := range others {
		check(t, await(t, "the lock", came).mustHave(t).Release())
	}
	for range 50 {
		check(t, await(t, "a turn", came))
	}
	wantIdle(t, l)
}

func TestCancelWhileNoConnectionIsFree(t *testing.T) {
	l := open(t, pg.Options{Conn: server.Conn() + " pool_max_conns=2"})
	held, other := acquire(t, l, key()), acquire(t, l, key())
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
	check(t, other.Release())
	wantIdle(t, l)
}

// TestCancelBesideReader: a reader that this process has is not in the way of another, who had no
// connection.
func TestCancelBesideReader(t *testing.T) {
	l, k := open(t, pg.Options{Conn: server.Conn() + " pool_max_conns=2"}), key()
	held, err := l.AcquireShared(limited(t), k)
	check(t, err)
	other := acquire(t, l, key())
	ctx, cancel := context.WithCancel(limited(t))
	came := make(chan error, 1)
	go func() {
		_, err := l.AcquireShared(ctx, k)
		came <- err
	}()
	eventually(t, "it stands in line", func() bool { return l.QueuedHere(k) == 1 })
	cancel()
	err = await(t, "the end of the wait", came)
	wantIs(t, err, context.Canceled)
	that(t, !errors.As(err, new(*lock.LockedError)), "error is %v, want one about connections", err)
	check(t, held.Release())
	check(t, other.Release())
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
	l, err := pg.Open(limited(t), pg.Options{Conn: fmt.Sprint(server.Conn(), " pool_max_conns=1")})
	if l != nil {
		t.Fatal("a pool of 1 is accepted")
	}
	wantIs(t, err, lock.ErrInvalidName)
	// One holds, and has a second; another waits.
	l, k := open(t, pg.Options{Conn: server.Conn() + " pool_max_conns=2"}), key()
	held := acquire(t, l, k)
	came := begin(l, limited(t), k)
	untilWaiting(t, l, k) // and List has a connection
	inner := must(l.Acquire(held.Context(limited(t)), key()))(t)
	check(t, inner.Release())
	check(t, held.Release())
	held2 := await(t, "the lock", came).mustHave(t)
	_, err = l.TryAcquire(limited(t), k)
	wantLocked(t, err)
	check(t, held2.Release())
	wantIdle(t, l)
}

// TestCallersPool: its configuration is used, and none of its connections.
func TestCallersPool(t *testing.T) {
	ctx := limited(t)
	config := must(pgxpool.ParseConfig(server.Conn() + " pool_max_conns=4"))(t)
	before := 0
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		before++
		c.RuntimeParams["application_name"] = "before"
		return nil
	}
	pool := must(pgxpool.NewWithConfig(ctx, config))(t)
	defer pool.Close()
	l := must(pg.Open(ctx, pg.Options{Pool: pool}))(t)
	held := acquire(t, l, key())
	for e, err := range l.List(ctx) {
		check(t, err)
		that(t, e.Info.PID != held.Info().PID || e.Info.Cmd == "before", "listed as %+v", e.Info)
	}
	// A pool of pgx's default size has four: all of them can hold.
	holds := []lock.Hold{held, acquire(t, l, key()), acquire(t, l, key()), acquire(t, l, key())}
	for _, h := range holds {
		check(t, h.Release())
	}
	l.Close()
	if n := pool.Stat().NewConnsCount(); n != 0 || before == 0 {
		t.Errorf("%d connections of the pool were made, and its BeforeConnect was called %d times", n, before)
	}
	check(t, pool.Ping(ctx))
}

// TestClose waits for holds, and then nothing can be had.
func TestClose(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	held := acquire(t, l, k)
	waiter := begin(l, limited(t), k)
	untilWaiting(t, l, k)
	nested := begin(l, held.Context(limited(t)), acquire(t, open(t, pg.Options{}), key()).Key())
	eventually(t, "it waits, too", func() bool { return l.Taken()["asking"] == 2 })
	closed := make(chan struct{})
	go func() {
		l.Close()
		close(closed)
	}()
	for _, came := range []<-chan outcome{waiter, nested} {
		that(t, await(t, "the end of the wait", came).err != nil, "acquired what another has")
	}
	eventually(t, "the pool closes", func() bool {
		h, err := l.TryAcquire(limited(t), key())
		if err == nil {
			check(t, h.Release())
		}
		return err != nil
	})
	notYet(t, closed, "closed, with a lock that is held")
	check(t, held.Release())
	await(t, "the end of Close", closed)
}
