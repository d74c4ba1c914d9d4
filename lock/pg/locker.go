package pg

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options say which database, and how. The zero value goes by the environment
// (PGHOST and so on).
type Options struct {
	// Conn is a connection string, as pgxpool.ParseConfig reads it.
	Conn string
	// Pool is used instead, if it is set: it should be for locks alone, as settings
	// of its sessions are changed, and is not closed.
	Pool *pgxpool.Pool
	// Cmd says what the holder is doing: LockInfo.Cmd, and the application_name of
	// the sessions of a pool that Open makes.
	Cmd string
	// Lease, if set, is how long the server keeps the lock of a holder that it has
	// not heard of: a second or more. Needs PostgreSQL 14.
	Lease time.Duration
	// Observer is told what becomes of the locks.
	Observer lock.Observer
}

// Locker is the locks of one database. Its methods may be called by several
// goroutines at once.
type Locker struct {
	options Options
	pool    *pgxpool.Pool
	host    string
	// database is what tells this database from others, for reentrancy.
	database string
	conns    int // of the pool, at most
	// general has a place for each connection that those without a hold may have, and
	// tries for each further one that they may try with.
	general, tries chan struct{}

	hash           func(lock.Key) int64
	unlockPatience time.Duration
	// cleaned, in tests, hears whether a failed call had been granted the lock.
	cleaned func(had bool)

	mu     sync.Mutex // guards spaces
	spaces map[string]int32
}

var _ lock.SharedLocker = (*Locker)(nil)

// Sizes of the pool that Open makes.
const (
	generalConns = 15
	reserveConns = 10
)

const minLease = time.Second

// minConns: one to have a lock or to wait for one, one to try, and one to have a second
// lock under the first.
const minConns = 3

// Open connects to the database, and makes the two tables and the sequence that it
// needs there if they are missing (see Schema). The error matches lock.ErrInvalidName
// for a lease of less than a second, and a pool of less than three connections.
func Open(ctx context.Context, o Options) (*Locker, error) {
	if o.Lease != 0 && o.Lease < minLease {
		return nil, fmt.Errorf("pg: %w: a lease of %v; at least %v", lock.ErrInvalidName, o.Lease, minLease)
	}
	pool := o.Pool
	if pool == nil {
		var err error
		if pool, err = o.makePool(ctx); err != nil {
			return nil, fmt.Errorf("pg: %w", err)
		}
	}
	config := pool.Config()
	most := int(config.MaxConns)
	reserve := max(minConns-1, most*reserveConns/(generalConns+reserveConns))
	host, _ := os.Hostname()
	l := &Locker{
		options: o, pool: pool, host: host, hash: hash, conns: most, unlockPatience: defaultUnlockPatience,
		database: fmt.Sprintf("%s:%d/%s", config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.Database),
		spaces:   map[string]int32{},
	}
	if most < minConns {
		l.Close()
		return nil, fmt.Errorf("pg: %w: a pool of %d connections; at least %d", lock.ErrInvalidName, most, minConns)
	}
	l.general, l.tries = make(chan struct{}, most-reserve), make(chan struct{}, reserve/2)
	if err := l.makeSchema(ctx); err != nil {
		l.Close()
		return nil, fmt.Errorf("pg: %w", err)
	}
	return l, nil
}

// pingPatience bounds the pool's own look whether a connection still works.
const pingPatience = 5 * time.Second

func (o Options) makePool(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(o.Conn)
	if err != nil {
		return nil, err
	}
	if !setsPoolSize(o.Conn) {
		config.MaxConns = generalConns + reserveConns
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "holdfast"
		if o.Cmd != "" {
			config.ConnConfig.RuntimeParams["application_name"] = o.Cmd
		}
	}
	// A network that is cut says nothing: ask.
	config.ConnConfig.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	}}).DialContext
	config.PingTimeout = pingPatience
	return pgxpool.NewWithConfig(ctx, config)
}

// Close closes the pool that Open made, and waits for holds to be released.
func (l *Locker) Close() {
	if l.options.Pool == nil {
		l.pool.Close()
	}
}

// connect returns a connection for a lock, and how to give back its place. Those who
// bring a hold, and those who only try, have a reserve each: they must not wait behind
// those who wait for locks. Whoever tries may succeed, and keep the connection for
// long, so there are some that tries don't get.
func (l *Locker) connect(ctx context.Context, try bool) (conn *pgxpool.Conn, leave func(), err error) {
	leave = func() {}
	if engine.HoldOf(ctx, l) == nil {
		var tries chan struct{} // nil has no place
		if try {
			tries = l.tries
		}
		select {
		case l.general <- struct{}{}:
			leave = func() { <-l.general }
		case tries <- struct{}{}:
			leave = func() { <-tries }
		case <-ctx.Done():
			return nil, nil, l.noConnection(ctx, ctx.Err())
		}
	}
	if conn, err = l.pool.Acquire(ctx); err != nil {
		leave()
		return nil, nil, l.noConnection(ctx, err)
	}
	return conn, leave, nil
}

func (l *Locker) noConnection(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("pg: waiting for one of %d connections: %w", l.conns, endOf(ctx))
	}
	return fmt.Errorf("pg: %w", err)
}
