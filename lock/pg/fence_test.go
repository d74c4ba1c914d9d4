package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestFence goes up from holder to holder: of sessions, processes, and lives of the
// server.
func TestFence(t *testing.T) {
	t.Parallel()
	s, err := pgtest.Start()
	check(t, err)
	defer func() { check(t, s.Stop()) }()
	l, k := open(t, pg.Options{Conn: s.Conn()}), key()
	var last int64
	above := func(who string, fence int64) {
		t.Helper()
		if fence <= last {
			t.Errorf("%s: fence %d, after %d", who, fence, last)
		}
		last = fence
	}
	round := func(who string) {
		t.Helper()
		for range 40 { // more than the server takes ahead at a time
			held := acquire(t, l, k)
			fence, err := held.Fence()
			check(t, err)
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
		_, err := fmt.Sscan(strings.Fields(a)[0], &fence)
		check(t, err)
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

// TestFenceOfTheLost: who has lost the lock gets no fence, and hears why.
func TestFenceOfTheLost(t *testing.T) {
	held := acquire(t, open(t, pg.Options{}), key())
	terminate(t, server.Conn(), held)
	fence, err := held.Fence()
	wantIs(t, err, lock.ErrLost)
	if fence != 0 {
		t.Errorf("fence %d", fence)
	}
	wantIs(t, held.Release(), lock.ErrLost)
}

func TestFenceOfReader(t *testing.T) {
	l := open(t, pg.Options{})
	held, err := l.AcquireShared(limited(t), key())
	check(t, err)
	if fence, err := held.Fence(); fence != 0 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("fence %d, %v; want none", fence, err)
	}
	check(t, held.Release())
}

// TestFenceRefusesLateWriter: the recipe of the package's documentation, in a
// transaction of the caller's own, which began before the lock was lost.
func TestFenceRefusesLateWriter(t *testing.T) {
	conn := database(t)
	l, k := open(t, pg.Options{Conn: conn}), key()
	setup := raw(t, conn)
	exec1(t, setup, "CREATE TABLE account (id integer PRIMARY KEY, balance integer, fence bigint NOT NULL)")
	exec1(t, setup, "INSERT INTO account VALUES (1, 100, 0)")
	ctx := limited(t)
	write := func(tx interface {
		Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	}, balance int, fence int64) int64 {
		done, err := tx.Exec(ctx, "UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2", balance, fence, 1)
		check(t, err)
		return done.RowsAffected()
	}
	first := acquire(t, l, k)
	old, err := first.Fence()
	check(t, err)
	late, err := raw(t, conn).Begin(ctx)
	check(t, err)
	var balance int
	check(t, late.QueryRow(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&balance))
	terminate(t, conn, first)
	second := acquire(t, l, k)
	fence, err := second.Fence()
	check(t, err)
	for i := range 2 { // a holder may write again
		if n := write(setup, 200+i, fence); n != 1 {
			t.Fatalf("the holder changed %d rows", n)
		}
	}
	if n := write(late, balance-1, old); n != 0 {
		t.Errorf("who came too late changed %d rows", n)
	}
	check(t, late.Rollback(ctx))
	if got := value[int](t, setup, "SELECT balance FROM account"); got != 201 {
		t.Errorf("balance %d, want 201", got)
	}
	wantIs(t, first.Release(), lock.ErrLost)
	check(t, second.Release())
}
