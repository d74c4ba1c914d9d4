package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// cancelPatience is how long the server may take to end a query that it is asked to
// cancel; it is asked again after cancelAgain, and then more and more rarely.
const (
	cancelPatience = 2 * time.Second
	cancelAgain    = 10 * time.Millisecond
)

// query runs a query for one row, which ctx can end at any time without ending the
// connection: by the server's own means, and only if that does not answer by closing
// it. When query returns, no request to cancel is under way any more, which might
// meet a later query.
func (a *attempt) query(ctx context.Context, sql string, args []any, into ...any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ctx.Done() == nil {
		return a.conn.QueryRow(ctx, sql, args...).Scan(into...)
	}
	conn := a.conn.Conn().PgConn()
	answered, asked := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(asked)
		endQuery(conn, answered)
	})
	err := a.conn.QueryRow(context.Background(), sql, args...).Scan(into...)
	close(answered)
	if !stop() {
		<-asked
	}
	return err
}

// endQuery asks the server to end a query, and closes the connection if it doesn't.
func endQuery(conn *pgconn.PgConn, answered <-chan struct{}) {
	limited, cancel := context.WithTimeout(context.Background(), cancelPatience)
	defer cancel()
	for again := cancelAgain; ; again *= 2 {
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

// prepareSQL undoes what a role or a database has by way of defaults that would end
// waits and holds, or put our tables out of reach. The server is to miss a client that
// is cut off as soon as that misses the server. A fence that was given out must not be
// given again after a crash. Settings that an old server doesn't know are left out.
const prepareSQL = `SELECT pg_backend_pid(), count(set_config(name, value, false)) FROM (VALUES
	('lock_timeout', '0'), ('statement_timeout', '0'), ('transaction_timeout', '0'), ('idle_session_timeout', '0'),
	('default_transaction_read_only', 'off'), ('default_transaction_isolation', 'read committed'),
	('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
	('synchronous_commit', 'on')) AS wanted (name, value)
	WHERE current_setting(name, true) IS NOT NULL AND (name <> 'synchronous_commit' OR current_setting(name) = 'off')`

// prepare makes a session fit for locks, and looks whether it is the server's own:
// once for each connection.
func (a *attempt) prepare(ctx context.Context) error {
	conn := a.conn.Conn().PgConn()
	const prepared = "holdfast: prepared"
	if conn.CustomData()[prepared] != nil {
		return nil
	}
	var pid, set uint32
	if err := a.query(ctx, prepareSQL, nil, &pid, &set); err != nil {
		if conn.IsClosed() && ctx.Err() == nil {
			return errors.Join(errStale, err)
		}
		return a.explain(ctx, err)
	}
	if pid != conn.PID() {
		return fmt.Errorf("pg: %w", ErrPooler)
	}
	conn.CustomData()[prepared] = true
	return nil
}
