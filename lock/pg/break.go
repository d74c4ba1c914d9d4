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

// Session is a session of the server that has a lock.
type Session struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Cmd     string    `json:"cmd,omitempty"`      // its application_name
	Host    string    `json:"hostname,omitempty"` // its client's
	// Locks is how many advisory locks it has in this database, all of which end with it.
	Locks int `json:"locks"`
}

// Holders returns the sessions that have a lock: one, or readers. A lock of a prepared
// transaction is nobody's.
func (l *Locker) Holders(ctx context.Context, key lock.Key) (all []Session, err error) {
	n, err := l.number(key)
	if err != nil {
		return nil, err
	}
	err = l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `WITH locks AS MATERIALIZED (SELECT pid, classid::bigint, objid::bigint, objsubid FROM pg_locks
				WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
			SELECT a.pid, a.backend_start, coalesce(a.application_name, ''), coalesce(a.client_hostname, host(a.client_addr), ''),
				(SELECT count(*) FROM locks other WHERE other.pid = a.pid)
			FROM locks l JOIN pg_stat_activity a USING (pid) WHERE classid = $1 AND objid = $2 AND objsubid = $3 ORDER BY a.pid`, n.inLocks()...)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Session, err error) {
			var started *time.Time
			if err = row.Scan(&s.PID, &started, &s.Cmd, &s.Host, &s.Locks); started != nil {
				s.Started = *started
			}
			return s, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pg: holders of %s: %w", key, err)
	}
	return all, nil
}

// ErrGone is returned by EndSession for a session that is not there any more.
var ErrGone = errors.New("the session is not there any more")

// EndSession ends a session that Holders has returned, with all that it holds, and returns
// when it is gone. A later session with its pid is left alone: that is ErrGone.
func (l *Locker) EndSession(ctx context.Context, s Session) error {
	started := &s.Started
	if s.Started.IsZero() { // not ours to see
		started = nil
	}
	err := l.keeper.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var ended bool
		err := conn.QueryRow(ctx, `SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity
			WHERE pid = $1 AND backend_start IS NOT DISTINCT FROM $2`, s.PID, started).Scan(&ended)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrGone
		case err == nil && !ended:
			return errors.New("the server has been told, and it goes on; it may be stopped")
		}
		return err
	})
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42501" {
		err = fmt.Errorf("%w; to be allowed: GRANT pg_signal_backend TO %s", err, quote(l.server.role))
	}
	if err != nil {
		return fmt.Errorf("pg: end session %d: %w", s.PID, err)
	}
	return nil
}
