package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// A lock and its permits exclude each other. The lock is the gate of the permits: while it is
// held, nobody gets a further one. So a caller that wants the lock as a whole acquires it, and
// then waits for the holders of permits. They pay nothing for that.

// permitsOut is the error for a caller that wants a lock of which others have permits.
type permitsOut struct {
	name   string
	out    []permit
	locked *lock.LockedError
}

func (e *permitsOut) Error() string {
	return fmt.Sprintf("permits of %s are held: %v", e.name, e.locked)
}
func (e *permitsOut) Unwrap() error { return e.locked }

// evidencePermits is why a lock counts as held though nobody has it as a whole.
const evidencePermits evidence.Evidence = "permits of it are held"

// acquireWhole acquires locks as take does, and none with permits out.
//
// A caller of several has none of them while it waits for permits: the holder of a permit may
// want one of the others.
func acquireWhole(ctx context.Context, at locks, names []string, try bool, take func() ([]hold, error)) ([]hold, error) {
	alone := len(names) == 1
	for {
		if try || !alone { // before anything is acquired that others may want
			if err := withoutPermits(ctx, at, names, try); err != nil {
				return nil, err
			}
		}
		held, err := take()
		if err != nil {
			return nil, err
		}
		if err = withoutPermits(ctx, at, names, try || !alone); err == nil {
			return held, nil
		}
		for _, h := range slices.Backward(held) {
			_, rerr := h.LeaveToChildren() // there are none
			if rerr != nil {
				err = errors.Join(err, rerr)
			}
		}
		var out *permitsOut
		if try || alone || !errors.As(err, &out) {
			return nil, err
		}
	}
}

// withoutPermits returns when nobody has a permit of any of the locks. If try is set it does not
// wait: the error is a *permitsOut.
func withoutPermits(ctx context.Context, at locks, names []string, try bool) error {
	for _, name := range names {
		for {
			out, err := at.permits(ctx, name)
			if err != nil {
				return err
			} else if len(out) == 0 {
				break
			}
			var locked *lock.LockedError
			if try {
				err = asRefusal(out[0].Status, nil)
			} else {
				err = at.await(ctx, out[0].Path, false)
			}
			if errors.As(err, &locked) {
				return &permitsOut{name, out, locked}
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// asRefusal is the error for a lock that is held, or may be.
func asRefusal(s lock.Status, err error) error {
	if err != nil || s.State == evidence.Free || s.State == evidence.Dead {
		return err
	}
	return &lock.LockedError{Status: lock.Status{Path: s.Path, State: s.State, Evidence: s.Evidence, Info: s.Info, Gone: s.Gone, Shared: s.Shared, Processes: s.Processes}}
}

// asWhole is the state of a lock with these permits out.
func asWhole(s lock.Status, out []permit) lock.Status {
	if len(out) == 0 || s.State != evidence.Free && s.State != evidence.Dead {
		return s
	}
	whole := lock.Status{Path: s.Path, State: evidence.Unknown, Evidence: evidencePermits, Waiters: s.Waiters}
	if slices.ContainsFunc(out, func(p permit) bool { return p.State == evidence.Held }) {
		whole.State = evidence.Held
	}
	return whole
}

// asWholes is asWhole for locks in files, one folder after the other.
func asWholes(all iter.Seq2[lock.Status, error]) iter.Seq2[lock.Status, error] {
	hasPermits := map[string]bool{} // folders, to look for permits where there may be some
	return func(yield func(lock.Status, error) bool) {
		for s, err := range all {
			if err == nil && (s.State == evidence.Free || s.State == evidence.Dead) {
				folder := filepath.Dir(s.Path)
				if _, known := hasPermits[folder]; !known {
					names, _ := os.ReadDir(folder)
					hasPermits[folder] = slices.ContainsFunc(names, func(e fs.DirEntry) bool { return strings.Contains(e.Name(), permitInfix) })
				}
				if hasPermits[folder] {
					out, _ := files{}.permits(context.Background(), s.Path) // as far as can be seen
					s = asWhole(s, out)
				}
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// noWhole says why a lock of which others have permits could not be acquired.
func (a *app) noWhole(at locks, err *permitsOut, timeout time.Duration, undone string) {
	text := visible(err.name) + " is locked, as permits of it are held"
	switch {
	case errors.Is(err, lock.ErrReentrant):
		text = "a permit of " + visible(err.name) + " is held by a process that has started this one, and would be waited for in vain"
	case errors.Is(err, lock.ErrTimeout):
		text = fmt.Sprintf("%s is still locked after %s, as permits of it are held", visible(err.name), timeout)
	}
	a.say(text + undone)
	at.words().describePermits(a.stderr, err.out)
}
