package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// A Sibling is the file in whose kernel lock the users of one lock stand. It does not change.
//
// It lies in a folder where others may add, rename and link files. So the file at its path may
// be anybody's: a private file of this user, or of root's, that somebody has put there. These
// rules are kept here:
//
//   - A sibling bears a mark from the act that makes it, where a lock file would bear one.
//   - Only a file that we have just made gets a mode. An existing one has the mode that was
//     asked for, or the caller is told. What a crash leaves between making and mode is empty, and
//     bears the mark where siblings do: it is removed, and made anew.
//
// What shows that a file is a sibling is its content, too: see package record.
type Sibling struct {
	Path  string
	Lines *Lines
	Lock  string // the name of the lock in this process
	// Perm is the mode for all users; 0: as the umask has it.
	Perm      fs.FileMode
	Mark      bool // a sibling that is made here bears the mark
	Turnstile bool // waiters pass a turnstile
	Tidies    bool // it is removed when nobody needs it
	Trusted   bool // its filesystem does not cache what others do
	// At, if it is not nil, is told which step has been reached.
	At func(step string)
}

// The steps that are reached here.
const (
	Parks   = "about to wait"   // in the kernel
	Granted = "sibling granted" // to a waiter, which still has the turnstile
	Looked  = "wait looked after"
	Idle    = "sibling not needed" // by a holder that tidies up
	Removed = "sibling removed"
)

func (s *Sibling) at(step string) {
	if s.At != nil {
		s.At(step)
	}
}

var (
	// ErrMoved is the error of a file that is not at its path any more, or could not be opened
	// there for now: another look at once is worth it.
	ErrMoved = fail.ErrMoved
	// ErrOthersWait is the error of a reader's try that would get in before waiters.
	ErrOthersWait = errors.New("turnstile is taken")
)

// Make opens the sibling, or makes it. Whether it is a regular file is known once Stat has been
// called.
func (s *Sibling) Make() (*platform.File, error) {
	for range pace.Moves {
		f, made, err := platform.OpenToLock(s.Path, s.Mark, s.Perm)
		if err == nil && !made {
			err = s.checkMode(f)
		}
		if err == nil {
			return f, nil
		}
		if err = fail.Join(err, f.Close()); err != ErrMoved {
			return nil, err
		}
	}
	return nil, s.error("open", errMode)
}

// checkMode returns an error if an existing sibling lets in fewer users than were asked for:
// ErrMoved if a crash had left it so, and it has been removed.
func (s *Sibling) checkMode(f *platform.File) error {
	if s.Perm == 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil || s.Perm&^info.Mode == 0 || platform.HasDefaultACL(filepath.Dir(s.Path)) {
		return err
	}
	if info.Owner != os.Geteuid() || info.Links != 1 || info.Size > 0 || s.Mark && !info.Marked() {
		return s.error("open", errMode)
	}
	if err := f.TryLock(platform.Exclusive); err == nil || errors.Is(err, errors.ErrUnsupported) {
		if is, err := f.IsAt(s.Path); err == nil && is && platform.Remove(s.Path) == nil { // rule B
			return ErrMoved
		}
	}
	return s.error("open", errMode)
}

// errMode is an error of permissions, as it may pass: the sibling's maker has perhaps not
// undone the umask yet.
var errMode = fmt.Errorf("%w for all who are to have the lock", fs.ErrPermission)

// Open opens the sibling, or makes it, and outwaits what passes in an instant. The error is
// ErrMoved when that fails for now: a filesystem that caches lookups (FUSE, NFS) may say of a
// file that was just removed elsewhere that it is there, and then that it is not.
func (s *Sibling) Open() (*platform.File, error) {
	f, err := s.Make()
	for try := 1; s.passes(err) && try < pace.Tries; try++ {
		time.Sleep(pace.Passage)
		f, err = s.Make()
	}
	if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)) && !s.Trusted {
		if _, ferr := os.Stat(filepath.Dir(s.Path)); ferr == nil {
			err = ErrMoved
		}
	}
	return f, s.notPermitted(err)
}

// passes reports whether the sibling can't be opened for a reason that passes in an instant:
// somebody tidies up, or has just made the sibling for all, and not yet undone the umask.
func (s *Sibling) passes(err error) bool {
	return s.Tidies && errors.Is(err, platform.ErrLeased) || s.Perm != 0 && errors.Is(err, fs.ErrPermission)
}

// notPermitted adds to an error why the sibling may not be used, and what would help. It
// leaves other errors as they are.
func (s *Sibling) notPermitted(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	info, _, lerr := platform.Look(s.Path)
	switch {
	case lerr != nil || info.Owner < 0:
		return fmt.Errorf("%w (all users of a lock need write permission for its folder)", err)
	case errors.Is(err, errMode) && info.Owner == os.Geteuid():
		return fmt.Errorf("%w: its mode is %04o, and %04o is asked for; holdfast does not change a file that may be another's: change its mode, or remove it while nobody uses the lock",
			err, info.Mode.Perm(), s.Perm)
	}
	return fmt.Errorf("%w: it is %s's, with mode %04o, and this is %s; all users of a lock must ask for one mode that lets them in: 0660 for a group, 0666 for all",
		err, platform.UserName(info.Owner), info.Mode.Perm(), platform.User())
}

// Try opens the sibling and tries for its lock, once. The error is platform.ErrBusy when
// another has the lock, ErrOthersWait for a reader behind waiters, and otherwise Open's; with
// any error f, if it is not nil, has no lock. past says that waiters are passed by if the lock
// is free: they are stopped, or slow.
func (s *Sibling) Try(mode platform.Mode, past bool) (f *platform.File, err error) {
	f, err = s.Open()
	if err != nil {
		return f, err
	}
	if err = s.passTurnstile(f, mode); err == nil {
		return f, f.TryLock(mode)
	}
	if err == ErrOthersWait && past && lockFree(f, mode) == nil {
		err = nil
	}
	return f, err
}

// passTurnstile returns ErrOthersWait for a reader that would get in before waiters.
func (s *Sibling) passTurnstile(f *platform.File, mode platform.Mode) error {
	if mode != platform.Shared || !s.Turnstile || s.Lines.isStuck(s.Lock) {
		return nil
	}
	taken, err := f.TurnstileTaken()
	if err == nil && taken {
		err = ErrOthersWait
	}
	return err
}

// lockFree tries for the sibling's lock past its turnstile. A reader tries as a writer first.
// If that fails because of other readers, the writer at the turnstile waits for them, and is
// not stopped.
func lockFree(f *platform.File, mode platform.Mode) error {
	err := f.TryLock(platform.Exclusive)
	if err == nil && mode == platform.Shared {
		err = f.TryLock(platform.Shared)
	}
	return err
}

func (s *Sibling) error(op string, err error) error {
	return &fs.PathError{Op: op, Path: s.Path, Err: err}
}
