package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Acquire takes the lock, waiting in the server's queue for as long as ctx allows.
//
// When ctx ends while it waits nothing is held, and the error is an *lock.ErrLocked
// that names the session in the way and matches lock.ErrTimeout and
// context.DeadlineExceeded, or context.Canceled. ErrDeadlock, and whatever else goes
// wrong, end the wait at once.
func (l *Locker) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, exclusive, false)
}

// TryAcquire takes the lock if nobody has it, or waits for it.
func (l *Locker) TryAcquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, exclusive, true)
}

// AcquireShared is Acquire for a lock that any number of readers can have together,
// and none beside an exclusive holder. A shared lock has no fence.
func (l *Locker) AcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, shared, false)
}

// TryAcquireShared is TryAcquire for a shared lock.
func (l *Locker) TryAcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, shared, true)
}

// mode is how a lock is had: what its functions on the server are called.
type mode struct {
	name                string // LockInfo.Mode
	lock, tryLock, free string
}

var (
	exclusive = mode{"", "pg_advisory_lock", "pg_try_advisory_lock", "pg_advisory_unlock"}
	shared    = mode{"shared", "pg_advisory_lock_shared", "pg_try_advisory_lock_shared", "pg_advisory_unlock_shared"}
)

// attempt is one acquisition, on a connection of its own. It belongs to one
// goroutine.
type attempt struct {
	locker *Locker
	key    lock.Key
	number number
	mode   mode
	conn   *pgxpool.Conn
	leave  func() // gives back the connection's place
	begun  time.Time
	waited bool
}

func (l *Locker) acquire(ctx context.Context, key lock.Key, m mode, try bool) (lock.Hold, error) {
	n, err := l.number(key)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("pg: acquire %s: %w", key, endOf(ctx))
	}
	if hold, ok := engine.HoldOf(ctx, identity{l.database, n}).(lock.Hold); ok {
		info := hold.Info()
		return nil, &lock.ErrLocked{Path: key.String(), Info: &info, State: lock.StateHeld, Evidence: lock.EvidenceSameProcess, Cause: lock.ErrReentrant}
	}
	a := &attempt{locker: l, key: key, number: n, mode: m, begun: time.Now()}
	for tries := l.conns; ; tries-- {
		if a.conn, a.leave, err = l.connect(ctx, try); err != nil {
			return nil, err
		}
		held, err := a.run(ctx, try)
		if err == nil && ctx.Err() == nil {
			return held, nil
		}
		if err == nil { // cancel beats acquire
			return nil, errors.Join(fmt.Errorf("pg: acquire %s: %w", key, endOf(ctx)), held.Release())
		}
		// A connection that lay in the pool may be one of a server that is gone.
		if !errors.Is(err, errStale) || tries == 0 {
			return nil, err
		}
	}
}

// endOf says why a context has ended, and by what.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		cause = nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", lock.ErrTimeout, err)
	}
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// errStale says that a connection was dead before anything was asked of it.
var errStale = errors.New("stale connection")

// run tries, and then waits. On failure nothing is held, and the connection has been
// given back, or destroyed.
func (a *attempt) run(ctx context.Context, try bool) (*Hold, error) {
	if err := a.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			a.giveBack() // it will be prepared the next time
		} else {
			a.destroy()
		}
		return nil, err
	}
	got, fence, err := a.call(ctx, "SELECT "+a.mode.tryLock+a.params()+" AS got")
	if err == nil && !got && !try {
		a.beginWait(ctx)
		got, fence, err = a.call(ctx, "SELECT true AS got, "+a.mode.lock+a.params())
	}
	switch {
	case err == nil && got:
		return a.hold(ctx, fence)
	case err == nil:
		locked := a.locked(ctx)
		a.giveBack()
		return nil, locked
	}
	return nil, a.failed(ctx, err)
}

func (a *attempt) beginWait(ctx context.Context) {
	a.waited = true
	if a.locker.options.Observer != nil {
		locked := a.locked(ctx)
		a.locker.observe(lock.Event{Kind: lock.EventWaiting, Path: a.key.String(), Info: locked.Info, Evidence: locked.Evidence})
	}
}

// params are the placeholders of number.args.
func (a *attempt) params() string {
	if a.number.numeric {
		return "($1::integer, $2::integer)"
	}
	return "($1::bigint)"
}

