package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/jackc/pgx/v5/pgconn"
)

// noticeAfter is how long an answer may take until it is called a wait.
const noticeAfter = 5 * time.Millisecond

// ask asks for the lock, and returns false if it is another's and may not be waited for.
// Either is one statement.
func (a *attempt) ask(ctx context.Context) (granted bool, err error) {
	s, l := a.session, a.locker
	var got bool
	if !a.try && !a.nested && !a.mayWait {
		select {
		case l.asks <- struct{}{}:
			a.mayWait = true
		default: // so a try must do: connections are left for later callers
		}
	}
	calls := a.mode.calls(a.number)
	if a.try || !a.nested && !a.mayWait {
		a.begin()
		err = s.query(ctx, nil, l.asked(calls.try), a.number.args(), &got)
		if err == nil {
			s.heard = a.sent
		}
		return got, err
	}
	if a.place != nil {
		a.place.asks(s)
	}
	s.waits()
	a.begin()
	select {
	case <-l.closed:
		s.breakOff(errClosed)
	default: // a later Close finds this wait
	}
	announced, sql := a.announce(), calls.wait
	if l.options.Observe != nil { // it is to be told of a wait, however short
		sql = calls.tryWait
	}
	err = s.query(ctx, func() { a.look(context.WithoutCancel(ctx), s) }, // while there is still something to see
		l.asked(sql), a.number.args(), &got)
	announced(err == nil && !got)
	if err != nil {
		return false, err
	}
	return true, a.grantHeard()
}

// grantHeard notes the grant as a sign of life, as of the question, which is long ago after a
// wait. Then, with a lease, the server is asked once more.
func (a *attempt) grantHeard() error {
	s := a.session
	if a.locker.options.Lease == 0 || since(a.sent) < a.locker.period()/3 {
		s.heard = a.sent
		return nil
	}
	s.heard = time.Now()
	return s.beat()
}

// tell tells Observe of the wait, once.
func (a *attempt) tell() {
	if a.locker.options.Observe == nil || a.told {
		return
	}
	a.told = true
	locked := a.locked()
	a.locker.observe(a.key, lock.Event{Kind: lock.EventWaiting, Status: lock.Status{Info: locked.Info, Evidence: locked.Evidence}})
}

// announce tells Observe of a wait, once it lasts, and which session is in the way. The
// caller must call end at the wait's end.
func (a *attempt) announce() (end func(waited bool)) {
	if a.locker.options.Observe == nil || a.told {
		return func(bool) {}
	}
	over := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(noticeAfter, func() {
		defer close(over)
		for again := noticeAfter; ctx.Err() == nil; again = min(2*again, time.Second) {
			if a.look(ctx, a.session); a.found() != nil {
				a.tell()
				return
			}
			select { // our own question may not have come to the server yet
			case <-time.After(again):
			case <-ctx.Done():
			}
		}
	})
	return func(waited bool) {
		cancel()
		if !timer.Stop() {
			<-over
		}
		if waited {
			a.tell()
		}
	}
}

// failed cleans up after a question that failed, and returns the error. The lock may have
// been granted all the same, before the server has heard of the cancel (PostgreSQL bug
// 17686). So it is given back, granted or not; if that fails, its session ends.
func (a *attempt) failed(ctx context.Context, err error) error {
	s := a.session
	stale := s.conn.IsClosed() && s.reused && !a.nested && ctx.Err() == nil && time.Since(a.sent) < pingAfter
	// As many times as it takes to hear an answer: a late request to cancel may have met
	// this.
	until := time.Now().Add(a.locker.silence / 2)
	had, uerr := s.unlock(context.Background(), until, a.number, a.mode)
	if uerr != nil && !s.conn.IsClosed() {
		had, uerr = s.unlock(context.Background(), until, a.number, a.mode)
	}
	if a.locker.cleaned != nil {
		a.locker.cleaned(had)
	}
	if uerr != nil {
		if s.isSilent() {
			err = errors.Join(errSilent, err)
		}
		s.lose(err, a.number)
		if stale {
			return errors.Join(errStale, err)
		}
	}
	if errors.Is(err, errBrokenOff) && uerr != nil {
		return a.wrap(errors.Join(s.whyLost(), uerr))
	}
	return a.explain(ctx, err)
}

// explain turns the error of a question into ours.
func (a *attempt) explain(ctx context.Context, err error) error {
	var pgErr *pgconn.PgError
	code := ""
	if errors.As(err, &pgErr) {
		code = pgErr.Code
	}
	switch {
	case code == "40P01":
		return a.wrap(fmt.Errorf("%w: %w", ErrDeadlock, err))
	case code == "53200":
		return a.wrap(fmt.Errorf("%w: %w", a.locker.tooMany(), err))
	case errors.Is(err, errBrokenOff), ctx.Err() == nil, errors.Is(err, ErrCollision), errors.Is(err, ErrSpaceClash):
		return a.wrap(err)
	case a.found() != nil || time.Since(a.sent) >= noticeAfter:
		return a.gaveUp(ctx)
	}
	return a.wrap(endOf(ctx)) // nobody is known to be in the way
}

// overBudget says that a Locker has all the locks that it may have. A server that itself has
// no room refuses new connections, and other programs' work, too.
func (l *Locker) overBudget() error {
	return fmt.Errorf("%w: this Locker has %d, as many as Options.MaxLocks allows, or a quarter of what the server has room for; %s",
		ErrTooManyLocks, cap(l.budget), l.moreRoom())
}

func (l *Locker) tooMany() error {
	return fmt.Errorf("%w: the server has room for no more, for this and all other programs; %s", ErrTooManyLocks, l.moreRoom())
}

func (l *Locker) moreRoom() string {
	return fmt.Sprintf("to have more: ALTER SYSTEM SET max_locks_per_transaction = %d (it is %d; room for %d locks), and a restart of the server",
		4*l.server.locksPer, l.server.locksPer, l.server.locks)
}
