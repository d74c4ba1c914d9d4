package pg

import (
	"context"
	"errors"
	"net"
	"time"
)

// watchAfter is how long a session goes unwatched after its last use: most holds are
// over sooner.
const watchAfter = 50 * time.Millisecond

// arm has a watcher started later. The caller has locked s.
func (s *session) arm(after time.Duration) {
	if !s.armed {
		s.armed = true
		time.AfterFunc(after, s.startWatch)
	}
}

// startWatch begins to watch the connection, unless it is in use, or was until just now, or
// has no holds.
func (s *session) startWatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	if s.taken || len(s.holds) == 0 || s.lost != nil || s.watching != nil {
		return
	}
	if quiet := time.Since(s.freed); quiet < watchAfter {
		s.arm(watchAfter - quiet)
		return
	}
	watching := make(chan struct{})
	s.watching, s.stopping = watching, false
	go func() {
		defer close(watching)
		if err := s.watch(); err != nil {
			s.lose(err)
		}
	}()
}

// stopWatch gives the connection to the caller, which has the turn. While the watcher waits
// for an answer of the server's, so does the caller. If ctx ends before, it gives the turn
// back.
func (s *session) stopWatch(ctx context.Context) error {
	s.mu.Lock()
	watching := s.watching
	if watching != nil {
		s.stopping = true
		if s.reading {
			_ = s.socket().SetReadDeadline(time.Unix(1, 0))
		}
	}
	s.mu.Unlock()
	if watching == nil {
		return nil
	}
	select {
	case <-watching:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watching == nil { // it has just ended
		return nil
	}
	s.stopping, s.taken = false, false
	s.change()
	return ctx.Err()
}

func (s *session) socket() net.Conn { return s.conn.PgConn().Conn() }

// readUntil has a read end then, or, with no time, lets the watcher ask. It returns false if
// the watcher is to end.
func (s *session) readUntil(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = !t.IsZero() && !s.stopping
	if s.stopping {
		s.watching, t = nil, time.Time{}
	}
	_ = s.socket().SetReadDeadline(t)
	return !s.stopping
}

// watch returns nil when it was stopped, or the reason when the session is lost. The server
// says nothing to a session that asks nothing, until it ends it; a network that is cut
// says nothing at all. So it is asked three times in each period.
func (s *session) watch() error {
	for s.readUntil(time.Now().Add(s.locker.period()/3 - since(s.heard))) {
		err := s.conn.PgConn().WaitForNotification(context.Background())
		var timeout net.Error
		switch {
		case err == nil: // somebody has sent one, but not to us
		case s.conn.IsClosed() || !errors.As(err, &timeout) || !timeout.Timeout():
			return err
		case !s.readUntil(time.Time{}): // time to ask, or to end
			return nil
		default:
			if err := s.beat(); err != nil {
				return err
			}
		}
	}
	return nil
}

// beat asks the server whether it is there, and tells it that we are. With a lease, the
// answer must come within nine tenths of it, from the last sign of life: the server counts
// from that, too. Without a lease, a holder that was stopped for long has lost nothing yet.
func (s *session) beat() error {
	sent := time.Now()
	left := s.locker.trusted() - since(s.heard)
	switch {
	case s.locker.options.Lease == 0:
		left = max(left, s.locker.period()/3)
	case left <= 0:
		return errSilent
	}
	s.limit(left)
	_, err := s.conn.Exec(context.Background(), "SELECT "+s.sinceNote())
	switch {
	case !s.limited.Stop():
		return errSilent
	case err != nil:
		return err
	}
	s.heard = sent
	return nil
}

// since goes by both clocks: one that stands still while the machine sleeps proves nothing.
func since(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}
