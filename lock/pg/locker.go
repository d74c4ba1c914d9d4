package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options say which database, and how. The zero value goes by the environment
// (PGHOST and so on).
type Options struct {
	// Conn is a connection string, as pgxpool.ParseConfig reads it.
	Conn string
	// Pool is used instead, if it is set: it should be for locks alone, and is not
	// closed.
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
	// general has a place for each connection that those without a hold may have.
	general chan struct{}
	hash    func(lock.Key) int64

	mu     sync.Mutex // guards spaces
	spaces map[string]int32
}

var _ lock.Locker = (*Locker)(nil)

// Sizes of the pool that Open makes. Source: seed advisory-locking.
const (
	generalConns = 15
	reserveConns = 10
)

const minLease = time.Second

// Open connects to the database, and makes the two tables and the sequence that it
// needs there if they are missing (see Schema).
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
	reserve := most * reserveConns / (generalConns + reserveConns)
	host, _ := os.Hostname()
	l := &Locker{
		options: o, pool: pool, host: host, hash: hash,
		database: fmt.Sprintf("%s:%d/%s", config.ConnConfig.Host, config.ConnConfig.Port, config.ConnConfig.Database),
		general:  make(chan struct{}, most-reserve),
		spaces:   map[string]int32{},
	}
	if err := l.makeSchema(ctx); err != nil {
		l.Close()
		return nil, fmt.Errorf("pg: %w", err)
	}
	return l, nil
}

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
	return pgxpool.NewWithConfig(ctx, config)
}

// Close closes the pool that Open made, and waits for holds to be released.
func (l *Locker) Close() {
	if l.options.Pool == nil {
		l.pool.Close()
	}
}

// connect returns a connection for a lock, and how to give back its place. Those who
// bring a hold, and those who only try, have a reserve: they must not wait behind
// those who wait for locks.
func (l *Locker) connect(ctx context.Context, try bool) (conn *pgxpool.Conn, leave func(), err error) {
	leave = func() {}
	if !try && lock.Carried(ctx, l) == nil {
		select {
		case l.general <- struct{}{}:
			leave = func() { <-l.general }
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
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("pg: %w: waiting for one of %d connections: %w", lock.ErrTimeout, l.pool.Config().MaxConns, ctx.Err())
	case ctx.Err() != nil:
		return fmt.Errorf("pg: waiting for a connection: %w", ctx.Err())
	}
	return fmt.Errorf("pg: %w", err)
}
