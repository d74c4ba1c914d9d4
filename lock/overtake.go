package lock

import (
	"errors"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// siblingWatch looks after a wait for the sibling: whether that is still where newcomers
// look for it, and whether somebody keeps all others from a lock that nobody has, as they
// were stopped (SIGSTOP, Ctrl-Z) at the turnstile, or with the sibling's lock in their
// hand. To overtake them is safe, as it is not the queue that keeps two from having the
// lock; it is only not their turn.
type siblingWatch struct {
	waiter *waiter
	parked *wait
	delay  time.Duration
	free   int // times in a row that nobody had it, and yet it did not come to us

	overtaken bool
	file      *platform.File // the sibling, if its lock was what is ours by overtaking
}

// check returns when to check again; 0 if the wait is over.
func (s *siblingWatch) check() time.Duration {
	w := s.waiter
	a := w.attempt
	if at, err := s.parked.file.IsAt(a.sibling); err == nil && !at {
		w.queue.leaveWait(atSibling)
		return 0
	}
	switch {
	case w.queue.atTurnstile(s.parked):
		file, err := a.openSibling()
		if err == nil {
			if err = a.overtake(file); err == nil && s.free > 0 {
				w.queue.overtake()
				s.overtaken, s.file = true, file
				return 0
			}
			_ = file.Close()
		}
		free := err == nil
		if !free && a.nobodyHas(s.free > 0) { // they have both the turnstile and the sibling's lock
			if free = true; s.free > 0 {
				w.queue.overtake()
				s.overtaken = true
				return 0
			}
		}
		s.count(free)
	case a.nobodyHas(s.free > 0):
		if s.free > 0 {
			w.queue.leaveWait(atSibling)
			s.overtaken = true
			return 0
		}
		s.count(true)
	default:
		s.count(false)
	}
	if s.free > 0 {
		return firstLook
	}
	s.delay = min(max(2*s.delay, firstLook), mostLook)
	return s.delay
}

func (s *siblingWatch) count(free bool) {
	if s.free++; !free {
		s.free = 0
	}
}

// nobodyHas reports whether nobody has the lock, though somebody has that of the sibling:
// they are on their way in, or out. If certain, nothing else will do than the kernel's
// word on all of them.
func (a *attempt) nobodyHas(certain bool) bool {
	if !a.ownLocks() || !a.fsys.Trusted {
		return false
	}
	if f, err := a.open(a.file.Path); err == nil {
		err = f.TryLock(platform.Exclusive)
		_ = f.Close()
		if err != nil {
			return false
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if !certain {
		return true
	}
	sibling, err := platform.IdentifyFile(a.sibling)
	if err != nil {
		return false
	}
	locks, _ := platform.ListKernelLocks()
	holders := locks.Holders(sibling)
	for _, pid := range holders {
		if pid == platform.Self().PID || !platform.HasOnlyLock(pid, sibling) {
			return false
		}
	}
	return len(holders) > 0
}

// overtake tries for the lock of a sibling that nobody has, though somebody stands at its
// turnstile, or is about to take it. Readers who have it are in no reader's way, but in
// that of a writer at the turnstile, who waits and is not stopped.
func (a *attempt) overtake(f *platform.File) error {
	err := f.TryLock(platform.Exclusive)
	if err == nil && a.mode == platform.Shared {
		err = f.TryLock(platform.Shared)
	}
	return err
}
