package pg

import (
	"context"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// config is how to connect.
type config struct {
	conn   *pgx.ConnConfig
	before func(context.Context, *pgx.ConnConfig) error // a pool's BeforeConnect
	lease  time.Duration
	most   int // connections that locks may have
}

func (o Options) config() (*config, error) {
	c := &config{lease: o.Lease, most: defaultConns}
	if o.Pool != nil {
		pool := o.Pool.Config()
		c.conn, c.before, c.most = pool.ConnConfig, pool.BeforeConnect, int(pool.MaxConns)
	} else {
		pool, err := pgxpool.ParseConfig(o.Conn)
		if err != nil {
			return nil, err
		}
		c.conn = pool.ConnConfig
		if strings.Contains(o.Conn, "pool_max_conns") {
			c.most = int(pool.MaxConns)
		}
		// A network that is cut says nothing: ask.
		c.conn.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
		}}).DialContext
	}
	if c.conn.RuntimeParams["application_name"] == "" {
		c.conn.RuntimeParams["application_name"] = "holdfast"
		if o.Cmd != "" {
			c.conn.RuntimeParams["application_name"] = o.Cmd
		}
	}
	if c.conn.ConnectTimeout == 0 || c.conn.ConnectTimeout > defaultSilence {
		c.conn.ConnectTimeout = defaultSilence
	}
	return c, nil
}

// settings are those of every session of ours. They come with the connection, so they
// are there before the first lock is, and nothing that is sent can undo them. They beat
// the defaults of a role or a database: those could end waits and holds, or keep our
// tables out of reach. The server is to miss a client that is cut off as soon as that
// misses the server, also while an answer of its own is under way (tcp_user_timeout) and
// while the client waits for a lock (client_connection_check_interval). A fence that was
// given out must not be given again after a crash (synchronous_commit).
var settings = map[string]string{
	"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
	"tcp_user_timeout": "10s", "client_connection_check_interval": "2s",
	"statement_timeout": "0", "lock_timeout": "0", "idle_session_timeout": "0",
	"idle_in_transaction_session_timeout": "0", "default_transaction_read_only": "off",
	"default_transaction_isolation": "read committed", "synchronous_commit": "on",
	"search_path": "pg_catalog",
}

// connect makes a connection, with our settings if ours is true. leased says that the
// session, while idle, is to end when the server does not hear of it for the lease. One that
// waits is not idle.
func (c *config) connect(ctx context.Context, ours, leased bool) (*pgx.Conn, error) {
	conn := c.conn.Copy()
	if c.before != nil {
		if err := c.before(ctx, conn); err != nil {
			return nil, err
		}
	}
	if ours {
		maps.Copy(conn.RuntimeParams, settings)
	}
	if leased && c.lease > 0 {
		conn.RuntimeParams["idle_session_timeout"] = strconv.FormatInt(c.lease.Milliseconds(), 10)
	}
	return pgx.ConnectConfig(ctx, conn)
}
