package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/jackc/pgx/v5"
)

func begun(t testing.TB, c *pgx.Conn, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx := must(c.BeginTx(limited(t), o))(t)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// TestTx: the lock of a transaction and that of a session are one, and the transaction's
// end frees it.
func TestTx(t *testing.T) {
	conn := database(t)
	l, k, c := open(t, pg.Options{Conn: conn}), key(), raw(t, conn)
	ctx := limited(t)
	for name, end := range map[string]func(pgx.Tx) error{
		"commit":   func(tx pgx.Tx) error { return tx.Commit(ctx) },
		"rollback": func(tx pgx.Tx) error { return tx.Rollback(ctx) },
	} {
		for _, limit := range []time.Duration{0, patience} {
			tx := begun(t, c, pgx.TxOptions{})
			check(t, l.AcquireTx(context.Background(), tx, k, pg.TxOptions{Limit: limit}))
			_, err := l.TryAcquire(ctx, k)
			wantLocked(t, err)
			if entries := listed(t, l); len(entries) != 1 || entries[0].Key != k {
				t.Errorf("%s: listed: %+v", name, entries)
			}
			check(t, end(tx))
			check(t, acquireNow(t, l, k).Release())
		}
	}
	// Readers together, and no writer beside them.
	tx := begun(t, c, pgx.TxOptions{})
	check(t, l.TryAcquireTx(ctx, tx, k, pg.TxOptions{Shared: true}))
	reader := must(l.AcquireShared(ctx, k))(t)
	wantLocked(t, l.TryAcquireTx(ctx, tx, k, pg.TxOptions{})) // this process has it
	check(t, tx.Commit(ctx))
	check(t, reader.Release())
	wantIdle(t, l)
}

// TestTxSavepoint: what is rolled back to before the lock frees it.
func TestTxSavepoint(t *testing.T) {
	conn := database(t)
	l, k, c := open(t, pg.Options{Conn: conn}), key(), raw(t, conn)
	ctx := limited(t)
	tx := begun(t, c, pgx.TxOptions{})
	savepoint, err := tx.Begin(ctx)
	check(t, err)
	check(t, l.AcquireTx(ctx, savepoint, k, pg.TxOptions{}))
	_, err = l.TryAcquire(ctx, k)
	wantLocked(t, err)
	check(t, savepoint.Rollback(ctx))
	check(t, acquireNow(t, l, k).Release())
	check(t, tx.Commit(ctx))
}

// TestTxLimit: who gives up has a transaction still, with its own lock_timeout.
func TestTxLimit(t *testing.T) {
	conn := database(t)
	l, k, c := open(t, pg.Options{Conn: conn}), key(), raw(t, conn)
	held := acquire(t, open(t, pg.Options{Conn: conn}), k)
	exec1(t, c, "CREATE TABLE work (n integer)")
	tx := begun(t, c, pgx.TxOptions{})
	exec1(t, tx, "SET LOCAL lock_timeout = '7min'")
	exec1(t, tx, "INSERT INTO work VALUES (1)")
	byDeadline := func() error {
		ctx, cancel := context.WithTimeout(limited(t), 5*time.Second) // of which a tenth is for the answer
		defer cancel()
		return l.AcquireTx(ctx, tx, k, pg.TxOptions{})
	}
	for _, err := range []error{
		l.AcquireTx(limited(t), tx, k, pg.TxOptions{Limit: 1}),
		l.AcquireTx(limited(t), tx, k, pg.TxOptions{Limit: 10 * time.Millisecond, Shared: true}),
		byDeadline(),
	} {
		if locked := wantLocked(t, err, lock.ErrTimeout, context.DeadlineExceeded); locked.Waited <= 0 {
			t.Errorf("waited %v", locked.Waited)
		}
	}
	wantLocked(t, l.TryAcquireTx(limited(t), tx, k, pg.TxOptions{}))
	check(t, held.Release())
	check(t, l.AcquireTx(limited(t), tx, k, pg.TxOptions{Limit: patience}))
	var timeout string
	check(t, tx.QueryRow(limited(t), "SHOW lock_timeout").Scan(&timeout))
	that(t, timeout == "7min", "lock_timeout of the transaction is %s, was 7min", timeout)
	check(t, tx.Commit(limited(t)))
	equal(t, value[int](t, c, "SELECT count(*) FROM work"), 1, "rows")
}

// TestTxSnapshot: above READ COMMITTED a transaction reads what was there before it had
// the lock, and is refused, unless that is asked for.
func TestTxSnapshot(t *testing.T) {
	conn := database(t)
	l, k, c := open(t, pg.Options{Conn: conn}), key(), raw(t, conn)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		tx := begun(t, c, pgx.TxOptions{IsoLevel: level})
		wantIs(t, l.AcquireTx(limited(t), tx, k, pg.TxOptions{}), errors.ErrUnsupported)
		wantIs(t, l.TryAcquireTx(limited(t), tx, k, pg.TxOptions{}), errors.ErrUnsupported)
		check(t, acquireNow(t, l, k).Release())
		check(t, l.AcquireTx(limited(t), tx, k, pg.TxOptions{AnyIsolation: true}))
		check(t, tx.Commit(limited(t)))
	}
}

