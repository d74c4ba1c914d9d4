package lock

import (
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// siblingWatch looks after a wait for the sibling. Is that still where newcomers look for
// it? Does somebody keep all others from a lock that nobody has, because they were stopped
// (SIGSTOP, Ctrl-Z) at the turnstile, or with the sibling's lock? Overtaking them is safe:
// the queue decides only whose turn it is, and not whether two can have the lock.
type siblingWatch struct {
	waiter *waiter
	parked *wait
	delay  time.Duration
	free   int // times in a row that the lock was free, and did not come to us

	overtaken bool
	file      *platform.File // the sibling, if overtaking got its lock
}

// check returns the time until the next check; 0 if the wait is over.
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
		if !free && a.nobodyHas() { // they have both the turnstile and the sibling's lock
			if free = true; s.free > 0 && s.passes() {
				w.queue.overtake()
				return 0
			}
		}
		s.count(free)
	case a.nobodyHas():
		if s.free > 0 && s.passes() {
			w.queue.leaveWait(atSibling)
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

// passes overtakes those who have the sibling's lock, if they have no other. It remembers
// them, so that this is paid for once.
func (s *siblingWatch) passes() bool {
	a := s.waiter.attempt
	pids := a.haveOnlySibling()
	if s.overtaken = len(pids) > 0; s.overtaken {
		overtook(a.file.Path, pids)
	}
	return s.overtaken
}

// areStillStopped reports whether those who have the sibling's lock were overtaken before,
// and still have no other.
func (a *attempt) areStillStopped() bool {
	before := overtaken(a.file.Path)
	return before != nil && slices.Equal(before, a.haveOnlySibling())
}

// nobodyHas reports whether nobody has the lock, though somebody has the sibling's: they
// are on their way in, or out.
func (a *attempt) nobodyHas() bool {
	if !a.ownLocks() || !a.fsys.Trusted {
		return false
	}
	f, err := a.open(a.file.Path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	err = f.TryLock(platform.Exclusive)
	_ = f.Close()
	return err == nil
}

// haveOnlySibling returns the processes that have the sibling's lock, if the kernel says
// that none of them has another lock. Then none of them has the lock, not even one whose
// file was removed. nil if that can't be told.
func (a *attempt) haveOnlySibling() []int {
	sibling, err := platform.IdentifyFile(a.sibling)
	if err != nil {
		return nil
	}
	locks, _ := platform.ListKernelLocks()
	holders := slices.Sorted(slices.Values(locks.Holders(sibling)))
	for _, pid := range holders {
		if pid == platform.Self().PID || !platform.HasOnlyLock(pid, sibling) {
			return nil
		}
	}
	return holders
}

// overtake tries for the lock of a sibling that nobody has, though somebody is at its
// turnstile. A reader tries as a writer first. If that fails because of other readers, the
// one at the turnstile is a writer who waits for them, and is not stopped.
func (a *attempt) overtake(f *platform.File) error {
	err := f.TryLock(platform.Exclusive)
	if err == nil && a.mode == platform.Shared {
		err = f.TryLock(platform.Shared)
	}
	return err
}
