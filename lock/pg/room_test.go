package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
)

// TestTooManyLocks: the Locker stops before the server does; and when that is full, by
// whatever program, the error says what raises it.
func TestTooManyLocks(t *testing.T) {
	t.Parallel()
	s, err := pgtest.Start("max_locks_per_transaction=10", "max_connections=20")
	check(t, err)
	defer func() { check(t, s.Stop()) }()
	l := open(t, pg.Options{Conn: s.Conn()})
	ctx := limited(t)
	var holds []lock.Hold
	for {
		h, err := l.Acquire(ctx, key())
		if err != nil {
			wantTooMany(t, err, "Options.MaxLocks")
			break
		}
		holds = append(holds, h)
		ctx = h.Context(ctx)
	}
	if len(holds) != 10*20/4 {
		t.Errorf("%d locks, want a quarter of 200", len(holds))
	}
	c := raw(t, s.Conn()) // others have room
	for i := len(holds) - 1; i >= 0; i-- {
		check(t, holds[i].Release())
	}
	wantIdle(t, l)
	held := acquire(t, l, key())
	// Now another program is not as careful.
	if _, err := c.Exec(limited(t), "SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 100000) n"); err == nil {
		t.Fatal("the server has room for 100000: this test shows nothing")
	}
	for n := 0; ; n++ { // what was freed for the error has room for some still
		if _, err := c.Exec(limited(t), "SELECT pg_advisory_lock($1)", 200000+n); err != nil {
			break
		}
	}
	for _, acquire := range []func(context.Context, lock.Key) (lock.Hold, error){l.Acquire, l.TryAcquire, l.AcquireShared} {
		_, err = acquire(held.Context(limited(t)), held.Key()) // reentrant: it needs no room
		wantIs(t, err, lock.ErrReentrant)
		_, err = acquire(held.Context(limited(t)), key())
		wantTooMany(t, err, "the server has room for no more")
	}
	exec1(t, c, "SELECT pg_advisory_unlock_all()")
	check(t, held.Release())
	check(t, acquire(t, l, key()).Release())
	wantIdle(t, l)
}

func wantTooMany(t testing.TB, err error, says string) {
	t.Helper()
	wantIs(t, err, pg.ErrTooManyLocks)
	for _, says := range []string{says, "ALTER SYSTEM SET max_locks_per_transaction = 40", "it is 10"} {
		that(t, strings.Contains(err.Error(), says), "error is %v, want it to say %q", err, says)
	}
}

func TestMaxLocks(t *testing.T) {
	l := open(t, pg.Options{MaxLocks: 2})
	one, other := acquire(t, l, key()), acquire(t, l, key())
	_, err := l.TryAcquire(limited(t), key())
	wantIs(t, err, pg.ErrTooManyLocks)
	terminate(t, server.Conn(), one)
	await(t, "Lost", one.Lost())
	third := acquire(t, l, key()) // what is lost takes no room
	for range 2 {
		check(t, other.Release())
	}
	check(t, third.Release())
	wantIs(t, one.Release(), lock.ErrLost)
	wantIdle(t, l)
}

