package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// server is what a look at the server has told.
type server struct {
	id      identity
	version int // as server_version_num
	role    string
	// locks is for how many locks the server has room, all programs' together. The setting
	// counts them for each session.
	locks, locksPer int
}

// identity tells one database from all others, by whatever name it was reached.
type identity struct {
	system   string // of the cluster, the same in a replica
	database uint32 // its oid
}

const minVersion = 14

// look asks, and changes nothing but what makes the schema where it is missing: what is
// at the other end may be a pooler's session that others use.
func (c *config) look(ctx context.Context, schema string) (s server, err error) {
	conn, err := c.connect(ctx, false, false)
	if err != nil {
		return s, refused(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// Not prepared: a pooler may have no place for that.
	var pid uint32
	var standby, readOnly bool
	err = conn.QueryRow(ctx, `SELECT pg_catalog.pg_backend_pid(), current_setting('server_version_num')::integer,
		pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, current_user::text,
		current_setting('max_locks_per_transaction')::integer, current_setting('max_locks_per_transaction')::integer
			* (current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer)`,
		pgx.QueryExecModeSimpleProtocol).Scan(&pid, &s.version, &standby, &readOnly, &s.role, &s.locksPer, &s.locks)
	switch {
	case err != nil:
		return s, err
	case pid != conn.PgConn().PID():
		return s, ErrPooler
	case s.version < minVersion*10000:
		return s, fmt.Errorf("%w: it is PostgreSQL %d; locks need %d", ErrServer, s.version/10000, minVersion)
	case standby:
		return s, fmt.Errorf("%w: it is a standby, whose locks nobody else sees; connect to the primary (target_session_attrs=read-write)", ErrServer)
	}
	if readOnly { // by default, which ours are not
		if _, err := conn.Exec(ctx, "SET default_transaction_read_only = off"); err != nil {
			return s, err
		}
	}
	if err = conn.QueryRow(ctx, "SELECT "+identityColumns).Scan(&s.id.system, &s.id.database); err != nil {
		return s, err
	}
	return s, makeSchema(ctx, conn, schema, s.role)
}

const identityColumns = `(SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
	(SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())`

// refused explains why there is no connection.
func refused(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "08P01" && strings.Contains(pgErr.Message, "unsupported startup parameter") {
		return fmt.Errorf("%w: %w", ErrPooler, err) // as pgbouncer says it
	}
	return err
}

// prepare makes sure that a new connection leads where the first one did: one host name may
// stand for several servers, and a lock in one is none in the other. It returns since when
// the session is there.
func (s server) prepare(ctx context.Context, conn *pgx.Conn) (started time.Time, err error) {
	var pid uint32
	var standby bool
	var id identity
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid(), (SELECT backend_start FROM pg_stat_get_activity(pg_backend_pid())),
		pg_is_in_recovery(), `+identityColumns, pgx.QueryExecModeExec).Scan(&pid, &started, &standby, &id.system, &id.database)
	switch {
	case err != nil:
		return started, err
	case pid != conn.PgConn().PID():
		return started, ErrPooler
	case standby:
		return started, fmt.Errorf("%w: it is a standby by now", ErrServer)
	case id != s.id:
		return started, fmt.Errorf("%w: it is another one by now", ErrServer)
	}
	if s.version >= 170000 { // older ones don't know it
		_, err = conn.Exec(ctx, "SET transaction_timeout = 0")
	}
	return started, err
}
