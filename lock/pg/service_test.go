package pg_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5/pgconn"
)

// The tests of this file are those that the agent service (see FORMATS.md) lists for
// its "Advisory Lock Service", by their names.

func wantLocked(t testing.TB, err error, is ...error) *lock.LockedError {
	t.Helper()
	var locked *lock.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("error is %T (%v), want *lock.LockedError", err, err)
	}
	wantIs(t, err, is...)
	return locked
}

// wantMade checks how many connections a Locker has made, its keeper's own left out.
func wantMade(t testing.TB, l *pg.Locker, want int) {
	t.Helper()
	if _, _, made := l.Stat(); made != want {
		t.Errorf("%d connections were made, want %d", made, want)
	}
}

func wantIs(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		that(t, errors.Is(err, target), "error %v does not match %q", err, target)
	}
}

// wantFree checks, by the server's own list, that there is nothing of a lock.
func wantFree(t testing.TB, l *pg.Locker, k lock.Key) {
	t.Helper()
	for e, err := range l.List(limited(t)) {
		check(t, err)
		that(t, e.Key != k, "%v is left behind: %+v", k, e)
	}
}

func TestBlockingLockAcquisitionSurvivesCommits(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	other := open(t, pg.Options{})
	work := raw(t, server.Conn())
	exec1(t, work, "CREATE TEMPORARY TABLE events (n integer)")
	check(t, lock.Do(limited(t), l, k, func(ctx context.Context, _ lock.Hold) error {
		for n := range 3 {
			tx, err := work.Begin(ctx)
			check(t, err)
			check(t, errOf(tx.Exec(ctx, "INSERT INTO events VALUES ($1)", n)))
			check(t, tx.Commit(ctx))
			_, err = other.TryAcquire(ctx, k)
			wantLocked(t, err)
		}
		return ctx.Err()
	}))
	wantFree(t, l, k)
	wantIdle(t, l)
	check(t, acquire(t, other, k).Release())
}

func TestLockTimeout(t *testing.T) {
	observer := &recorder{}
	l, k := open(t, pg.Options{Observe: observer.Observe}), key()
	held := acquire(t, open(t, pg.Options{Cmd: "first"}), k)
	for _, limit := range []time.Duration{1, 100 * time.Microsecond, 999 * time.Microsecond, 30 * time.Millisecond} {
		_, err := lock.AcquireWithin(limited(t), l, k, limit)
		locked := wantLocked(t, err, lock.ErrTimeout, context.DeadlineExceeded)
		that(t, locked.Waited > 0, "%v: waited %v", limit, locked.Waited)
		wantIdle(t, l)
	}
	ctx, cancel := context.WithTimeout(limited(t), 30*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, k)
	locked := wantLocked(t, err, lock.ErrTimeout)
	if locked.Info == nil || locked.Info.PID != held.Info().PID || locked.Info.Cmd != "first" {
		t.Errorf("in the way is %+v, want session %d", locked.Info, held.Info().PID)
	}
	wantIdle(t, l)
	wantMade(t, l, 1)
	check(t, held.Release())
	wantFree(t, l, k)
	equal(t, observer.count(lock.EventAcquired), 0, "acquisitions are reported, of none")
}

// TestLockTimeoutOfNothing: 0 tries once, and does not wait for ever.
func TestLockTimeoutOfNothing(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	held, err := lock.AcquireWithin(limited(t), l, k, 0)
	check(t, err)
	_, err = lock.AcquireWithin(limited(t), l, k, 0)
	if locked := wantLocked(t, err); errors.Is(err, lock.ErrTimeout) || locked.Waited != 0 {
		t.Errorf("%v, after %v; want no wait", err, locked.Waited)
	}
	check(t, held.Release())
	wantIdle(t, l)
}

func TestNonBlockingLock(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	held := acquire(t, open(t, pg.Options{}), k)
	acquired, err := lock.TryDo(limited(t), l, k, func(context.Context, lock.Hold) error {
		t.Error("not skipped")
		return nil
	})
	that(t, !acquired && err == nil, "acquired %t, error %v; want false, and none", acquired, err)
	wantIdle(t, l)
	check(t, held.Release())
}

func TestNonBlockingLockAcquired(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	other := open(t, pg.Options{})
	acquired, err := lock.TryDo(limited(t), l, k, func(ctx context.Context, _ lock.Hold) error {
		_, err := other.TryAcquire(ctx, k)
		wantLocked(t, err)
		return nil
	})
	that(t, acquired && err == nil, "acquired %t, error %v; want true, and none", acquired, err)
	wantFree(t, l, k)
	wantIdle(t, l)
}

func TestReentrancyDetection(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	other := open(t, pg.Options{})
	check(t, lock.Do(limited(t), l, k, func(ctx context.Context, _ lock.Hold) error {
		// By another Locker of the same database, too.
		for _, l := range []*pg.Locker{l, other} {
			_, err := l.Acquire(ctx, k)
			wantLocked(t, err, lock.ErrReentrant)
		}
		_, err := other.TryAcquire(limited(t), k)
		wantLocked(t, err) // the outer one is still held
		return ctx.Err()
	}))
	wantIdle(t, l)
}

func TestReentrancyInNonBlockingMode(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	check(t, lock.Do(limited(t), l, k, func(ctx context.Context, _ lock.Hold) error {
		acquired, err := lock.TryDo(ctx, l, k, func(context.Context, lock.Hold) error {
			t.Error("not skipped")
			return nil
		})
		that(t, !acquired && err == nil, "acquired %t, error %v; want false, and none", acquired, err)
		return ctx.Err()
	}))
	wantIdle(t, l)
}

func TestConnectionCleanupOnException(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	mine := errors.New("error of the function")
	if err := lock.Do(limited(t), l, k, func(context.Context, lock.Hold) error { return mine }); err != mine {
		t.Errorf("error is %v, want the very one of the function", err)
	}
	wantFree(t, l, k)
	wantIdle(t, l)
	func() {
		defer func() {
			if r := recover(); r != mine {
				t.Errorf("recovered %v, want the very panic of the function", r)
			}
		}()
		_ = lock.Do(limited(t), l, k, func(context.Context, lock.Hold) error { panic(mine) })
	}()
	wantFree(t, l, k)
	wantIdle(t, l)
}

// TestPhantomLock: the server grants a lock, and then fails the call, as in PostgreSQL
// bug 17686. A division by zero takes that part, reliably.
func TestPhantomLock(t *testing.T) {
	conn := database(t)
	l, k := open(t, pg.Options{Conn: conn}), key()
	had := make(chan bool, 10)
	l.OnCleaned(func(h bool) { had <- h })
	c := raw(t, conn)
	l.FailGranted(true)
	for _, acquire := range []func(context.Context, lock.Key) (lock.Hold, error){l.Acquire, l.TryAcquire, l.AcquireShared} {
		_, err := acquire(limited(t), k)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "22012" {
			t.Fatalf("error is %v, want the server's", err)
		}
		that(t, await(t, "the clean-up", had), "the lock had not been granted: this test shows nothing")
		equal(t, advisory(t, c, true)+advisory(t, c, false), 0, "locks are left")
		wantIdle(t, l)
	}
	wantMade(t, l, 1)
	l.FailGranted(false)
	check(t, acquireNow(t, l, k).Release())
}

func acquireNow(t testing.TB, l *pg.Locker, k lock.Key) lock.Hold {
	t.Helper()
	held, err := l.TryAcquire(limited(t), k)
	if err != nil {
		t.Fatal(fmt.Errorf("a free lock: %w", err))
	}
	return held
}
