package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TxOptions say how to acquire a lock in a transaction. The zero value waits for an exclusive
// one.
type TxOptions struct {
	// Shared is for readers, see AcquireShared.
	Shared bool
	// Limit is how long to wait, at most; 0 leaves it to the context's deadline, and to the
	// transaction's own lock_timeout.
	Limit time.Duration
	// AnyIsolation allows transactions above READ COMMITTED. They may see what was there
	// before they had the lock, and not what its last holder wrote.
	AnyIsolation bool
}

// AcquireTx acquires the lock in a transaction of the caller's, until its end, waiting as
// long as the limit allows. The server sees deadlocks among these locks and the
// transaction's rows (ErrDeadlock), and it works behind a pooler. The database must be the
// Locker's, and the isolation READ COMMITTED; else the error matches
// errors.ErrUnsupported, and nothing has been done.
//
// There is no hold: COMMIT and ROLLBACK end it, and so does ROLLBACK TO a savepoint that
// is older than the lock. With a limit, also that of ctx's deadline, the transaction goes
// on after an error; without, the server has aborted it. A ctx that is cancelled ends the
// transaction's connection, as everywhere in pgx.
func (l *Locker) AcquireTx(ctx context.Context, tx pgx.Tx, key lock.Key, o TxOptions) error {
	t, err := l.inTx(ctx, key, o)
	if err != nil {
		return err
	}
	limit := o.Limit
	if at, ok := ctx.Deadline(); ok && (limit <= 0 || time.Until(at) < limit) {
		limit = max(time.Until(at)*9/10, time.Millisecond) // so that the answer comes before ctx ends
	}
	if limit <= 0 {
		_, err := t.ask(ctx, tx, t.calls().waitXact)
		return t.explain(err)
	}
	return t.within(ctx, tx, limit)
}

// TryAcquireTx is AcquireTx, and does not wait: the error is a *lock.LockedError if the
// lock is another's. The transaction goes on then.
func (l *Locker) TryAcquireTx(ctx context.Context, tx pgx.Tx, key lock.Key, o TxOptions) error {
	t, err := l.inTx(ctx, key, o)
	if err != nil {
		return err
	}
	if t.heldHere() {
		return t.locked()
	}
	got, err := t.ask(ctx, tx, t.calls().tryXact)
	switch {
	case err != nil:
		return t.explain(err)
	case !got:
		return t.locked()
	}
	return nil
}

// inTx is an attempt that has no session.
type inTx struct {
	*attempt
	any bool
}

func (l *Locker) inTx(ctx context.Context, key lock.Key, o TxOptions) (*inTx, error) {
	n, err := l.number(key)
	if err != nil {
		return nil, err
	}
	t := &inTx{&attempt{locker: l, key: key, number: n, mode: exclusive, begun: time.Now()}, o.AnyIsolation}
	if o.Shared {
		t.mode = shared
	}
	if ctx.Err() != nil {
		return nil, t.wrap(endOf(ctx))
	}
	if err := t.reentrant(ctx); err != nil {
		return nil, err
	}
	err = l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return t.enter(ctx, func(ctx context.Context, sql string, args []any, into ...any) error {
			return conn.QueryRow(ctx, sql, args...).Scan(into...)
		})
	})
	if err != nil {
		return nil, t.wrap(err)
	}
	return t, nil
}

func (t *inTx) calls() *calls { return t.mode.calls(t.number) }

// ask asks for the lock in the transaction, after a look at it, in one statement. It is
// not prepared, as a pooler may have no place for that.
func (t *inTx) ask(ctx context.Context, tx pgx.Tx, question string) (got bool, err error) {
	isolation := "current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')"
	if t.any {
		isolation = "true"
	}
	here := fmt.Sprintf("(SELECT (s.system, s.database) = ('%s', %d::oid) FROM (SELECT %s) s (system, database))",
		t.locker.server.id.system, t.locker.server.id.database, identityColumns)
	var sameServer, fits bool
	var answer *bool
	err = tx.QueryRow(ctx, "SELECT here, fits, CASE WHEN here AND fits THEN "+question+" END FROM (SELECT "+here+", "+isolation+") look (here, fits)",
		append([]any{pgx.QueryExecModeExec}, t.number.args()...)...).Scan(&sameServer, &fits, &answer)
	switch {
	case err != nil:
		return false, err
	case !sameServer:
		return false, fmt.Errorf("the transaction is of another database: %w", errors.ErrUnsupported)
	case !fits:
		return false, fmt.Errorf("the transaction is above READ COMMITTED, and sees what was there before the lock: %w", errors.ErrUnsupported)
	}
	return *answer, nil
}

// within waits with a limit, in a savepoint, to which the transaction goes back if it is
// over.
func (t *inTx) within(ctx context.Context, tx pgx.Tx, limit time.Duration) error {
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return t.explain(err)
	}
	var before string
	ms := max(1, limit.Milliseconds())
	err = savepoint.QueryRow(ctx, "SELECT before FROM (SELECT pg_catalog.current_setting('lock_timeout') AS before OFFSET 0) s "+
		"WHERE pg_catalog.set_config('lock_timeout', $1, true) IS NOT NULL", pgx.QueryExecModeExec, fmt.Sprint(ms)).Scan(&before)
	if err == nil {
		_, err = t.ask(ctx, savepoint, t.calls().waitXact)
	}
	if err == nil {
		_, err = savepoint.Exec(ctx, "SELECT pg_catalog.set_config('lock_timeout', $1, true)", pgx.QueryExecModeExec, before)
	}
	if err == nil {
		return t.explain(savepoint.Commit(ctx))
	}
	return errors.Join(t.explain(err), savepoint.Rollback(context.WithoutCancel(ctx)))
}

func (t *inTx) explain(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "55P03" {
		locked := t.locked()
		locked.Waited, locked.Cause = time.Since(t.begun), deadline(context.DeadlineExceeded)
		return locked
	}
	if err == nil {
		return nil
	}
	return t.attempt.explain(context.Background(), err)
}
