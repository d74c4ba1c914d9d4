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
// One statement tries first, and then waits: so it can tell that it has waited.
func (a *attempt) ask(ctx context.Context) (granted bool, err error) {
	s, l := a.session, a.locker
	var answer int
	if !a.try && !a.nested && !a.mayWait {
		select {
		case l.asks <- struct{}{}:
			a.mayWait = true
		default: // so a try must do: connections are left for those who come after us
		}
	}
	params := a.number.params()
	if a.try || !a.nested && !a.mayWait {
		a.begin()
		err = s.query(ctx, nil, "SELECT CASE WHEN "+a.mode.tryLock+params+" THEN "+l.granted+" ELSE 0 END", a.number.args(), &answer)
		if err == nil {
			s.heard = a.sent
		}
		return answer != 0, err
	}
	if a.place != nil {
		a.place.asks(s)
	}
	wait, breakOff := context.WithCancelCause(ctx)
	defer breakOff(nil)
	s.waits(breakOff)
	select {
	case <-l.closed:
		breakOff(errClosed)
	default:
	}
	announced := a.announce()
	a.begin()
	err = s.query(wait, func() {
		if ctx.Err() != nil { // while there is still something to see
			a.look(context.WithoutCancel(ctx), s)
		}
	}, "SELECT CASE WHEN "+a.mode.tryLock+params+" THEN "+l.granted+" WHEN "+a.mode.lock+params+"::text = '' THEN 2 END",
		a.number.args(), &answer)
	s.waits(nil)
	a.waited = a.waited || answer == 2
	announced(answer == 2)
	switch {
	case err != nil && ctx.Err() == nil && wait.Err() != nil: // broken off
		return false, errors.Join(context.Cause(wait), err)
	case err != nil:
		return false, err
	}
	return true, a.grantHeard()
}

// grantHeard notes when the grant was a sign of life: from its sending, which is long ago
// if it was waited for. Then, with a lease, the server is asked once more.
func (a *attempt) grantHeard() error {
	s := a.session
	if since(a.sent) < a.locker.period()/3 || a.locker.options.Lease == 0 {
		s.heard = a.sent
		return nil
	}
	s.heard = time.Now()
	return s.beat()
}

// tellInLine tells an Observer, once, of a wait that begins in this process's line.
func (a *attempt) tellInLine() {
	if a.locker.options.Observer == nil || a.told {
		return
	}
	a.told = true
	locked := a.locked()
	a.locker.observe(lock.Event{Kind: lock.EventWaiting, Path: a.key.String(), Info: locked.Info, Evidence: locked.Evidence})
}

// announce tells an Observer of a wait, once it lasts, and who is in the way. What it
// returns must be called at its end.
func (a *attempt) announce() (end func(waited bool)) {
	if a.locker.options.Observer == nil || a.told {
		return func(bool) {}
	}
	told, over := false, make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	tell := func() {
		told = true
		locked := a.locked()
		a.locker.observe(lock.Event{Kind: lock.EventWaiting, Path: a.key.String(), Info: locked.Info, Evidence: locked.Evidence})
	}
	timer := time.AfterFunc(noticeAfter, func() {
		defer close(over)
		if a.look(ctx, a.session); len(a.found()) > 0 {
			tell()
		}
	})
	return func(waited bool) {
		cancel()
		if !timer.Stop() {
			<-over
		}
		if waited && !told {
			tell()
		}
	}
}

// failed cleans up after a question that failed, and returns what to say. The lock may
// have been granted all the same, between the server's decision and its hearing of
// the cancel (PostgreSQL bug 17686): so it is given back, granted or not; and if that
// can't be done, its session ends.
func (a *attempt) failed(ctx context.Context, err error) error {
	s := a.session
	stale := s.conn.IsClosed() && s.reused && !a.nested && ctx.Err() == nil && time.Since(a.sent) < pingAfter
	// As many times as it takes to hear an answer: a request to cancel, late, may
	// have met this.
	limited, cancel := context.WithTimeout(context.Background(), a.locker.silence/2)
	defer cancel()
	had, uerr := s.unlock(limited, a.number, a.mode)
	if uerr != nil && !s.conn.IsClosed() {
		had, uerr = s.unlock(limited, a.number, a.mode)
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
	case a.waited || len(a.found()) > 0 || time.Since(a.sent) >= noticeAfter:
		return a.gaveUp(ctx)
	}
	return a.wrap(endOf(ctx)) // nobody is known to be in the way
}

// overBudget says that a Locker has all the locks that it may have, before the server
// itself has no room: then it refuses new connections, and other programs' work, too.
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

// params are the placeholders of number.args.
func (n number) params() string {
	if n.numeric {
		return "($1::integer, $2::integer)"
	}
	return "($1::bigint)"
}
