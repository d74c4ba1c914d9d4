package pg_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// role makes one without any rights.
func role(t testing.TB, c *pgx.Conn) string {
	t.Helper()
	name := fmt.Sprint("r", rand.Uint64())
	exec1(t, c, "CREATE ROLE "+name+" LOGIN")
	return name
}

func as(conn, role string) string { return strings.Replace(conn, "user=holdfast", "user="+role, 1) }

// mayLock gives a role the rights that Open asks for.
func mayLock(t testing.TB, c *pgx.Conn, role string) {
	t.Helper()
	exec1(t, c, "GRANT USAGE ON SCHEMA holdfast TO "+role)
	exec1(t, c, "GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.names, holdfast.fences TO "+role)
	exec1(t, c, "GRANT SELECT, INSERT ON holdfast.spaces TO "+role)
}

// TestSchemaOfUnprivileged: Open says which statements help, and they do.
func TestSchemaOfUnprivileged(t *testing.T) {
	conn := database(t)
	c := raw(t, conn)
	role := role(t, c)
	l, err := pg.Open(limited(t), pg.Options{Conn: as(conn, role)})
	var pgErr *pgconn.PgError
	if l != nil || !errors.Is(err, pg.ErrServer) || !errors.As(err, &pgErr) || pgErr.Code != "42501" || !strings.Contains(err.Error(), `pg.Schema("holdfast")`) {
		t.Errorf("error is %v, want that it may not create, and what", err)
	}
	exec1(t, c, pg.Schema("holdfast"))
	l, err = pg.Open(limited(t), pg.Options{Conn: as(conn, role)}) // nothing is to be created
	if l != nil || !errors.Is(err, pg.ErrServer) {
		t.Fatalf("error is %v, want that it may not use them", err)
	}
	_, cure, found := strings.Cut(err.Error(), "let its owner run: ")
	if !found {
		t.Fatalf("error is %v, want one with the cure", err)
	}
	exec1(t, c, cure)
	l = open(t, pg.Options{Conn: as(conn, role)})
	check(t, acquire(t, l, key()).Release())
	check(t, l.Register(limited(t), "numbers", 1))
	check(t, errOf(l.PurgeNames(limited(t), 48*time.Hour)))
	wantIdle(t, l)
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
		noErr(t, await(t, "Open", came))
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
	mayLock(t, c, role)
	for _, setting := range []string{"lock_timeout = '1ms'", "statement_timeout = '1s'", "idle_session_timeout = '1s'", // which a busy machine keeps
		"idle_in_transaction_session_timeout = '1ms'", "default_transaction_read_only = on",
		"default_transaction_isolation = 'serializable'", "synchronous_commit = off"} {
		exec1(t, c, "ALTER ROLE "+role+" SET "+setting)
	}
	l := open(t, pg.Options{Conn: as(conn, role)})
	held := acquire(t, holder, k)
	came := begin(l, limited(t), k)
	untilWaiting(t, holder, k)
	for begun := c.PgConn().PID(); value[bool](t, c, `SELECT clock_timestamp() - query_start < '1200ms' FROM pg_stat_activity
		JOIN pg_locks USING (pid) WHERE locktype = 'advisory' AND NOT granted AND pid <> $1`, begun); {
	}
	check(t, held.Release())
	got := await(t, "the lock", came).mustHave(t)
	idle := value[time.Time](t, c, "SELECT clock_timestamp()")
	for value[time.Time](t, c, "SELECT clock_timestamp()").Sub(idle) < 1200*time.Millisecond {
		select {
		case <-got.Lost():
			t.Fatal("the session was ended for being idle")
		default:
		}
	}
	check(t, got.Release())
	l.Idle(limited(t), func(c *pgx.Conn) {
		if sync := value[string](t, c, "SHOW synchronous_commit"); sync != "on" {
			t.Errorf("synchronous_commit is %s: a fence may be given out again after a crash", sync)
		}
	})
	wantIdle(t, l)
}