// TestTxOfAnotherDatabase would exclude nobody.
func TestTxOfAnotherDatabase(t *testing.T) {
	l, c := open(t, pg.Options{}), raw(t, database(t))
	tx := begun(t, c, pgx.TxOptions{})
	wantIs(t, l.AcquireTx(limited(t), tx, key(), pg.TxOptions{}), errors.ErrUnsupported)
	equal(t, advisory(t, c, true), 0, "locks")
}

// TestTxReentrant: the session of the hold does not wait, so the server would see nothing.
func TestTxReentrant(t *testing.T) {
	l, k := open(t, pg.Options{}), key()
	held := acquire(t, l, k)
	tx := begun(t, raw(t, server.Conn()), pgx.TxOptions{})
	wantLocked(t, l.AcquireTx(held.Context(limited(t)), tx, k, pg.TxOptions{}), lock.ErrReentrant)
	wantLocked(t, l.TryAcquireTx(limited(t), tx, k, pg.TxOptions{}))
	check(t, held.Release())
	check(t, l.AcquireTx(limited(t), tx, k, pg.TxOptions{}))
}

// TestTxDeadlockWithRows: one has a row and wants the lock, the other the other way round.
func TestTxDeadlockWithRows(t *testing.T) {
	conn := database(t)
	l, k := open(t, pg.Options{Conn: conn}), key()
	one, other := raw(t, conn), raw(t, conn)
	exec1(t, one, "CREATE TABLE rows AS SELECT 1 AS n")
	exec1(t, other, "SET deadlock_timeout = '1min'") // so that the first finds out
	a, b := begun(t, one, pgx.TxOptions{}), begun(t, other, pgx.TxOptions{})
	exec1(t, a, "UPDATE rows SET n = 2")
	check(t, l.AcquireTx(limited(t), b, k, pg.TxOptions{}))
	waits := make(chan error, 1)
	go func() {
		_, err := b.Exec(context.Background(), "UPDATE rows SET n = 3")
		waits <- err
	}()
	look := raw(t, conn)
	eventually(t, "it waits for the row", func() bool {
		return value[int](t, look, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	wantIs(t, l.AcquireTx(limited(t), a, k, pg.TxOptions{Limit: patience}), pg.ErrDeadlock)
	exec1(t, a, "SELECT 1") // with a limit the transaction goes on
	check(t, a.Rollback(limited(t)))
	check(t, await(t, "the row", waits))
	check(t, b.Commit(limited(t)))
}

// TestTxThroughPooler, which hands the session to others between transactions.
func TestTxThroughPooler(t *testing.T) {
	conn := bouncer(t, "transaction")
	l, k := open(t, pg.Options{}), key()
	for range 3 {
		c := raw(t, conn+" default_query_exec_mode=exec")
		tx := begun(t, c, pgx.TxOptions{})
		check(t, l.AcquireTx(limited(t), tx, k, pg.TxOptions{Limit: patience}))
		_, err := l.TryAcquire(limited(t), k)
		wantLocked(t, err)
		check(t, tx.Commit(limited(t)))
		check(t, acquireNow(t, l, k).Release())
	}
}

// TestNumbers: programs that lock by number are excluded.
func TestNumbers(t *testing.T) {
	conn := database(t)
	l, c := open(t, pg.Options{Conn: conn}), raw(t, conn)
	for name, try := range map[string]string{
		"4711": "pg_try_advisory_lock(4711)", "-1": "pg_try_advisory_lock(-1)", "9223372036854775807": "pg_try_advisory_lock(9223372036854775807)",
		"1,-2": "pg_try_advisory_lock(1, -2)",
	} {
		k := lock.Key{Space: pg.Numbers, Name: name}
		held := acquire(t, l, k)
		that(t, !value[bool](t, c, "SELECT "+try), "%s is not what is locked", try)
		if entries := listed(t, l); len(entries) != 1 || entries[0].Key != k {
			t.Errorf("listed: %+v", entries)
		}
		_, err := l.Acquire(held.Context(limited(t)), k)
		wantLocked(t, err, lock.ErrReentrant)
		check(t, held.Release())
		tx := begun(t, c, pgx.TxOptions{})
		check(t, l.AcquireTx(limited(t), tx, k, pg.TxOptions{}))
		_, err = l.TryAcquire(limited(t), k)
		wantLocked(t, err)
		check(t, tx.Commit(limited(t)))
	}
	for _, name := range []string{"x", "01", "+1", "1,", ",1", "1,2,3", "1, 2", "9223372036854775808", "2147483648,0"} {
		wantInvalid(t, l, lock.Key{Space: pg.Numbers, Name: name})
	}
	wantIs(t, l.Register(limited(t), pg.Numbers, 1), lock.ErrInvalidName)
	equal(t, value[int](t, c, "SELECT count(*) FROM holdfast.names"), 0, "names")
}
