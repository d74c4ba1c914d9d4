package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// cancelPatience is how long the server may take to end a query that it is asked to
// cancel, if no lock is held by its session; it is asked again after cancelAgain, and then
// more and more rarely.
const (
	cancelPatience = 2 * time.Second
	cancelAgain    = 10 * time.Millisecond
)

// query runs a query for one row. ctx and endQuery can end it at any time without ending the
// connection, by the server's own means; only if the server does not answer is that closed.
// before, if not nil, is called first if it was ctx. When query returns, no request to cancel
// is under way any more: it might meet a later query. The error matches that given to
// endQuery.
func (s *session) query(ctx context.Context, before func(), sql string, args []any, into ...any) error {
	err := ctx.Err()
	switch {
	case err != nil:
	case ctx.Done() == nil:
		err = s.conn.QueryRow(ctx, sql, args...).Scan(into...)
	default:
		asked := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(asked)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.endQuery(nil, before)
		})
		err = s.conn.QueryRow(context.Background(), sql, args...).Scan(into...)
		if !stop() {
			<-asked
		}
	}
	s.mu.Lock()
	e := s.ending
	s.ending, s.waiting = nil, false
	s.mu.Unlock()
	if e != nil {
		close(e.answered)
		<-e.over
		if err != nil && ctx.Err() == nil {
			err = errors.Join(e.why, err)
		}
	}
	return err
}

// ending is the end of a query before its time.
type ending struct {
	why      error         // nil if the caller of query has given up
	answered chan struct{} // closed when the query has an answer
	over     chan struct{} // closed when no request to cancel is under way any more
}

// endQuery ends the query that is under way, or is about to be. The caller has locked s.
func (s *session) endQuery(why error, before func()) {
	if s.ending != nil {
		return
	}
	e := &ending{why, make(chan struct{}), make(chan struct{})}
	s.ending = e
	go func() {
		defer close(e.over)
		if before != nil {
			before()
		}
		cancelQuery(s.conn.PgConn(), e.answered, s.patience())
	}()
}

// patience is cancelPatience, or, where there are locks to lose, as long as a silence may last.
func (s *session) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.holds) > 0 {
		return s.locker.trusted()
	}
	return cancelPatience
}

// cancelQuery asks the server to end a query, and closes the connection if it doesn't.
func cancelQuery(conn *pgconn.PgConn, answered <-chan struct{}, patience time.Duration) {
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for again := cancelAgain; ; again *= 2 {
		select {
		case <-answered:
			return
		default:
		}
		// One that has been sent, and not been heard of, may meet a later query.
		if conn.CancelRequest(limited) != nil || limited.Err() != nil {
			break
		}
		select {
		case <-answered:
			return
		case <-limited.Done():
		case <-time.After(again): // it may have come before the query did
		}
	}
	_ = conn.Conn().Close()
}
