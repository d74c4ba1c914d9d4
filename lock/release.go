package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// Release gives up the lock: it removes the lock file, and drops the kernel locks. Of several
// readers, the last one out removes the file. Once the lock is given up, further calls return
// nil.
//
// If the lock file is not the one that this holder made, it is left alone, and the error
// matches ErrLost.
//
// After any other error nobody is kept waiting for this holder, and the caller need not call
// again. As a rule the lock is nobody's: the file that is left says so, and the next process
// to acquire removes it, if it can. If not even that could be written, the lock is given up in
// the background as soon as the filesystem allows. Release may be called again to try at once.
func (h *FileHold) Release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil
	}
	err := h.letGo()
	if !h.over {
		if !h.retrying {
			h.retrying = true
			go h.retry()
		}
		return err
	}
	if h.isLost {
		return fail.Join(fail.At("release", h.Path(), ErrLost), err)
	}
	h.attempt.observe(Event{Kind: EventReleased, Duration: time.Since(h.since)})
	return err
}

// letGo does what is left of the release. The caller has h.mu.
//
// The kernel locks go last. Until then nobody can come to judge the lock file, so nobody sees
// ours without them.
func (h *FileHold) letGo() (err error) {
	a := h.attempt
	if !h.left {
		var failed error
		if err = ErrLost; !h.isLost {
			err = a.take.RemoveOwn(h.own)
		}
		if errors.Is(err, ErrLost) {
			err = nil
			h.lose()
		}
		switch {
		case err == nil:
			// A file that lives on under another name could be put back, and be taken for a
			// living process's.
			if h.isLost || h.own.OtherNames {
				if info, serr := h.own.File.Stat(); serr == nil && info.Links > 0 {
					_ = h.own.SayReleased()
				}
			}
		default:
			if failed = h.own.SayReleased(); failed != nil {
				return fail.Join(err, failed)
			}
			err = fmt.Errorf("%w (nobody has the lock any more: its file says so, and goes as soon as it can be removed)", err)
		}
		if !h.isLost {
			h.rememberEnd()
		}
		a.at(stepEndTold)
		h.left = true
	}
	if h.own.File.Unlock() != nil {
		if cerr := h.own.File.Close(); cerr != nil { // that lets go of the lock, too
			return fail.Join(err, cerr)
		}
	}
	a.at(lockfile.StepOwnUnlocked)
	alone := a.siblingLock != nil && a.take.Mode == platform.Exclusive
	if alone && a.sibling.Tidies {
		_, _ = a.sibling.TidyHeld(a.siblingLock, a.tidier()) // what can't be removed stays
	}
	// The next holder need not wait for our file to be closed. Closing is where the filesystem
	// gives back what it held, and takes as long as making the file.
	if cerr := fail.Join(a.siblingLock.Close(), h.own.File.Close()); cerr != nil {
		return fail.Join(err, cerr)
	}
	h.end()
	if !alone {
		a.sibling.TidyUp(a.tidier())
	}
	a.at(stepUnlocked)
	return err
}

// retry goes on trying to release, until that succeeds.
func (h *FileHold) retry() {
	for wait := pace.New(10 * time.Second); ; {
		wait.Sleep(context.Background())
		h.mu.Lock()
		if !h.over {
			if _ = h.letGo(); h.over && !h.isLost { // the caller has heard why it took so long
				h.attempt.observe(Event{Kind: EventReleased, Duration: time.Since(h.since)})
			}
		}
		over := h.over
		h.mu.Unlock()
		if over {
			return
		}
	}
}
