package lock

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
)

// openMemory returns the sibling, to read or write what it remembers. It is the one that we
// have locked, unless that was removed or replaced meanwhile: others read the one at the path.
// The caller calls done.
func (a *attempt) openMemory(flag int) (f *platform.File, done func() error, err error) {
	if f = a.siblingLock; f != nil && !a.siblingGone {
		if info, err := f.Stat(); err == nil && info.Links > 0 {
			return f, func() error { return nil }, nil
		}
		a.siblingGone = true
	}
	if flag&os.O_CREATE != 0 { // for all users of the lock, as the queue is
		f, err = a.sibling.Make()
	} else {
		f, err = platform.Open(a.sibling.Path, flag)
	}
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

// memoryError says which operation failed at the sibling.
func memoryError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, record.ErrTooLong):
		return fmt.Errorf("%w: %w", ErrInvalidName, err)
	}
	return fmt.Errorf("lock: %s: %w", op, err)
}

// addNote adds the note of the holder, if there is one. It opens the sibling if that is nil.
func (p *place) addNote(locked *LockedError, sibling *platform.File) {
	if sibling == nil {
		var err error
		if sibling, err = platform.Open(p.sibling.Path, os.O_RDONLY); err != nil {
			return
		}
		defer sibling.Close()
	}
	if m, err := record.Read(sibling); err == nil {
		locked.readNote(&m)
	}
}

// readNote adds the note of the holder, or of the one that has gone. Readers have none.
func (s *Status) readNote(m *record.Memory) {
	c := cmp.Or(s.Info, s.Gone)
	if c == nil || c.Nonce == "" || c.Mode == evidence.ModeShared {
		return
	}
	if r := m.Of(c); r != nil {
		s.Note, s.NotedAt = r.Note, r.NotedAt
	}
}
