package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Release gives up the lock: it removes the lock file, and drops the kernel locks. Of
// several readers, the last one out removes the file. Once the lock is given up, further
// calls return nil.
//
// If the lock file is not the one that this holder made, it is left alone, and the error
// matches ErrLost.
//
// After any other error nobody is kept waiting for this holder, who need not call again. As
// a rule the lock is nobody's: the file that is left says so, and the next one to acquire
// removes it, if they can. If not even that could be written, the lock is given up in the
// background as soon as the filesystem allows. Release may be called again to try at once.
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
		return joined(pathError("release", h.Path(), ErrLost), err)
	}
	h.attempt.observe(Event{Kind: EventReleased, Duration: time.Since(h.since)})
	return err
}

// letGo does what is left to be done of the release. The caller has h.mu.
//
// The kernel locks go last. Until then nobody can come to judge the lock file, so nobody
// sees ours without them.
func (h *FileHold) letGo() (err error) {
	a := h.attempt
	if !h.left {
		err = h.removeLockFile()
		var failed error
		if errors.Is(err, ErrLost) {
			err = nil
			h.lose()
		}
		switch {
		case err == nil:
			// A file that lives on under another name could be put back, and be taken for a
			// living process's.
			if h.isLost || h.own.otherNames {
				if info, serr := h.own.file.Stat(); serr == nil && info.Links > 0 {
					_ = h.own.sayReleased()
				}
			}
		default:
			if failed = h.own.sayReleased(); failed != nil {
				return joined(err, failed)
			}
			err = fmt.Errorf("%w (nobody has the lock any more: its file says so, and goes as soon as it can be removed)", err)
		}
		if !h.isLost {
			h.rememberEnd()
		}
		a.at(stepEndTold)
		h.left = true
	}
	if h.own.file.Unlock() != nil {
		if cerr := h.own.file.Close(); cerr != nil { // that lets go of the lock, too
			return joined(err, cerr)
		}
	}
	a.at(stepOwnUnlocked)
	alone := a.siblingLock != nil && a.mode == platform.Exclusive
	if alone && a.tidies() {
		_, _ = a.tidy(a.siblingLock, tidying{}) // what can't be removed stays
	}
	// The next one need not wait for our file to be closed. That is where the filesystem
	// gives back what it held, and takes as long as to make it.
	if cerr := joined(a.siblingLock.Close(), h.own.file.Close()); cerr != nil {
		return joined(err, cerr)
	}
	h.end()
	if !alone {
		a.tidyUp()
	}
	a.at(stepUnlocked)
	return err
}

// removeLockFile removes our lock file, and no other; a readers' file only if we are the
// last reader. It returns ErrLost when the file is not ours. (Rule A: we have its own
// lock.)
func (h *FileHold) removeLockFile() error {
	a := h.attempt
	if h.isLost {
		return ErrLost
	}
	if err := h.own.isOurs(); err != nil { // rule B
		return err
	}
	a.at(stepOwned)
	if a.mode == platform.Shared {
		return a.leave(h.own.file, a.at)
	}
	var err error
	if a.renews() {
		err = a.removeWithRight(h.own)
	} else {
		err = platform.Remove(a.file.Path)
	}
	switch {
	case err == nil:
		a.at(stepRemoved)
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrLost):
		return ErrLost
	}
	return pathError("release", a.file.Path, err)
}

// removeWithRight removes our lock file where that takes a right: see remove. Whoever has
// the right has taken us for dead, or is about to find out that we live.
func (a *attempt) removeWithRight(own *ownFile) error {
	ctx, poll := context.Background(), newBackoff(maxDelay)
	remover := *a
	remover.patience = impatient{tries: passageTries}
	for try := 1; ; try++ {
		var f finding
		err := f.read(&a.place, own.file)
		if err == nil {
			err = remover.remove(ctx, own.path, &f, "")
		}
		var locked *ErrLocked
		if err != errMoved && !errors.As(err, &locked) || try == moves {
			return err
		}
		if err := own.isOurs(); err != nil {
			return err
		}
		poll.sleep(ctx)
	}
}

// retry goes on trying to release, until that succeeds.
func (h *FileHold) retry() {
	for wait := newBackoff(10 * time.Second); ; {
		wait.sleep(context.Background())
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
