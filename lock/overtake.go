package lock

import (
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// siblingWatch looks after a wait for the sibling. Is that still where newcomers look for
// it? Does a process that was stopped (SIGSTOP, Ctrl-Z) stand at the turnstile, and keep all
// others from a sibling that nobody has locked? Then they pass the turnstile by, and take the
// sibling's lock as always. Nobody passes by that lock: a process that was stopped between
// taking it and making its lock file counts as the holder.
type siblingWatch struct {
	waiter *waiter
	parked *wait
	looks  backoff
	free   bool           // the last look found the lock free
	file   *platform.File // the sibling, with its lock, if that was overtaking
}

// check returns the time until the next check; 0 if the wait is over.
func (s *siblingWatch) check() time.Duration {
	w := s.waiter
	if at, err := s.parked.file.IsAt(w.attempt.sibling); err == nil && !at {
		w.queue.leaveWait(atSibling)
		return 0
	}
	var file *platform.File
	if w.queue.atTurnstile(s.parked) {
		file = w.attempt.overtake()
	}
	wasFree := s.free
	switch s.free = file != nil; {
	case s.free && wasFree: // and did not come to us in between
		w.queue.overtake()
		s.file = file
		return 0
	case s.free:
		_ = file.Close()
		return firstLook
	}
	return s.looks.next()
}

// overtake returns the sibling with its lock, if nobody has that, though somebody is at its
// turnstile; else nil.
func (a *attempt) overtake() *platform.File {
	f, err := a.openSibling()
	if err == nil {
		if err = a.lockFree(f); err == nil {
			return f
		}
	}
	_ = f.Close()
	return nil
}

// lockFree tries for the sibling's lock past its turnstile. A reader tries as a writer first:
// if that fails because of other readers, the one at the turnstile is a writer who waits for
// them, and is not stopped.
func (a *attempt) lockFree(f *platform.File) error {
	err := f.TryLock(platform.Exclusive)
	if err == nil && a.mode == platform.Shared {
		err = f.TryLock(platform.Shared)
	}
	return err
}