// call asks for the lock, and in the same round trip for a fence and for the name
// that the number is known to have. The lock's function comes first, as the rest is
// computed from the row that it yields.
func (a *attempt) call(ctx context.Context, lockCall string) (got bool, fence int64, err error) {
	query := "WITH granted AS MATERIALIZED (" + lockCall + ") SELECT got, pg_backend_pid(), " +
		"CASE WHEN got THEN nextval('holdfast_fence') ELSE 0 END, "
	if a.number.numeric {
		query += "NULL::text, NULL::text FROM granted"
	} else {
		query += "n.space, n.name FROM granted LEFT JOIN holdfast_names n ON n.key = $1"
	}
	var pid uint32
	var space, name *string
	err = a.query(ctx, query, a.number.args(), &got, &pid, &fence, &space, &name)
	switch {
	case err != nil:
		return false, 0, err
	case pid != a.conn.Conn().PgConn().PID():
		return false, 0, ErrPooler
	case !a.number.numeric && space == nil && got:
		err = a.enter(ctx)
	case !a.number.numeric && space != nil && (*space != a.key.Space || *name != a.key.Name):
		err = fmt.Errorf("%w: %s, and %s/%s", ErrCollision, a.key, *space, *name)
	}
	return got, fence, err
}

// enter makes the name of a lock known, at its first use ever.
func (a *attempt) enter(ctx context.Context) error {
	var space, name string
	err := a.query(ctx, `WITH new AS (INSERT INTO holdfast_names SELECT $1, $2, $3
			WHERE NOT EXISTS (SELECT FROM holdfast_spaces WHERE name = $2) ON CONFLICT DO NOTHING RETURNING space, name)
		SELECT space, name FROM new UNION ALL SELECT space, name FROM holdfast_names WHERE key = $1 LIMIT 1`,
		[]any{a.number.hash, a.key.Space, a.key.Name}, &space, &name)
	if errors.Is(err, pgx.ErrNoRows) {
		// Somebody entered it since our query began: now it can be seen.
		err = a.query(ctx, `SELECT space, name FROM holdfast_names WHERE key = $1`, []any{a.number.hash}, &space, &name)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		// Others go by its numbers: this lock would exclude none of them.
		return fmt.Errorf("%w: %q is registered as numeric, but not with this Locker", ErrSpaceClash, a.key.Space)
	}
	if err == nil && (space != a.key.Space || name != a.key.Name) {
		err = fmt.Errorf("%w: %s, and %s/%s", ErrCollision, a.key, space, name)
	}
	return err
}

// failed cleans up after a call that failed, and returns what to say. The lock may
// have been granted all the same, between the server's decision and its hearing of
// the cancel (PostgreSQL bug 17686): so it is given back, granted or not; and if that
// can't be done, with its session.
func (a *attempt) failed(ctx context.Context, err error) error {
	stale := a.conn.Conn().IsClosed() && ctx.Err() == nil && !a.waited
	// As many times as it takes to hear an answer: a request to cancel, late, may
	// have met this.
	had, uerr := a.unlock()
	if uerr != nil {
		had, uerr = a.unlock()
	}
	if uerr == nil && errors.Is(err, ErrPooler) {
		uerr = err // whose session answered nobody knows
	}
	if uerr != nil {
		a.destroy()
	}
	if a.locker.cleaned != nil {
		a.locker.cleaned(had)
	}
	if stale {
		return errors.Join(errStale, err)
	}
	explained := a.explain(ctx, err)
	if uerr == nil {
		a.giveBack()
	}
	return explained
}

// explain turns the error of a call into ours.
func (a *attempt) explain(ctx context.Context, err error) error {
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &pgErr) && pgErr.Code == "40P01":
		return fmt.Errorf("pg: acquire %s: %w: %w", a.key, ErrDeadlock, err)
	case ctx.Err() == nil, errors.Is(err, ErrCollision), errors.Is(err, ErrSpaceClash), errors.Is(err, ErrPooler):
		return fmt.Errorf("pg: acquire %s: %w", a.key, err)
	case !a.waited: // nobody is known to be in the way
		return fmt.Errorf("pg: acquire %s: %w", a.key, endOf(ctx))
	}
	locked := a.locked(context.Background())
	locked.Waited = time.Since(a.begun)
	locked.Cause = endOf(ctx)
	return locked
}

func (a *attempt) giveBack() {
	a.conn.Release()
	a.leave()
	a.conn = nil
}

// destroy ends the session, and with it whatever locks it may have. The pool makes
// a new one when it needs to.
func (a *attempt) destroy() {
	if a.conn == nil {
		return
	}
	limited, cancel := context.WithTimeout(context.Background(), cancelPatience)
	defer cancel()
	_ = a.conn.Hijack().Close(limited)
	a.leave()
	a.conn = nil
}

func (l *Locker) observe(e lock.Event) {
	if l.options.Observer != nil {
		e.Cmd = l.options.Cmd
		l.options.Observer.Observe(e)
	}
}
