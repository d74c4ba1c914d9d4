package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// pool has the sessions of a Locker: those that lie idle, and places for the others.
type pool struct {
	locker *Locker
	config *config
	// places has room for each connection that there may be. To put one in is to have it.
	places chan struct{}

	mu   sync.Mutex // guards what follows
	idle []*session // the last in is the first out
	reap *time.Timer
	over bool
	made int
	// making is how many connections are on their way, for waiters, or ones that have gone.
	making  int
	waiters []chan made
}

// idleFor is how long a session lies idle; with a lease, not so long that it ends.
const idleFor = time.Minute

// pingAfter is how long a session may have lain idle to be used without a ping.
const pingAfter = time.Second

// get returns a session, with its turn. The caller has a place.
func (p *pool) get(ctx context.Context) (*session, error) {
	for {
		p.mu.Lock()
		if len(p.idle) == 0 {
			p.mu.Unlock()
			break
		}
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		p.mu.Unlock()
		if time.Since(s.heard) < pingAfter || p.answers(ctx, s) {
			s.mu.Lock()
			s.taken, s.reused, s.users = true, true, 1
			s.mu.Unlock()
			return s, nil
		}
		closeSocket(s.conn)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return p.connected(ctx)
}

// connected returns a new session. A caller that gives up does not break off a connection
// that has begun: the next one needs it as much.
func (p *pool) connected(ctx context.Context) (*session, error) {
	came := make(chan made, 1)
	p.mu.Lock()
	p.waiters = append(p.waiters, came)
	if p.making < len(p.waiters) {
		p.making++
		go p.makeOne(context.WithoutCancel(ctx))
	} else {
		<-p.places // the waiter that this connection was for has left its place
	}
	p.mu.Unlock()
	select {
	case m := <-came:
		return m.session, m.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiters, came); i >= 0 {
		p.waiters = slices.Delete(p.waiters, i, i+1)
		return nil, errGone
	}
	m := <-came
	return m.session, m.err
}

// made is what came of connecting.
type made struct {
	session *session
	err     error
}

// makeOne connects, for the first waiter, or for the pool.
func (p *pool) makeOne(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, 2*p.config.conn.ConnectTimeout)
	defer cancel()
	s, err := p.make(limited)
	p.mu.Lock()
	p.making--
	if len(p.waiters) > 0 {
		p.waiters[0] <- made{s, err}
		p.waiters = p.waiters[1:]
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if err != nil {
		<-p.places
		return
	}
	s.give()
	s.leave(1)
}

// errGone says that a waiter gave up. Its place now belongs to makeOne.
var errGone = errors.New("gave up while connecting")

func (p *pool) answers(ctx context.Context, s *session) bool {
	limited, cancel := context.WithTimeout(ctx, p.locker.silence/3)
	defer cancel()
	return s.conn.Ping(limited) == nil
}

// make connects, and looks whether that leads where it should.
func (p *pool) make(ctx context.Context) (*session, error) {
	conn, err := p.config.connect(ctx, true, true)
	if err != nil {
		return nil, refused(err)
	}
	s := &session{
		locker: p.locker, conn: conn, pid: conn.PgConn().PID(), heard: time.Now(),
		holds: map[*Hold]struct{}{}, taken: true, users: 1,
	}
	if s.started, err = p.locker.server.prepare(ctx, conn); err != nil {
		closeSocket(conn)
		return nil, err
	}
	p.mu.Lock()
	p.made++
	p.mu.Unlock()
	return s, nil
}

// put takes a session back, and its place.
func (p *pool) put(s *session, good bool) {
	p.mu.Lock()
	if good && !p.over {
		p.idle = append(p.idle, s)
		if p.reap == nil {
			p.reap = time.AfterFunc(p.idleFor(), p.reapIdle)
		}
		good = false
	}
	p.mu.Unlock()
	if good {
		s.end()
	} // else it lies idle, or is lost: its socket is closed, and its watcher may be at work
	<-p.places
}

// end closes the connection, and says so if the server can be told.
func (s *session) end() {
	limited, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(limited)
}

func (p *pool) idleFor() time.Duration {
	if lease := p.locker.options.Lease; lease > 0 {
		return min(idleFor, lease/3)
	}
	return idleFor
}

// reapIdle closes the sessions that have lain idle for too long.
func (p *pool) reapIdle() {
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && time.Since(p.idle[n].heard) >= p.idleFor() {
		n++
	}
	old := p.idle[:n:n]
	p.idle = slices.Clone(p.idle[n:])
	p.reap = nil
	if len(p.idle) > 0 {
		p.reap = time.AfterFunc(p.idleFor(), p.reapIdle)
	}
	p.mu.Unlock()
	for _, s := range old {
		s.end()
	}
}

// close waits until all places are free.
func (p *pool) close() {
	p.mu.Lock()
	p.over = true
	old := p.idle
	p.idle = nil
	if p.reap != nil {
		p.reap.Stop()
	}
	p.mu.Unlock()
	for _, s := range old {
		s.end()
	}
	for range cap(p.places) {
		p.places <- struct{}{}
	}
}

// noConnection says why there is no connection.
func (p *pool) noConnection(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("pg: waiting for one of %d connections: %w", cap(p.places), endOf(ctx))
	}
	return fmt.Errorf("pg: %w", err)
}

// endOf says why a context has ended, with its cause.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == err {
		cause = nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = deadline(err)
	}
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
