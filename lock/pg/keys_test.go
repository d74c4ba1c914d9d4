package pg_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
)

func TestNumericSpace(t *testing.T) {
	conn := database(t)
	l, c := open(t, pg.Options{Conn: conn}), raw(t, conn)
	check(t, l.Register(limited(t), "agent", -3))
	for _, n := range []int32{math.MinInt32, -1, 0, 1, 42, math.MaxInt32} {
		held := acquire(t, l, lock.Key{Space: "agent", Name: fmt.Sprint(n)})
		if value[bool](t, c, "SELECT pg_try_advisory_lock($1::integer, $2::integer)", int32(-3), n) {
			t.Errorf("(-3, %d) is not what is locked", n)
		}
		if !value[bool](t, c, "SELECT pg_try_advisory_lock($1::integer, $2::integer)", n, int32(-3)) {
			t.Errorf("(%d, -3) is locked", n)
		}
		exec1(t, c, "SELECT pg_advisory_unlock_all()")
		entries := listed(t, l)
		if len(entries) != 1 || entries[0].Key != held.Key() || entries[0].Info.PID != held.Info().PID {
			t.Errorf("%d: listed as %+v", n, entries)
		}
		check(t, held.Release())
	}
	for _, name := range []string{"-0", "+1", "01", "1.5", "1e3", " 1", "1 ", "0x1", "x", "١", "2147483648", "-2147483649", "99999999999999999999"} {
		wantInvalid(t, l, lock.Key{Space: "agent", Name: name})
	}
	equal(t, advisory(t, c, true), 0, "locks are left")
}

func wantInvalid(t *testing.T, l *pg.Locker, k lock.Key) {
	t.Helper()
	for _, acquire := range []func(context.Context, lock.Key) (lock.Hold, error){l.Acquire, l.TryAcquire, l.AcquireShared, l.TryAcquireShared} {
		if held, err := acquire(limited(t), k); held != nil || !errors.Is(err, lock.ErrInvalidName) {
			t.Errorf("%q: %v, want to be refused", k, err)
		}
	}
}

func TestInvalidNames(t *testing.T) {
	l := open(t, pg.Options{})
	for _, bad := range []string{"", "\x00", "a\x00b", "\xff\xfe", "a\xc3", strings.Repeat("x", 1025)} {
		wantInvalid(t, l, lock.Key{Space: bad, Name: "x"})
		wantInvalid(t, l, lock.Key{Space: "x", Name: bad})
	}
	longest := strings.Repeat("x", 1024)
	check(t, acquire(t, l, lock.Key{Space: longest, Name: longest}).Release())
	wantIdle(t, l)
}

func TestRegister(t *testing.T) {
	conn := database(t)
	l, other := open(t, pg.Options{Conn: conn}), open(t, pg.Options{Conn: conn})
	ctx := limited(t)
	check(t, l.Register(ctx, "agent", 1))
	for _, l := range []*pg.Locker{l, other} {
		check(t, l.Register(ctx, "agent", 1))
		check(t, l.Register(ctx, "agent", 1))
		wantIs(t, l.Register(ctx, "agent", 2), pg.ErrSpaceClash)
		wantIs(t, l.Register(ctx, "task", 1), pg.ErrSpaceClash)
		// Nothing has changed.
		check(t, acquire(t, l, lock.Key{Space: "agent", Name: "7"}).Release())
		check(t, acquire(t, l, lock.Key{Space: "user", Name: "x"}).Release())
	}
	check(t, l.Register(ctx, "task", 2))
	wantIs(t, l.Register(ctx, "agent", 2), pg.ErrSpaceClash)
	wantIs(t, l.Register(ctx, "", 3), lock.ErrInvalidName)
	equal(t, value[int](t, raw(t, conn), "SELECT count(*) FROM holdfast.spaces WHERE id IS NOT NULL"), 2, "spaces are known")
	// Two at once.
	came := make(chan error)
	for i, l := range []*pg.Locker{l, other} {
		go func() { came <- l.Register(ctx, fmt.Sprint("race", i), 9) }()
	}
	if a, b := <-came, <-came; (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), pg.ErrSpaceClash) {
		t.Errorf("%v and %v, want one of two to be refused", a, b)
	}
}

