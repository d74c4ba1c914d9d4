package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	engines "github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestFence goes up from holder to holder: of sessions, processes, and lives of the
// server.
func TestFence(t *testing.T) {
	t.Parallel()
	s := must(pgtest.Start())(t)
	defer func() { check(t, s.Stop()) }()
	l, k := open(t, pg.Options{Conn: s.Conn()}), key()
	var last int64
	above := func(who string, fence int64) {
		t.Helper()
		that(t, fence > last, "%s: fence %d, after %d", who, fence, last)
		last = fence
	}
	round := func(who string) {
		t.Helper()
		for range 5 {
			held := acquire(t, l, k)
			fence := must(held.Fence())(t)
			above(who, fence)
			check(t, held.Release())
		}
		held := acquire(t, l, k)
		terminate(t, s.Conn(), held)
		wantIs(t, held.Release(), lock.ErrLost)
		c := start(t, s.Conn(), 0)
		c.Do("acquire "+k.Name, "held")
		var fence int64
		a := c.Say("fence")
		check(t, errOf(fmt.Sscan(strings.Fields(a)[0], &fence)))
		above(who+", in another process", fence)
		if a := c.Say("release"); a != "released: <nil>" {
			t.Fatal(a)
		}
	}
	round("first life")
	check(t, s.End())
	check(t, s.Run())
	round("after an end")
	check(t, s.Kill())
	check(t, s.Run())
	round("after a crash")
}

// TestFenceOutOfReason: a number that no holder was given is an error with a statement, which
// who may lock may run, and which cures it. Nothing else of the lock suffers.
func TestFenceOutOfReason(t *testing.T) { // guards: F2
	conn := database(t)
	c := raw(t, conn)
	exec1(t, c, pg.Schema(`my "locks`))
	role := role(t, c)
	exec1(t, c, fmt.Sprintf(`GRANT USAGE ON SCHEMA "my ""locks" TO %[1]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "my ""locks" TO %[1]s`, role))
	l := open(t, pg.Options{Conn: as(conn, role), Schema: `my "locks`})
	check(t, l.Register(limited(t), "numbers", -7))
	for _, k := range []lock.Key{key(), {Space: "numbers", Name: "-3"}, {Space: pg.Numbers, Name: "-5"}} {
		held := acquire(t, l, k)
		before := fenceOf(t, held)
		check(t, held.Release())
		equal(t, must(l.LastFence(limited(t), k))(t), before, "the last fence")
		exec1(t, c, `UPDATE "my ""locks".fences SET fence = 9223372036854775807`)
		held = acquire(t, l, k)
		fence, err := held.Fence()
		if fence != 0 || err == nil || !strings.Contains(err.Error(), "century") {
			t.Fatalf("fence %d, %v; want an error", fence, err)
		}
		_, cure, _ := strings.Cut(err.Error(), "with the time of day: ")
		exec1(t, raw(t, as(conn, role)), cure)
		if fence := fenceOf(t, held); fence <= before || fence > engines.MaxFence {
			t.Errorf("mended, it is %d, after %d", fence, before)
		}
		check(t, held.Release())
	}
	if last, err := l.LastFence(limited(t), key()); last != 0 || err != nil {
		t.Errorf("of a lock that nobody has had: %d, %v", last, err)
	}
	wantIdle(t, l)
}

// TestFenceOfEarlierSchema: a database that has fences as a sequence gets the table, and they
// go up.
func TestFenceOfEarlierSchema(t *testing.T) {
	conn := database(t)
	c := raw(t, conn)
	exec1(t, c, pg.Schema("holdfast")+"DROP TABLE holdfast.fences; CREATE SEQUENCE holdfast.fence START 1000000")
	held := acquire(t, open(t, pg.Options{Conn: conn}), key())
	if fence := fenceOf(t, held); fence <= 1000000 {
		t.Errorf("fence %d", fence)
	}
	check(t, held.Release())
}

// TestPurgeFences: what was given long ago is forgotten, and nothing else.
func TestPurgeFences(t *testing.T) {
	conn := database(t)
	l, c := open(t, pg.Options{Conn: conn}), raw(t, conn)
	held := acquire(t, l, key())
	fenceOf(t, held)
	check(t, held.Release())
	for name, age := range map[string]time.Duration{"old": 48*time.Hour + time.Minute, "young": 48*time.Hour - time.Minute} {
		exec1(t, c, "INSERT INTO holdfast.fences (key, fence) VALUES ($1, $2)", name, time.Now().Add(-age).UnixMicro())
	}
	check(t, errOf(l.PurgeNames(limited(t), 48*time.Hour)))
	left := value[string](t, c, "SELECT string_agg(key, ' ') FROM holdfast.fences WHERE key IN ('old', 'young')")
	if all := value[int](t, c, "SELECT count(*) FROM holdfast.fences"); left != "young" || all != 2 {
		t.Errorf("left are %d fences, of those %q", all, left)
	}
}

// TestFenceOfTheLost: who has lost the lock gets no fence, and hears why.
func TestFenceOfTheLost(t *testing.T) {
	held := acquire(t, open(t, pg.Options{}), key())
	terminate(t, server.Conn(), held)
	fence, err := held.Fence()
	wantIs(t, err, lock.ErrLost)
	equal(t, fence, 0, "fence")
	wantIs(t, held.Release(), lock.ErrLost)
}

func TestFenceOfReader(t *testing.T) {
	l := open(t, pg.Options{})
	held := must(l.AcquireShared(limited(t), key()))(t)
	if fence, err := held.Fence(); fence != 0 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("fence %d, %v; want none", fence, err)
	}
	check(t, held.Release())
}

// TestFenceRefusesLateWriter: the recipe of the package's documentation, in a
// transaction of the caller's own, which began before the lock was lost.
func TestFenceRefusesLateWriter(t *testing.T) { // guards: F4
	conn := database(t)
	l, k := open(t, pg.Options{Conn: conn}), key()
	setup := raw(t, conn)
	exec1(t, setup, "CREATE TABLE account (id integer PRIMARY KEY, balance integer, fence bigint NOT NULL)")
	exec1(t, setup, "INSERT INTO account VALUES (1, 100, 0)")
	ctx := limited(t)
	write := func(tx interface {
		Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	}, balance int, fence int64) int64 {
		done := must(tx.Exec(ctx, "UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2", balance, fence, 1))(t)
		return done.RowsAffected()
	}
	first := acquire(t, l, k)
	old := must(first.Fence())(t)
	late := must(raw(t, conn).Begin(ctx))(t)
	var balance int
	check(t, late.QueryRow(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&balance))
	terminate(t, conn, first)
	second := acquire(t, l, k)
	fence := must(second.Fence())(t)
	for i := range 2 { // a holder may write again
		if n := write(setup, 200+i, fence); n != 1 {
			t.Fatalf("the holder changed %d rows", n)
		}
	}
	if n := write(late, balance-1, old); n != 0 {
		t.Errorf("who came too late changed %d rows", n)
	}
	check(t, late.Rollback(ctx))
	equal(t, value[int](t, setup, "SELECT balance FROM account"), 201, "balance")
	wantIs(t, first.Release(), lock.ErrLost)
	check(t, second.Release())
}
