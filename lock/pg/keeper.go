package pg

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// keeper is the Locker's own session, which never waits for a lock. It looks after sessions
// that wait, as those can't be asked for a sign of life themselves, and ends those that don't
// answer. It also asks about locks when all other connections are taken.
type keeper struct {
	locker *Locker
	turn   chan struct{} // to put something in is to have the right to use conn
	conn   *pgx.Conn     // nil, or closed, after a failure

	mu      sync.Mutex // guards what follows
	asking  map[*session]asking
	looking bool
	over    bool
	timer   *time.Timer
}

// asking is an unanswered question for a lock.
type asking struct {
	sent  time.Time
	heard time.Time // when the last look that found it waiting was sent
	// idle says that the last look found it not waiting any more: its answer is under way, or
	// will never come.
	idle bool
}

// connect makes the keeper's session. The caller has the turn, or is the first.
func (k *keeper) connect(ctx context.Context) error {
	conn, err := k.locker.pool.config.connect(ctx, true, false)
	if err != nil {
		return refused(err)
	}
	if _, err := k.locker.server.prepare(ctx, conn); err != nil {
		closeSocket(conn)
		return err
	}
	k.conn = conn
	return nil
}

// ask calls fn with the keeper's session, which fn may use until ctx ends. An old session may
// be one of a server that is gone: then ask connects and calls fn once more.
func (k *keeper) ask(ctx context.Context, fn func(ctx context.Context, conn *pgx.Conn) error) error {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	over := k.over
	k.mu.Unlock()
	if over {
		return errClosed
	}
	if k.conn != nil && !k.conn.IsClosed() {
		err := fn(ctx, k.conn)
		if !k.conn.IsClosed() || ctx.Err() != nil {
			return err
		}
	}
	if err := k.connect(ctx); err != nil {
		return err
	}
	return fn(ctx, k.conn)
}

// close ends the session. Nobody asks any more.
func (k *keeper) close() {
	k.mu.Lock()
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	if k.conn != nil {
		limited, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = k.conn.Close(limited)
	}
}

// begin has the keeper look after a session that asks for a lock, until done.
func (k *keeper) begin(s *session, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asking[s] = asking{sent: now, heard: now}
	k.lookLater()
}

func (k *keeper) done(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.asking, s)
}

// breakOff ends all waits.
func (k *keeper) breakOff(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for s := range k.asking {
		s.breakOff(why)
	}
}

// lookLater looks in a third of a period, as long as there is something to look after.
// The caller has k.mu.
func (k *keeper) lookLater() {
	if !k.looking && !k.over && len(k.asking) > 0 {
		k.looking = true
		k.timer = time.AfterFunc(k.locker.period()/3, k.look)
	}
}

// look looks after sessions that have asked for some time.
func (k *keeper) look() {
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.looking = false
		k.lookLater()
	}()
	period := k.locker.period()
	var sessions []*session
	var pids []int32
	k.mu.Lock()
	for s, a := range k.asking {
		if since(a.sent) >= period/3 {
			sessions, pids = append(sessions, s), append(pids, int32(s.pid))
		}
	}
	k.mu.Unlock()
	if len(sessions) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(context.Background(), period/3)
	defer cancel()
	var sent time.Time
	waits := map[sessionID]bool{}
	err := k.ask(limited, func(ctx context.Context, conn *pgx.Conn) error {
		sent = time.Now()
		rows, err := conn.Query(ctx, `SELECT pid, backend_start, coalesce(wait_event_type = 'Lock', false)
			FROM pg_stat_activity WHERE pid = ANY($1)`, pids)
		if err != nil {
			return err
		}
		var id sessionID
		var waiting bool
		_, err = pgx.ForEachRow(rows, []any{&id.pid, &id.started, &waiting}, func() error {
			waits[id.utc()] = waiting
			return nil
		})
		return err
	})
	for _, s := range sessions {
		waiting, there := waits[sessionID{s.pid, s.started}.utc()]
		if k.judge(s, err == nil, there, waiting, sent) {
			s.mu.Lock()
			s.silent = true
			s.mu.Unlock()
			closeSocket(s.conn) // the acquisition that asks sees to its end
		}
	}
}

// sessionID tells one session from another that has its pid later.
type sessionID struct {
	pid     uint32
	started time.Time
}

func (id sessionID) utc() sessionID { return sessionID{id.pid, id.started.UTC().Round(0)} }

// judge reports whether to give up a session that has asked: it is not there any more, it
// does not wait and has twice not answered, or nothing could be learned of it in a period.
func (k *keeper) judge(s *session, seen, there, waiting bool, sent time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, asks := k.asking[s]
	switch {
	case !asks || seen && a.sent.After(sent): // answered since
		return false
	case !seen:
		return since(a.heard) >= k.locker.trusted()
	case waiting:
		a.heard, a.idle = sent, false
		k.asking[s] = a
		return false
	case !there || a.idle:
		return true
	}
	a.idle = true
	k.asking[s] = a
	return false
}

// end ends a session that was given up. Else it would keep its locks, or get another, for as
// long as the server believes in it. It returns when the session has ended, when ending it
// was not allowed, or when that took too long.
func (k *keeper) end(pid uint32, started time.Time) {
	for begun, wait := time.Now(), 10*time.Millisecond; ; wait *= 2 {
		limited, cancel := context.WithTimeout(context.Background(), k.locker.silence/3)
		err := k.ask(limited, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid, 500) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2`,
				int32(pid), started)
			return err
		})
		cancel()
		// The server itself will notice, at last: see settings.
		if err == nil || errors.Is(err, errClosed) || time.Since(begun) > 2*k.locker.silence {
			return
		}
		time.Sleep(min(wait, time.Second))
	}
}

// blocker returns the session in the way of one that waits, without a look at all locks: a
// holder, if there is one; nil if there is nothing in the way.
func (k *keeper) blocker(ctx context.Context, pid uint32) (w *who, err error) {
	err = k.ask(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var found who
		err := conn.QueryRow(ctx, `SELECT a.pid, coalesce(a.application_name, ''), coalesce(a.client_hostname, host(a.client_addr), ''),
			a.state_change, coalesce(a.query, '') FROM unnest(pg_blocking_pids($1)) WITH ORDINALITY b (blocker, at)
			JOIN pg_stat_activity a ON a.pid = blocker ORDER BY coalesce(wait_event_type = 'Lock', false), at LIMIT 1`, int32(pid)).
			Scan(&found.pid, &found.cmd, &found.host, &found.since, &found.query)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err == nil:
			w = &found
		}
		return err
	})
	return w, err
}
