package lock

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/platform"
)

// holds is every lock that this process holds. It keeps them reachable. Without it the garbage
// collector would let go of a lock whose FileHold the caller dropped, at a time of its
// choosing. So that lock stays until the process ends. Guarded by holdsMu.
var (
	holdsMu sync.Mutex
	holds   = map[*FileHold]struct{}{}
)

// FileHold is a lock that is held. Its methods may be called by several goroutines at once.
type FileHold struct {
	attempt *attempt
	own     *lockfile.Own
	id      platform.FileID // of own's file
	since   time.Time

	contexts engine.Contexts
	stop     chan struct{} // closed by end; ends the renewal; nil without one

	mu       sync.Mutex // guards what follows, and the lock file
	left     bool       // the lock file is no longer ours, by our own act or another's
	over     bool       // nothing is left to let go of
	retrying bool       // a goroutine goes on letting go
	isLost   bool
	fence    int64 // 0: not asked for yet
	before   *Predecessor
	asked    bool               // before is known
	noted    bool               // it has made a note
	named    bool               // the lock was named to children, which may note, even late
	unused   bool               // the lock was given to nobody, so it leaves no word
	asDied   *evidence.Evidence // how ReleaseAsDied was told that it ended; nil for a release
	handed   *os.File           // the own file, as children get it; nil without any
}

// hold turns an attempt that has the lock into a FileHold, and tells Observe. If that
// panics, it releases the lock.
func (a *attempt) hold(own *lockfile.Own) *FileHold {
	a.take.ClearMarkers(context.Background())
	now := time.Now()
	h := &FileHold{since: now, attempt: a, own: own, id: own.File.ID()}
	h.contexts.Begin(h, h.is)
	holdsMu.Lock()
	holds[h] = struct{}{}
	holdsMu.Unlock()
	if a.take.Renews() {
		h.stop = make(chan struct{})
		go h.newRenewal(now).run()
	}
	told := false
	defer func() {
		if !told {
			_ = h.ReleaseUnused()
		}
	}()
	a.patience.won()
	if dead := a.reclaimed; dead != nil && (dead.Claim == nil || dead.Claim.Mode != evidence.ModeShared) { // readers may just have left
		a.observe(Event{Kind: EventReclaimed, Status: Status{Info: dead.Claim, Evidence: dead.Evidence}})
	}
	a.observe(Event{Kind: EventAcquired, Duration: now.Sub(a.begun)})
	told = true
	return h
}

// Info returns the claim that is in the lock file. For one of several readers it is the
// claim that this one would have written.
func (h *FileHold) Info() evidence.Claim {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.own.Claim
}

// Path returns the lock file, as an absolute path.
func (h *FileHold) Path() string { return h.attempt.file.Path }

// Lost is closed when the lock is found to be no longer ours. Where the kernel lock is
// trustworthy, that happens only if somebody removes the lock file, and Release or Fence finds
// it. In fallback mode, and on filesystems that are not trusted, the holder looks while it
// holds.
func (h *FileHold) Lost() <-chan struct{} { return h.contexts.Lost() }

// check returns ErrLost if the lock is no longer ours.
func (h *FileHold) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isLost {
		return ErrLost
	}
	return h.own.IsOurs()
}

// lose makes the loss known. The caller has h.mu.
func (h *FileHold) lose() {
	if !h.isLost {
		h.isLost = true
		h.contexts.Lose(fail.At("hold", h.Path(), ErrLost))
		h.attempt.observe(Event{Kind: EventLost, Duration: time.Since(h.since)})
	}
}

// end forgets the lock. The caller has h.mu.
func (h *FileHold) end() {
	h.over = true
	h.contexts.End()
	if h.handed != nil {
		_ = h.handed.Close() // it has no lock any more
	}
	if h.stop != nil {
		close(h.stop)
	}
	holdsMu.Lock()
	delete(holds, h)
	holdsMu.Unlock()
}
