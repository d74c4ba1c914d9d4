package queue

import (
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// siblingWatch looks after a wait for the sibling. Is the sibling still where newcomers look
// for it? Does a stopped process (SIGSTOP, Ctrl-Z) stand at the turnstile, and keep all others
// from a sibling that is not locked? Then they pass the turnstile by, and take the sibling's
// lock as always. Nobody passes by that lock: a process that was stopped between taking it and
// making its lock file counts as the holder.
type siblingWatch struct {
	waiter *Waiter
	parked *wait
	looks  pace.Backoff
	free   bool           // the last look found the lock free
	file   *platform.File // the sibling, with its lock, if the wait has overtaken
}

// check returns the time until the next check; 0 if the wait is over.
func (s *siblingWatch) check() time.Duration {
	w := s.waiter
	if at, err := s.parked.file.IsAt(w.sibling.Path); err == nil && !at {
		w.line.leaveWait(atSibling)
		return 0
	}
	var file *platform.File
	if w.line.atTurnstile(s.parked) {
		file = w.overtake()
	}
	wasFree := s.free
	switch s.free = file != nil; {
	case s.free && wasFree: // and did not come to us in between
		w.line.overtake()
		s.file = file
		return 0
	case s.free:
		_ = file.Close()
		return firstLook
	}
	return s.looks.Next()
}

// overtake returns the sibling with its lock, if that is free, though the turnstile is taken;
// otherwise nil.
func (w *Waiter) overtake() *platform.File {
	f, err := w.sibling.Open()
	if err == nil {
		if err = lockFree(f, w.mode); err == nil {
			return f
		}
	}
	_ = f.Close()
	return nil
}