// TestSpaceOfBothKinds: a space with names for one, and with numbers for another, would
// give one lock to both.
func TestSpaceOfBothKinds(t *testing.T) {
	conn := database(t)
	l, other := open(t, pg.Options{Conn: conn}), open(t, pg.Options{Conn: conn})
	ctx := limited(t)
	check(t, l.Register(ctx, "agent", 1))
	k := lock.Key{Space: "agent", Name: "7"}
	held := acquire(t, l, k)
	for range 2 {
		_, err := other.Acquire(ctx, k)
		wantIs(t, err, pg.ErrSpaceClash)
		_, err = other.TryAcquire(ctx, k)
		wantIs(t, err, pg.ErrSpaceClash)
		_, err = other.Inspect(ctx, k) // it would be free by its name
		wantIs(t, err, pg.ErrSpaceClash)
	}
	if n := len(listed(t, l)); n != 1 {
		t.Errorf("%d locks, want the first", n)
	}
	check(t, held.Release())
	check(t, other.Register(ctx, "agent", 1))
	check(t, acquire(t, other, k).Release())

	named := lock.Key{Space: "user", Name: "7"}
	check(t, acquire(t, other, named).Release())
	wantIs(t, l.Register(ctx, "user", 2), pg.ErrSpaceClash)
	check(t, acquire(t, l, named).Release())
}

// TestCollision: two names with one number are found out whoever comes first, and
// whether or not the other has its lock.
func TestCollision(t *testing.T) {
	conn := database(t)
	c := raw(t, conn)
	a, b := lock.Key{Space: "test", Name: "a"}, lock.Key{Space: "test", Name: "b"}
	for n, order := range [][2]lock.Key{{a, b}, {b, a}} {
		l := open(t, pg.Options{Conn: conn})
		l.SetHash(func(lock.Key) int64 { return math.MaxInt64 - int64(n) })
		first, second := order[0], order[1]
		for _, isHeld := range []bool{true, false} {
			held := acquire(t, l, first)
			if !isHeld {
				check(t, held.Release())
			}
			for _, acquire := range []func(context.Context, lock.Key) (lock.Hold, error){l.Acquire, l.TryAcquire, l.AcquireShared} {
				_, err := acquire(limited(t), second)
				wantIs(t, err, pg.ErrCollision)
				if isHeld {
					_, err = l.Inspect(limited(t), second)
					wantIs(t, err, pg.ErrCollision)
				}
				var locked *lock.LockedError
				if errors.As(err, &locked) || err != nil && !strings.Contains(err.Error(), first.String()) {
					t.Errorf("%v; want no contention, and both names", err)
				}
			}
			if got := advisory(t, c, true); got != len(order)-1 && isHeld || got != 0 && !isHeld {
				t.Errorf("%d locks, with the first held: %t", got, isHeld)
			}
			check(t, held.Release())
		}
		wantIdle(t, l)
	}
}

// TestCollisionOfNewNames: nobody had used either name, and both come at once.
func TestCollisionOfNewNames(t *testing.T) {
	conn := database(t)
	l := open(t, pg.Options{Conn: conn})
	l.SetHash(func(lock.Key) int64 { return 4711 })
	c := raw(t, conn)
	exec1(t, c, "SELECT pg_advisory_lock(4711)") // keeps both from having it
	k := []lock.Key{{Space: "test", Name: "a"}, {Space: "test", Name: "b"}}
	came := make(chan outcome, 2)
	for _, k := range k {
		go func() {
			h, err := l.Acquire(limited(t), k)
			came <- outcome{h, err}
		}()
	}
	eventually(t, "both want it", func() bool { return l.QueuedHere(k[0]) == 2 })
	exec1(t, c, "SELECT pg_advisory_unlock(4711)")
	collisions := 0
	for range 2 {
		if o := await(t, "an answer", came); o.err != nil {
			wantIs(t, o.err, pg.ErrCollision)
			collisions++
		} else {
			check(t, o.held.Release())
		}
	}
	equal(t, collisions, 1, "of two are told of the collision")
	equal(t, advisory(t, c, true), 0, "locks are left")
}
