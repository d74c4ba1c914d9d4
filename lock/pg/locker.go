package pg

import (
	"context"
	"errors"
	"fmt"
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
	// Pool is a pool whose configuration is used instead, with its BeforeConnect and
	// its size. Its connections are not used: those of the locks are their own.
	Pool *pgxpool.Pool
	// Schema has the tables: "holdfast" if it is empty. All programs that share locks must
	// name the same one.
	Schema string
	// Cmd says what the holder is doing: evidence.Claim.Cmd, and the application_name of the
	// sessions where the configuration has none.
	Cmd string
	// Lease, if set, is how long the server keeps the lock of a holder that it has
	// not heard of: a second or more.
	Lease time.Duration
	// MaxLocks is how many locks are held and waited for at a time, at most; 0 means a
	// quarter of what the server has room for.
	MaxLocks int
	// Observe is told what becomes of the locks.
	Observe func(lock.Event)
}

// Locker is the locks of one database. Its methods may be called by several
// goroutines at once.
type Locker struct {
	options Options
	host    string
	server  server
	pool    *pool
	keeper  *keeper
	lines   lines
	names   names
	// budget has a place for each lock that is held or asked for.
	budget chan struct{}
	// asks has a place for each session that may wait, of those that are no outer hold's.
	asks chan struct{}
	// silence is how long it takes at most to notice that the server can't be heard.
	silence time.Duration
	// patience bounds a release.
	patience time.Duration

	hash func(lock.Key) int64
	// failing, in tests, makes a question for a lock fail when it is granted.
	failing func(sql string) string
	// cleaned, in tests, hears whether a failed call had been granted the lock.
	cleaned func(had bool)

	closing sync.Once
	closed  chan struct{}
}

var _ lock.Locker = (*Locker)(nil)

const (
	minLease = time.Second
	// minConns: one to wait, and one to try.
	minConns = 2
	// defaultConns suits an application that serves with ten connections of its own.
	defaultConns = 25
	// defaultSilence: see Locker.silence.
	defaultSilence = 10 * time.Second
)

// Open connects to the database, and looks whether the server itself answers, is PostgreSQL
// 14 or later and no standby, and whether the role has the rights that locks need. If not,
// the error says what is missing, with the statement that cures it, and nothing has been
// changed. Then Open makes the schema, with three tables, if there is none (see Schema).
//
// The error matches ErrPooler and ErrServer for a server that won't do, and
// lock.ErrInvalidName for a lease of less than a second, and a pool of less than two
// connections.
func Open(ctx context.Context, o Options) (*Locker, error) {
	if o.Lease != 0 && o.Lease < minLease {
		return nil, fmt.Errorf("pg: %w: a lease of %v; at least %v", lock.ErrInvalidName, o.Lease, minLease)
	}
	if o.Schema == "" {
		o.Schema = defaultSchema
	}
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("pg: %w", err)
	}
	if config.most < minConns {
		return nil, fmt.Errorf("pg: %w: a pool of %d connections; at least %d", lock.ErrInvalidName, config.most, minConns)
	}
	server, err := config.look(ctx, o.Schema)
	if err != nil {
		return nil, fmt.Errorf("pg: open: %w", err)
	}
	if o.MaxLocks <= 0 {
		o.MaxLocks = server.locks / 4
	}
	host, _ := os.Hostname()
	l := &Locker{
		options: o, host: host, server: server, hash: hash, silence: defaultSilence, patience: releasePatience, closed: make(chan struct{}),
		budget: make(chan struct{}, o.MaxLocks), asks: make(chan struct{}, config.most-max(1, config.most/5)),
	}
	l.pool = &pool{locker: l, config: config, places: make(chan struct{}, config.most)}
	l.keeper = &keeper{locker: l, turn: make(chan struct{}, 1), asking: map[*session]asking{}}
	l.names.init(o.Schema)
	if err := l.keeper.connect(ctx); err != nil {
		l.Close()
		return nil, fmt.Errorf("pg: open: %w", err)
	}
	return l, nil
}

// period is the time within which a session's holder has to be heard, or to hear.
func (l *Locker) period() time.Duration {
	if l.options.Lease > 0 {
		return l.options.Lease
	}
	return l.silence
}

// trusted is how long after a sign of life a lock is counted on. That is less than the server
// waits, so the holder knows of the loss before another one has the lock.
func (l *Locker) trusted() time.Duration { return l.period() / 10 * 9 }

// Close waits for holds to be released, and closes the connections. Waiters, and later
// callers, get an error.
func (l *Locker) Close() {
	l.closing.Do(func() {
		close(l.closed)
		l.keeper.breakOff(errClosed)
		l.pool.close()
		l.keeper.close()
	})
}

var errClosed = errors.New("the Locker is closed")

// asked is the question for a lock, as it is sent.
func (l *Locker) asked(sql string) string {
	if l.failing != nil {
		return l.failing(sql)
	}
	return sql
}

// observe tells Observe, if there is one, what becomes of a lock.
func (l *Locker) observe(key lock.Key, e lock.Event) {
	if l.options.Observe != nil {
		e.Path, e.Cmd = key.String(), l.options.Cmd
		l.options.Observe(e)
	}
}
