package queue

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// A Waiter is one goroutine on its way through the line of its process, and at the head of
// that, in the kernel. Its methods are called by one goroutine, Stand first and Leave last.
type Waiter struct {
	ticket
	sibling *Sibling
	mode    platform.Mode
	since   time.Time
	user    User
	poll    pace.Backoff // for a place among the waiters in the kernel
}

// A User of a sibling is told, and asked, what the queue can't know.
type User interface {
	// BegunToWait is called each time that a Waiter begins to wait.
	BegunToWait()
	// Parked is called when a thread of ours waits in the kernel for the sibling. What is needed
	// afterwards can be made now.
	Parked()
	Tidier
}

// Stand takes the last place in the line for a lock. The waiter says to the kernel that it has
// waited since a time.
func (w *Waiter) Stand(s *Sibling, mode platform.Mode, since time.Time, user User) {
	w.sibling, w.mode, w.since, w.user, w.poll = s, mode, since, user, pace.New(pace.Longest)
	w.enqueue(s.Lines, key{s.Lock, mode})
}

// Leave gives up the place in the line.
func (w *Waiter) Leave() { w.leave() }

// Turn waits until we are the first in this process's line. The error is ctx's.
func (w *Waiter) Turn(ctx context.Context) error {
	if w.first == nil {
		return nil
	}
	select {
	case <-w.first:
		return nil
	default:
	}
	w.user.BegunToWait()
	select {
	case <-w.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lock waits for the sibling's lock. It takes it at once if it is free, and otherwise waits in
// the kernel, by a wait of its own or one that was left to it. On success the sibling is open
// and locked, and perhaps its turnstile is ours. The error is ctx's, or the system's; then f,
// if it is not nil, has no lock.
func (w *Waiter) Lock(ctx context.Context) (*platform.File, error) {
	s := w.sibling
	seenFree := false
	for ctx.Err() == nil {
		f, err := s.Open()
		if err == ErrMoved || errors.Is(err, platform.ErrLeased) {
			w.user.BegunToWait()
			w.poll.Sleep(ctx)
			continue
		} else if err != nil {
			return nil, err
		}
		parked := w.line.adopted(atSibling, f)
		if parked != nil {
			_ = f.Close() // it has no lock
		} else {
			at, err := w.tryToPass(f)
			if err != platform.ErrBusy {
				return f, err
			}
			if _, err := f.Stat(); err != nil { // its identity is needed to look after it
				return nil, fail.Join(err, f.Close())
			}
			parked = &wait{file: f, mode: w.mode, turnstile: at, giveBack: func(f *platform.File, _ error) { s.giveBack(f, w.user) }}
			s.at(Parks)
			if !w.line.park(atSibling, parked) { // enough threads are parked
				free := at == turnstileWaiting && lockFree(f, w.mode) == nil
				if free && seenFree { // as siblingWatch does
					return f, nil
				}
				seenFree = free
				_ = f.Close()
				w.user.BegunToWait()
				w.poll.Sleep(ctx)
				continue
			}
		}
		w.sayWaiting(parked)
		w.user.Parked()
		w.user.BegunToWait()
		watch := siblingWatch{waiter: w, parked: parked, looks: newLooks()}
		came, err := w.await(ctx, atSibling, parked, watch.check)
		switch {
		case came && err == platform.ErrBusy: // the sibling has moved: see WaitLock
			_ = parked.file.Close()
		case came:
			s.at(Granted)
			return parked.file, err
		case err != nil || watch.file != nil:
			return watch.file, err
		}
	}
	return nil, ctx.Err()
}

func (w *Waiter) sayWaiting(parked *wait) {
	if w.sibling.Turnstile {
		parked.file.SayWaiting(w.since)
	}
}

// tryToPass tries for the lock of the sibling. With ErrBusy it returns how far we got at the
// turnstile. If nobody is at the turnstile, it need not be taken: anyone that takes it from
// then on came later.
func (w *Waiter) tryToPass(f *platform.File) (turnstile, error) {
	s := w.sibling
	if !s.Turnstile || s.Lines.isStuck(s.Lock) {
		return turnstileNone, f.TryLock(w.mode)
	}
	taken, err := f.TurnstileTaken()
	if err != nil {
		return turnstileNone, err
	}
	if !taken {
		if err := f.TryLock(w.mode); err != platform.ErrBusy {
			return turnstileNone, err
		}
	}
	switch err := f.TryTurnstile(); err {
	case nil:
		return turnstileOurs, f.TryLock(w.mode)
	case platform.ErrBusy:
		return turnstileWaiting, err
	default:
		return turnstileNone, err
	}
}

// await waits until a wait in the kernel comes, and calls check from time to time. It returns
// the wait's error if it came. It returns ctx's error if ctx is done; the wait then stays for
// the next waiter. It returns neither when check returns 0, because there is nothing to wait
// for any more.
func (w *Waiter) await(ctx context.Context, at int, parked *wait, check func() (again time.Duration)) (came bool, err error) {
	timer := time.NewTimer(pace.Jitter(firstLook))
	defer timer.Stop()
	for {
		select {
		case err := <-parked.came:
			w.line.took(at)
			return true, err
		case <-ctx.Done():
			return false, ctx.Err()
		case <-timer.C:
			again := check()
			w.sibling.at(Looked)
			if again == 0 {
				return false, nil
			}
			timer.Reset(pace.Jitter(again))
		}
	}
}

// How often a wait in the kernel is looked after: seldom when it has lasted, and soon again
// when it seems to be stuck.
const (
	firstLook = 40 * time.Millisecond
	mostLook  = time.Second
)

func newLooks() pace.Backoff { return pace.Backoff{First: firstLook, Most: mostLook} }

// A Wanted is a file whose kernel lock is waited for from the head of the line, behind the
// sibling's.
type Wanted interface {
	// Try tries for the lock of f, for an instant. The error is platform.ErrBusy if another has
	// it.
	Try(f *platform.File) error
	// Moved says that nobody need wait for this file any more.
	Moved(f *platform.File) bool
	// GiveBack lets go of the file, and of its lock if err is nil, if it comes when nobody is left
	// to take it.
	GiveBack(f *platform.File, err error)
}

// LockOther waits for the lock of another file than the sibling, f. With the lock it returns f,
// or another open file of the same. The error is ErrMoved, ctx's, the system's, or Try's; then
// the file that it returns has no lock, or is nil, as it was left to a thread that waits.
func (w *Waiter) LockOther(ctx context.Context, f *platform.File, mode platform.Mode, is Wanted) (*platform.File, error) {
	parked := w.line.adopted(atOther, f)
	if parked != nil && parked.mode != mode {
		w.line.leaveWait(atOther)
		parked = nil
	}
	if parked != nil {
		_ = f.Close() // it has no lock
	}
	for parked == nil {
		if err := is.Try(f); err != platform.ErrBusy {
			return f, err
		}
		parked = &wait{file: f, mode: mode, giveBack: is.GiveBack}
		w.sibling.at(Parks)
		if !w.line.park(atOther, parked) {
			parked = nil
			w.user.BegunToWait()
			if w.poll.Sleep(ctx); ctx.Err() != nil {
				return f, ctx.Err()
			}
		}
	}
	w.user.BegunToWait()
	w.sayWaiting(parked)
	looks := newLooks()
	came, err := w.await(ctx, atOther, parked, func() time.Duration {
		if is.Moved(parked.file) {
			w.line.leaveWait(atOther)
			return 0
		}
		return looks.Next()
	})
	switch {
	case came && err == platform.ErrBusy: // see WaitLock
		return parked.file, ErrMoved
	case came:
		parked.file.LeaveTurnstile() // takes back SayWaiting
		return parked.file, err
	case err == nil:
		err = ErrMoved
	}
	return nil, err
}
