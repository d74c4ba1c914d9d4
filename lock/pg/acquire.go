package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// Acquire acquires the lock, waiting in the queues of this process and of the server for as
// long as ctx allows.
//
// When ctx ends while it waits, nothing is held. The error is then a *lock.LockedError, names
// the session in the way as far as that is known, and matches lock.ErrTimeout and
// context.DeadlineExceeded, or context.Canceled. ErrDeadlock, ErrTooManyLocks, and any other
// failure, end the wait at once.
func (l *Locker) Acquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, exclusive, false)
}

// TryAcquire acquires the lock if nobody has it or waits for it. Else the *lock.LockedError
// names the holder if that is in this process. For others ask Inspect: to find them, the
// server has to look at all locks there are.
func (l *Locker) TryAcquire(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, exclusive, true)
}

// AcquireShared is Acquire for a shared lock: any number of readers have it together,
// and none beside an exclusive holder. A shared lock has no fence.
func (l *Locker) AcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, shared, false)
}

// TryAcquireShared is TryAcquire for a shared lock.
func (l *Locker) TryAcquireShared(ctx context.Context, key lock.Key) (lock.Hold, error) {
	return l.acquire(ctx, key, shared, true)
}

// attempt is one acquisition. It belongs to one goroutine.
type attempt struct {
	locker *Locker
	key    lock.Key
	number number
	mode   *mode
	try    bool
	begun  time.Time

	place   *place   // in the line of this process; nil if it has none
	first   bool     // in that line
	mayWait bool     // has a place in Locker.asks
	mustAsk bool     // needs one, as the lock was another's
	session *session // whose turn it has, while it has one
	nested  bool     // the session is an outer hold's
	sent    time.Time

	told bool // Observe has been told that it waits

	mu       sync.Mutex // guards inTheWay, for a wait's end and its announcement
	inTheWay *who       // as the last look found; nil if it has found nobody
}

func (a *attempt) found() *who {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inTheWay
}

func (l *Locker) acquire(ctx context.Context, key lock.Key, m *mode, try bool) (lock.Hold, error) {
	n, err := l.number(key)
	if err != nil {
		return nil, err
	}
	a := &attempt{locker: l, key: key, number: n, mode: m, try: try, begun: time.Now()}
	if ctx.Err() != nil {
		return nil, a.wrap(endOf(ctx))
	}
	if err := a.reentrant(ctx); err != nil {
		return nil, err
	}
	select {
	case l.budget <- struct{}{}:
	default:
		return nil, a.wrap(l.overBudget())
	}
	held, err := a.run(ctx)
	a.leaveQueues()
	if err != nil {
		<-l.budget
		return nil, err
	}
	if ctx.Err() != nil { // cancel beats acquire
		return nil, errors.Join(a.wrap(endOf(ctx)), held.Release())
	}
	return held, nil
}

// reentrant is an error if the caller's own context has the lock.
func (a *attempt) reentrant(ctx context.Context) error {
	hold, ok := engine.HoldOf(ctx, lockID{a.locker.server.id, a.number}).(lock.Hold)
	if !ok {
		return nil
	}
	info := hold.Info()
	return &lock.LockedError{Status: lock.Status{Key: a.key, Path: a.key.String(), Info: &info, State: evidence.Held, Evidence: evidence.SameProcess}, Cause: lock.ErrReentrant}
}

// run tries until it has an answer: a connection from the pool may lead to a server that is
// gone, and a wait may be broken off to release the outer hold.
func (a *attempt) run(ctx context.Context) (*Hold, error) {
	for stale := 0; ; {
		if err := a.find(ctx); err != nil {
			return nil, err
		}
		held, err := a.use(ctx)
		switch {
		case errors.Is(err, errStale) && stale < cap(a.locker.pool.places):
			stale++
		case errors.Is(err, errBrokenOff), errors.Is(err, errElsewhere):
		default:
			return held, err
		}
	}
}

