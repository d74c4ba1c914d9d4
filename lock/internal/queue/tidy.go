package queue

import (
	"errors"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// Why a sibling may be removed.
//
// A tidier has the sibling's exclusive kernel lock, checks that it is still the sibling (rule
// B), and finds no lock file. So nobody has got in by it, and no two can get in around its
// removal:
//
//   - A holder, or anyone acquiring, has the sibling's kernel lock (readers: shared), so a
//     tidier never meets them. A holder whose sibling was removed earlier has the own lock of
//     a lock file, or is about to create one. That file alone keeps others out, before the
//     removal and after: joining, replacing or removing it takes its own lock (rule A).
//   - Waiters, whether at the turnstile, for the kernel lock, or in this process, are left
//     with a file that has no name. Each gets its lock, checks whether the path leads to it
//     (rule B), lets go, and begins again at the new one (takeSibling). A wait that
//     outlived its waiter has taken nothing else. So nobody acts by the old sibling, and the
//     new one is the only queue.
//   - A reclaimer has the sibling's lock for as long as its marker stands. A marker has its
//     own lock, and is judged by that.
//
// Between the looks and the unlink, a process whose sibling was removed earlier may create the
// lock file. Then a held lock loses its sibling, and newcomers wait for the lock file. Or a
// person may replace the sibling. Then the new one goes, and its waiters begin again.
//
// A program that knows the sibling only as a file for flock(1) does not look again. For its
// sake the sibling stays while anybody else has it open. What remains is the time between that
// look and the unlink.
//
// A crash leaves the sibling, or nothing.

// Kept says why a file stays, in words for people. Empty: it does not stay.
type Kept string

const (
	KeptInUse    Kept = "somebody has it open, or waits for it"
	KeptLocked   Kept = "somebody has its kernel lock"
	KeptLockFile Kept = "the lock file is there"
	KeptMoved    Kept = "the path leads to another file by now"
)

// A Tidier says what the queue must know of a lock before its sibling goes.
type Tidier interface {
	// Needs says why the sibling stays for the sake of what is in it, or of its age.
	Needs(sibling *platform.File) (Kept, error)
	// HasLockFile reports whether there is a lock file.
	HasLockFile() (bool, error)
	// IsDry reports whether nothing is really to be removed.
	IsDry() bool
}

// TidyHeld removes the sibling f if nobody needs it. Its exclusive kernel lock is ours. It
// returns why f stays; after an error it stays, too.
func (s *Sibling) TidyHeld(f *platform.File, tidier Tidier) (Kept, error) {
	open, err := f.IsOpenElsewhere()
	if errors.Is(err, errors.ErrUnsupported) { // then waiters begin again
		open, err = f.HasByteLock(), nil
	}
	switch {
	case err != nil:
		return "", err
	case open:
		return KeptInUse, nil
	}
	if why, err := tidier.Needs(f); err != nil || why != "" {
		return why, err
	}
	if is, err := tidier.HasLockFile(); err != nil {
		return "", err
	} else if is {
		return KeptLockFile, nil
	}
	stands, err := f.IsAt(s.Path) // rule B
	switch {
	case err != nil:
		return "", err
	case !stands:
		return KeptMoved, nil
	case tidier.IsDry():
		return "", nil
	}
	s.at(Idle)
	err = platform.Remove(s.Path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	s.at(Removed)
	return "", err
}

// TidyUp is for callers that had no lock, or a shared one: it checks whether they were the
// last to need the sibling. Another that has the sibling, or leaves at the same time, may have
// seen ours open and left it. So TidyUp looks more than once.
func (s *Sibling) TidyUp(tidier Tidier) {
	if !s.Tidies {
		return
	}
	for range 3 {
		if is, err := tidier.HasLockFile(); err != nil || is {
			return // the holder of that file, or its reclaimer, tidies up
		}
		why, err := s.Tidy(tidier)
		if err != nil || why != KeptInUse && why != KeptLocked {
			return
		}
		time.Sleep(pace.Jitter(pace.Passage))
	}
}

// Tidy is TidyHeld for callers that do not have the sibling open.
func (s *Sibling) Tidy(tidier Tidier) (Kept, error) {
	f, err := platform.Open(s.Path, os.O_RDWR)
	if errors.Is(err, platform.ErrLeased) {
		return KeptInUse, nil // somebody else tidies up
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	switch err := f.TryLock(platform.Exclusive); err {
	case nil:
		return s.TidyHeld(f, tidier)
	case platform.ErrBusy:
		return KeptLocked, nil
	default:
		return "", err
	}
}

// giveBack lets go of a sibling's lock that came when nobody was left to take it. Its last
// holder may just have left the sibling to us, and not have closed it yet.
func (s *Sibling) giveBack(f *platform.File, tidier Tidier) {
	_ = f.Close()
	if s.Tidies {
		go s.TidyUp(tidier)
	}
}