// TestRegisterRacesFirstUse: of the two, one has the space. A trigger keeps each of them
// in the middle of its work until the other has come as far.
func TestRegisterRacesFirstUse(t *testing.T) {
	for _, firstUse := range []bool{false, true} { // who comes first
		t.Run(fmt.Sprint("first use comes first: ", firstUse), func(t *testing.T) {
			conn := database(t)
			l, other := open(t, pg.Options{Conn: conn}), open(t, pg.Options{Conn: conn})
			c := raw(t, conn)
			exec1(t, c, `CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END$$`)
			for _, table := range []string{"names", "spaces"} { // after: what was entered is there, and not to be seen yet
				exec1(t, c, "CREATE TRIGGER gate AFTER INSERT ON holdfast."+table+" FOR EACH ROW EXECUTE FUNCTION gate()")
			}
			exec1(t, c, "SELECT pg_advisory_lock(42)")
			k := lock.Key{Space: "agent", Name: "7"}
			used, registered := make(chan outcome, 1), make(chan error, 1)
			use := func() {
				h, err := l.Acquire(limited(t), k)
				used <- outcome{h, err}
			}
			register := func() { registered <- other.Register(limited(t), k.Space, 1) }
			order := []func(){register, use}
			if firstUse {
				order = []func(){use, register}
			}
			look := raw(t, conn)
			for n, do := range order {
				go do()
				eventually(t, "it is in the middle, or waits for who is", func() bool {
					return value[int](t, look, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == n+1
				})
			}
			exec1(t, c, "SELECT pg_advisory_unlock(42)")
			o, err := await(t, "the lock", used), await(t, "Register", registered)
			if (o.err == nil) == (err == nil) {
				t.Errorf("first use: %v, and Register: %v; want one of them to be refused", o.err, err)
			}
			wantIs(t, errors.Join(o.err, err), pg.ErrSpaceClash)
			if o.err == nil {
				check(t, o.held.Release())
			}
			wantIdle(t, l)
		})
	}
}

// TestPurgeNames: those that nobody has used for long, and nobody has. They come back.
func TestPurgeNames(t *testing.T) {
	conn := database(t)
	l, c := open(t, pg.Options{Conn: conn}), raw(t, conn)
	_, err := l.PurgeNames(limited(t), 47*time.Hour)
	wantIs(t, err, lock.ErrInvalidName)
	old, held, fresh := key(), key(), key()
	for _, k := range []lock.Key{old, held, fresh} {
		check(t, acquire(t, l, k).Release())
	}
	h := acquire(t, l, held)
	exec1(t, c, "UPDATE holdfast.names SET used = now() - interval '3 days' WHERE name IN ($1, $2)", old.Name, held.Name)
	for i := range 250 { // more than go at a time
		exec1(t, c, "INSERT INTO holdfast.names VALUES ($1, 'old', $2, now() - interval '9 days')", i, fmt.Sprint(i))
	}
	n := must(l.PurgeNames(limited(t), 48*time.Hour))(t)
	names := func() int { return value[int](t, c, "SELECT count(*) FROM holdfast.names") }
	if n != 251 || names() != 2 {
		t.Errorf("%d were purged, %d are left; want 251 and 2", n, names())
	}
	check(t, h.Release())
	// By another process, which has not seen it lately.
	check(t, acquire(t, open(t, pg.Options{Conn: conn}), old).Release())
	if names() != 3 {
		t.Errorf("%d names, want the one that was used again", names())
	}
	// A name that is used is not old.
	exec1(t, c, "UPDATE holdfast.names SET used = now() - interval '3 days'")
	check(t, acquire(t, open(t, pg.Options{Conn: conn}), old).Release())
	if n, err := l.PurgeNames(limited(t), 48*time.Hour); n != 2 || err != nil {
		t.Errorf("%d were purged, %v; want the other 2", n, err)
	}
	equal(t, advisory(t, c, true), 0, "locks are left")
}

// TestReleaseBound: it waits no longer than its context allows, of which a cancel tells that
// it was that, and not the bound that there always is.
func TestReleaseBound(t *testing.T) {
	t.Parallel()
	p, k := newProxy(t, server.Conn()), key()
	l := open(t, pg.Options{Conn: p.through(server.Conn())})
	held := acquire(t, l, k)
	p.swallowOld()
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	time.AfterFunc(10*time.Millisecond, cancel) // any time will do
	err := held.ReleaseContext(ctx)
	wantIs(t, err, lock.ErrLost, context.Canceled)
	// Its session is ended, by another way.
	check(t, acquire(t, open(t, pg.Options{}), k).Release())
	check(t, held.Release())
	wantIdle(t, l)
}
