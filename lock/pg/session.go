package pg

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// session is one connection to the server, with the locks that it has there: one that was
// acquired under no hold, and those acquired under it.
type session struct {
	locker  *Locker
	conn    *pgx.Conn
	pid     uint32
	started time.Time // by the server; so a later session with its pid is not ended
	reused  bool      // has lain in the pool

	// heard is when the last question that was answered was sent. It belongs to the one that
	// has the turn, and else to the watcher; so does what follows.
	heard   time.Time
	limited *time.Timer // see limit

	mu       sync.Mutex    // guards what follows
	freed    time.Time     // when the turn was last given back
	armed    bool          // a watcher is about to be started
	watching chan struct{} // closed when the watcher has ended; nil if there is none
	stopping bool          // the watcher is to end
	reading  bool          // the watcher does not wait for an answer
	// taken says that somebody has the turn: the right to use the connection.
	taken bool
	// wanted is how many wait in take. Nobody joins before them.
	wanted int
	// waiting says that the one that has the turn waits for a lock, or is about to.
	waiting bool
	ending  *ending       // of the query that is under way; nil if it may go on
	changed chan struct{} // closed when something here changes; nil if nobody waits for that
	holds   map[*Hold]struct{}
	users   int   // acquisitions that are at work on it
	silent  bool  // the keeper has closed the connection
	lost    error // why it can't be used any more
}

func (s *session) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent
}

func (s *session) whyLost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// change wakes all that wait for a change of s. The caller has locked s.
func (s *session) change() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// toChange returns what they wait for. The caller has locked s.
func (s *session) toChange() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// join is for an acquisition under one of the session's holds. It gives the turn, or
// says what to wait for. It also says whether the acquisition may as well go elsewhere,
// because the session waits for another lock, or has this one (the server would grant it
// twice). If the hold is over, there is nothing to wait for.
func (s *session) join(ctx context.Context, outer *Hold, n number) (joined bool, changed <-chan struct{}, elsewhere bool) {
	s.mu.Lock()
	_, there := s.holds[outer]
	if !there || s.lost != nil {
		s.mu.Unlock()
		return false, nil, true
	}
	conflict := false
	for h := range s.holds {
		conflict = conflict || h.number == n
	}
	if s.taken || s.wanted > 0 || conflict {
		defer s.mu.Unlock()
		return false, s.toChange(), conflict || s.waiting
	}
	s.taken = true
	s.users++
	s.mu.Unlock()
	if s.stopWatch(ctx) != nil {
		s.leave(1)
		return false, nil, false // ctx has ended
	}
	return true, nil, false
}

// take waits for the turn until then at most. If the one that has it waits for a lock, take
// ends that wait. The error is ctx's, or why the session is lost.
func (s *session) take(ctx context.Context, until time.Time) error {
	s.mu.Lock()
	if s.lost == nil && !s.taken && s.watching == nil {
		defer s.mu.Unlock()
		s.taken = true
		return nil
	}
	s.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	s.want(1)
	defer s.want(-1)
	for {
		s.mu.Lock()
		if s.lost != nil {
			defer s.mu.Unlock()
			return s.lost
		}
		if !s.taken {
			s.taken = true
			s.mu.Unlock()
			return s.stopWatch(ctx)
		}
		if s.waiting {
			s.endQuery(errBrokenOff, nil)
		}
		changed := s.toChange()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *session) want(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted += n
	s.change()
}

// give gives the turn back.
func (s *session) give() {
	s.mu.Lock()
	s.taken = false
	s.change()
	if len(s.holds) > 0 && s.lost == nil {
		s.freed = time.Now()
		s.arm(watchAfter)
	}
	s.mu.Unlock()
}

// waits says that the next query of the caller, which has the turn, waits for a lock. To
// release a lock, or close the Locker, that query may be ended.
func (s *session) waits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = true
	s.change()
}

// breakOff ends the wait for a lock, if there is one.
func (s *session) breakOff(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting {
		s.endQuery(why, nil)
	}
}

// add makes h a hold of s.
func (s *session) add(h *Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[h] = struct{}{}
}

// remove undoes add. It returns false if the hold was lost.
func (s *session) remove(h *Hold) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.holds[h]
	delete(s.holds, h)
	s.change()
	return there
}

// leave is for acquisitions and releases that end: the last one gives the session back.
func (s *session) leave(users int) {
	s.mu.Lock()
	s.users -= users
	over := s.users == 0 && len(s.holds) == 0 && !s.taken
	if over {
		s.users = -1 // so that this is done once
	}
	lost := s.lost
	s.mu.Unlock()
	if over {
		s.locker.pool.put(s, lost == nil)
	}
}

// lose ends the session, for this reason, and tells all its holds. Before this Locker asks for
// one of these locks again, the keeper ends the session on the server.
func (s *session) lose(why error, asked ...number) {
	s.mu.Lock()
	if s.lost != nil {
		s.mu.Unlock()
		return
	}
	s.lost = why
	var holds []*Hold
	for h := range s.holds {
		holds = append(holds, h)
		asked = append(asked, h.number)
	}
	clear(s.holds)
	s.change()
	s.mu.Unlock()

	l := s.locker
	ended := l.lines.ghost(asked)
	closeSocket(s.conn)
	for _, h := range holds {
		h.lose(why)
	}
	go func() {
		defer ended()
		l.keeper.end(s.pid, s.started)
	}()
	s.leave(0)
}

// closeSocket ends a connection without a word, which might not go out.
func closeSocket(conn *pgx.Conn) { _ = conn.PgConn().Conn().Close() }

// unlock gives a lock back, and reports whether the session had it. If ctx ends, or the
// time is over, before the answer, the connection is closed, which frees the lock, too.
func (s *session) unlock(ctx context.Context, until time.Time, n number, m *mode) (had bool, err error) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { closeSocket(s.conn) })()
	}
	sent := time.Now()
	s.limit(until.Sub(sent))
	err = s.conn.QueryRow(context.Background(), m.calls(n).free, n.args()...).Scan(&had)
	switch inTime := s.limited.Stop(); {
	case err == nil:
		s.heard = sent
	case !inTime:
		err = errors.Join(context.DeadlineExceeded, err)
	default:
		err = errors.Join(ctx.Err(), err)
	}
	return had, err
}

// limit has the connection closed after a time, unless limited is stopped before.
func (s *session) limit(after time.Duration) {
	if s.limited == nil {
		s.limited = time.AfterFunc(after, func() { closeSocket(s.conn) })
		return
	}
	s.limited.Reset(after)
}
