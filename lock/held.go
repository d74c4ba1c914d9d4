package lock

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// holds is every lock that this process holds. It keeps them reachable: a lock
// whose Held the caller dropped stays locked until the process ends, rather than
// be let go by the garbage collector at a time of its choosing. Guarded by
// holdsMu.
var (
	holdsMu sync.Mutex
	holds   = map[*Held]struct{}{}
)

// Held is a lock that is held. Its methods may be called by several goroutines
// at once.
type Held struct {
	attempt *attempt
	own     *ownFile
	since   time.Time

	tie  *Tie
	stop chan struct{} // closed by end; ends the renewal; nil without one

	mu      sync.Mutex // guards what follows, and the lock file
	removed bool       // the lock file is gone, by our hand
	over    bool       // the kernel lock is gone too
	isLost  bool
	fence   int64 // 0: not asked for yet
}

// hold makes an attempt that has the lock a Held, and tells the Observer, of earlier
// events first. If that panics, the lock is released.
func (a *attempt) hold(own *ownFile, earlier ...Event) *Held {
	now := time.Now()
	h := &Held{since: now, attempt: a, own: own}
	h.tie = NewTie(h, h.is)
	holdsMu.Lock()
	holds[h] = struct{}{}
	holdsMu.Unlock()
	if a.renews() {
		h.stop = make(chan struct{})
		go h.renew()
	}
	told := false
	defer func() {
		if !told {
			_ = h.Release()
		}
	}()
	for _, e := range earlier {
		a.observe(e)
	}
	a.observe(Event{Kind: Acquired, Duration: now.Sub(a.begun)})
	told = true
	return h
}

// Info returns the claim that is in the lock file.
func (h *Held) Info() LockInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.own.claim
}

// Path returns the lock file, as an absolute path.
func (h *Held) Path() string { return h.attempt.file.Path }

// Lost is closed when the lock is found to be no longer ours. Where the kernel
// lock is trustworthy, only a hand that removes the lock file can bring that
// about, and Release finds it. In fallback mode, and on filesystems that are not
// trusted, the holder looks while it holds.
func (h *Held) Lost() <-chan struct{} { return h.tie.Lost() }

// Release removes the lock file, then drops the kernel lock. Of several readers,
// the last one out removes it. Only the first call does so; further ones return
// nil.
//
// If the lock file is not the one that this holder made, it is left alone, the
// kernel lock is dropped, and the error matches ErrLost. After any other error
// the lock is still held, and Release may be called again.
func (h *Held) Release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil
	}
	leave, drop := h.removeLockFile, h.attempt.dropAsWriter
	if h.attempt.mode == platform.Shared {
		leave, drop = h.checkStill, h.attempt.dropAsReader
	}
	if err := leave(); err != nil && !errors.Is(err, ErrLost) {
		return err
	} else if err != nil {
		h.lose()
	}
	// The kernel lock goes last: until then nobody can come to judge a lock
	// file, so nobody sees ours without it.
	if err := drop(); err != nil {
		return err
	}
	h.end()
	if h.isLost {
		return pathError("release", h.Path(), ErrLost)
	}
	h.attempt.observe(Event{Kind: Released, Duration: time.Since(h.since)})
	return nil
}

func (a *attempt) dropAsWriter() error {
	err := a.dropKernelLock()
	if err == nil {
		a.at(stepUnlocked)
	}
	return err
}

// check returns ErrLost if the lock is no longer ours.
func (h *Held) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isLost {
		return ErrLost
	}
	return h.own.check(h.attempt.file.Path)
}

// removeLockFile removes our lock file, and no other. Under a trustworthy kernel
// lock, no participant replaces the file between our look at it and its removal;
// elsewhere, only the marker keeps them from doing so. It returns ErrLost when the file
// is not ours.
func (h *Held) removeLockFile() error {
	a := h.attempt
	if h.isLost {
		return ErrLost
	}
	if h.removed {
		return nil
	}
	if a.renews() {
		marker, err := a.takeMarkerToRelease()
		if errors.Is(err, fs.ErrNotExist) {
			return ErrLost // with its folder
		} else if err != nil {
			return err
		}
		defer a.discard(a.markerPath(), marker)
	}
	if err := h.own.check(a.file.Path); err != nil {
		return err
	}
	a.at(stepOwned)
	if err := platform.Remove(a.file.Path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return ErrLost
		}
		return pathError("release", a.file.Path, err)
	}
	h.removed = true
	a.at(stepRemoved)
	return nil
}

// takeMarkerToRelease waits out whoever is at work under the marker.
func (a *attempt) takeMarkerToRelease() (*ownFile, error) {
	poll := newBackoff(maxDelay)
	for try := 1; ; try++ {
		marker, err := a.takeMarker(context.Background(), a.markerPath())
		var locked *ErrLocked
		if !errors.As(err, &locked) || try == claimTries {
			return marker, err
		}
		poll.sleep(context.Background())
	}
}

// lose makes the loss known. The caller has h.mu.
func (h *Held) lose() {
	if !h.isLost {
		h.isLost = true
		h.tie.Lose(pathError("hold", h.Path(), ErrLost))
		h.attempt.observe(Event{Kind: Lost, Duration: time.Since(h.since)})
	}
}

// end forgets the lock. The caller has h.mu.
func (h *Held) end() {
	h.over = true
	h.tie.End()
	if h.stop != nil {
		close(h.stop)
	}
	h.own.close()
	holdsMu.Lock()
	delete(holds, h)
	holdsMu.Unlock()
}
