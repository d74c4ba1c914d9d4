package pg

import (
	"context"
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

// query runs a query for one row, which ctx can end at any time without ending the
// connection: by the server's own means, and only if that does not answer by closing
// it. before, if it is not nil, is called first then. When query returns, no request to
// cancel is under way any more, which might meet a later query.
func (s *session) query(ctx context.Context, before func(), sql string, args []any, into ...any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ctx.Done() == nil {
		return s.conn.QueryRow(ctx, sql, args...).Scan(into...)
	}
	conn := s.conn.PgConn()
	answered, asked := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(asked)
		if before != nil {
			before()
		}
		endQuery(conn, answered, s.patience())
	})
	err := s.conn.QueryRow(context.Background(), sql, args...).Scan(into...)
	close(answered)
	if !stop() {
		<-asked
	}
	return err
}

// patience is cancelPatience; where there are locks to lose, as long as a silence may
// last.
func (s *session) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.holds) > 0 {
		return s.trusted()
	}
	return cancelPatience
}

// endQuery asks the server to end a query, and closes the connection if it doesn't.
func endQuery(conn *pgconn.PgConn, answered <-chan struct{}, patience time.Duration) {
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