// find gets a session, with its turn: that of the hold that ctx carries. So nested holds need
// no further connection, and the server sees when they wait for each other. If there is none,
// or it is at work, find gets a session of its own, when it is the turn of this goroutine in
// the line of this process.
func (a *attempt) find(ctx context.Context) error {
	l := a.locker
	if gone := l.lines.haunted(a.number); gone != nil {
		limit := time.NewTimer(ghostPatience)
		defer limit.Stop()
		select {
		case <-gone:
		case <-limit.C:
		case <-ctx.Done():
		}
	}
	for {
		var changed <-chan struct{}
		elsewhere := true
		if outer, ok := engine.HoldOf(ctx, l).(*Hold); ok {
			var joined bool
			if joined, changed, elsewhere = outer.session.join(ctx, outer, a.number); joined {
				a.session, a.nested = outer.session, true
				a.leaveQueues()
				return nil
			}
		}
		var first <-chan struct{}
		var asks, places chan struct{}
		if elsewhere && !a.try && a.place == nil {
			a.place, a.first = l.lines.enter(a.number)
		}
		switch {
		case !elsewhere:
		case !a.try && !a.first:
			first = a.place.first
			a.tell()
		case a.mustAsk && !a.mayWait:
			asks = l.asks
		default:
			places = l.pool.places
		}
		select {
		case <-changed:
		case <-first:
			a.first = true
		case asks <- struct{}{}:
			a.mayWait = true
		case places <- struct{}{}:
			s, err := l.pool.get(ctx)
			if err != nil {
				if !errors.Is(err, errGone) {
					<-places
				}
				return a.noSession(ctx, err)
			}
			a.session, a.nested = s, false
			return nil
		case <-ctx.Done():
			if a.place != nil && !a.first {
				_, asking := l.lines.inTheWay(a.number)
				a.look(context.WithoutCancel(ctx), asking)
				return a.gaveUp(ctx)
			}
			return a.noSession(ctx, ctx.Err())
		case <-l.closed:
			return a.wrap(errClosed)
		}
	}
}

// noSession says why there is no session. If this process has the lock, that is known without
// one.
func (a *attempt) noSession(ctx context.Context, err error) error {
	if ctx.Err() != nil && a.heldHere() {
		return a.gaveUp(ctx)
	}
	return a.locker.pool.noConnection(ctx, err)
}

// heldHere reports whether this process has the lock, in a way that excludes us.
func (a *attempt) heldHere() bool {
	h, _ := a.locker.lines.inTheWay(a.number)
	return h != nil && (h.mode == exclusive || a.mode == exclusive)
}

// leaveQueues gives up the places in queues. The caller has the lock, does not want it any
// more, or needs no place.
func (a *attempt) leaveQueues() {
	if a.place != nil {
		a.place.leave()
		a.place, a.first = nil, false
	}
	if a.mayWait {
		<-a.locker.asks
		a.mayWait = false
	}
}

// use asks for the lock with the session that was found. On failure nothing is held.
func (a *attempt) use(ctx context.Context) (*Hold, error) {
	s := a.session
	defer func() {
		s.give()
		s.leave(1)
	}()
	defer a.locker.keeper.done(s)
	err := a.enter(ctx, func(ctx context.Context, sql string, args []any, into ...any) error {
		a.begin()
		return s.query(ctx, nil, sql, args, into...)
	})
	if err != nil {
		if ctx.Err() != nil && !s.conn.IsClosed() {
			return nil, a.wrap(endOf(ctx))
		}
		return nil, a.failed(ctx, err)
	}
	granted, err := a.ask(ctx)
	switch {
	case err != nil:
		return nil, a.failed(ctx, err)
	case granted:
		return a.hold(), nil
	case a.try:
		return nil, a.locked()
	}
	a.mustAsk = true
	return nil, errElsewhere
}

// begin has the keeper look after a question that is about to be sent.
func (a *attempt) begin() {
	a.sent = time.Now()
	a.locker.keeper.begin(a.session, a.sent)
}

func (a *attempt) wrap(err error) error { return fmt.Errorf("pg: acquire %s: %w", a.key, err) }
