package pg_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// role makes one without any rights.
func role(t testing.TB, c *pgx.Conn) string {
	t.Helper()
	name := fmt.Sprint("r", rand.Uint64())
	exec1(t, c, "CREATE ROLE "+name+" LOGIN")
	return name
}

func as(conn, role string) string { return strings.Replace(conn, "user=holdfast", "user="+role, 1) }

func TestSchemaOfUnprivileged(t *testing.T) {
	conn := database(t)
	c := raw(t, conn)
	role := role(t, c)
	l, err := pg.Open(limited(t), pg.Options{Conn: as(conn, role)})
	var pgErr *pgconn.PgError
	if l != nil || !errors.As(err, &pgErr) || pgErr.Code != "42501" || !strings.Contains(err.Error(), "Schema") {
		t.Errorf("error is %v, want that it may not create, and what", err)
	}
	exec1(t, c, pg.Schema)
	l = open(t, pg.Options{Conn: as(conn, role)}) // nothing is to be created
	_, err = l.Acquire(limited(t), key())
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		t.Errorf("error is %v, want that it may not read", err)
	}
	if n := advisory(t, c, true); n != 0 {
		t.Errorf("%d locks are left", n)
	}
	wantIdle(t, l)
	exec1(t, c, "GRANT SELECT, INSERT ON holdfast_names, holdfast_spaces TO "+role)
	exec1(t, c, "GRANT USAGE ON SEQUENCE holdfast_fence TO "+role)
	check(t, acquire(t, l, key()).Release())
}

func TestOpenAtOnce(t *testing.T) {
	conn := database(t)
	came := make(chan error)
	const n = 8
	for range n {
		go func() {
			l, err := pg.Open(limited(t), pg.Options{Conn: conn})
			if err == nil {
				l.Close()
			}
			came <- err
		}()
	}
	for range n {
		if err := await(t, "Open", came); err != nil {
			t.Error(err)
		}
	}
}

// TestSettingsOfRole: what a role has by way of defaults ends no wait and no hold, and
// keeps no name from being entered.
func TestSettingsOfRole(t *testing.T) {
	conn := database(t)
	k := key()
	holder := open(t, pg.Options{Conn: conn})
	c := raw(t, conn)
	role := role(t, c)
	exec1(t, c, "GRANT SELECT, INSERT ON holdfast_names, holdfast_spaces TO "+role)
	exec1(t, c, "GRANT USAGE ON SEQUENCE holdfast_fence TO "+role)
	for _, setting := range []string{"lock_timeout = '1ms'", "statement_timeout = '40ms'", "idle_session_timeout = '60ms'",
		"idle_in_transaction_session_timeout = '1ms'", "default_transaction_read_only = on",
		"default_transaction_isolation = 'serializable'", "synchronous_commit = off"} {
		exec1(t, c, "ALTER ROLE "+role+" SET "+setting)
	}
	l := open(t, pg.Options{Conn: as(conn, role)})
	held := acquire(t, holder, k)
	came := begin(l, limited(t), k)
	untilWaiting(t, holder, k)
	for begun := c.PgConn().PID(); value[bool](t, c, `SELECT clock_timestamp() - query_start < '200ms' FROM pg_stat_activity
		JOIN pg_locks USING (pid) WHERE locktype = 'advisory' AND NOT granted AND pid <> $1`, begun); {
	}
	check(t, held.Release())
	got := await(t, "the lock", came).mustHave(t)
	idle := value[time.Time](t, c, "SELECT clock_timestamp()")
	for value[time.Time](t, c, "SELECT clock_timestamp()").Sub(idle) < 150*time.Millisecond {
		select {
		case <-got.Lost():
			t.Fatal("the session was ended for being idle")
		default:
		}
	}
	check(t, got.Release())
	var sync string
	check(t, l.Pool().QueryRow(limited(t), "SHOW synchronous_commit").Scan(&sync))
	if sync != "on" {
		t.Errorf("synchronous_commit is %s: a fence may be given out again after a crash", sync)
	}
	wantIdle(t, l)
}

// TestDeadlock: the server finds it where one of its sessions has a lock and waits for
// another; those of a Locker have one each, so here a pool's own has one from the start.
func TestDeadlock(t *testing.T) {
	conn := database(t)
	k := key()
	c := raw(t, conn)
	pool, err := pgxpool.New(limited(t), conn)
	check(t, err)
	defer pool.Close()
	l := open(t, pg.Options{Pool: pool})
	exec1(t, pool, "SELECT pg_advisory_lock(42)") // it has one connection so far
	exec1(t, c, "SELECT pg_advisory_lock($1)", pg.Hash(k))
	exec1(t, c, "SET deadlock_timeout = '1min'") // so that the other session finds out
	waits := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "SELECT pg_advisory_lock(42)")
		waits <- err
	}()
	look := raw(t, conn)
	eventually(t, "somebody waits", func() bool { return advisory(t, look, false) == 1 })
	o := await(t, "the end of the wait", begin(l, limited(t), k))
	if o.err == nil {
		t.Fatal("acquired what another has")
	}
	wantIs(t, o.err, pg.ErrDeadlock)
	var locked *lock.ErrLocked
	if errors.As(o.err, &locked) {
		t.Errorf("%v passes for contention", o.err)
	}
	wantIdle(t, l)
	exec1(t, pool, "SELECT pg_advisory_unlock(42)")
	check(t, await(t, "the other's lock", waits))
	exec1(t, c, "SELECT pg_advisory_unlock_all()")
	for _, e := range listed(t, l) {
		if e.Key == k {
			t.Errorf("left behind: %+v", e)
		}
	}
	check(t, lock.Do(limited(t), l, k, func(context.Context) error { return nil }))
}

// TestDeadlockOfNestedHolds is one that the server can't see: the deadlines end it, and
// nothing stays.
func TestDeadlockOfNestedHolds(t *testing.T) {
	l, a, b := open(t, pg.Options{}), key(), key()
	one, other := acquire(t, l, a), acquire(t, l, b)
	ctx, cancel := context.WithTimeout(limited(t), 200*time.Millisecond) // four times deadlock_timeout
	defer cancel()
	came := []<-chan outcome{begin(l, one.Context(ctx), b), begin(l, other.Context(ctx), a)}
	for _, c := range came {
		wantLocked(t, await(t, "the end of the wait", c).err, lock.ErrTimeout)
	}
	check(t, one.Release())
	check(t, other.Release())
	wantIdle(t, l)
	wantFree(t, l, a)
	wantFree(t, l, b)
}
