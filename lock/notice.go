package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
)

// noticeAfter is how long a wait lasts before Observe is told again.
const noticeAfter = time.Second

// BegunToWait tells Observe, once, that the lock could not be acquired at once, and, if the
// wait lasts, who is in the way by then.
func (w *waiter) BegunToWait() {
	a := w.attempt
	if w.waiting || a.file.Observe == nil {
		return
	}
	w.waiting = true
	locked, _ := a.kernelHolder(nil)
	a.observe(Event{Kind: EventWaiting, Status: locked.Status})
	w.notice = time.AfterFunc(cmp.Or(a.file.noticeAfter, noticeAfter), func() {
		w.calling.Lock()
		defer w.calling.Unlock()
		if w.stopped {
			return
		}
		locked := a.holder()
		if locked == nil || locked.Info != nil && locked.Info.Nonce == a.take.Nonce {
			return // the wait is over
		}
		a.observe(Event{Kind: EventWaiting, Status: locked.Status, Duration: time.Since(a.begun)})
	})
}

// stop ends the wait, won or not.
func (w *waiter) stop() {
	if w.notice != nil {
		w.notice.Stop()
		w.calling.Lock()
		defer w.calling.Unlock()
		w.stopped = true
	}
}

// gaveUp is the error of a wait that ctx ended.
func (w *waiter) gaveUp(ctx context.Context, err error) error {
	a := w.attempt
	cause := fail.Context(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = fmt.Errorf("%w: %w", ErrTimeout, cause)
	}
	var locked *LockedError
	if !errors.As(err, &locked) {
		if locked = a.holder(); locked == nil { // nobody is in the way by now
			return fail.At("acquire", a.file.Path, cause)
		}
	}
	locked.Waited, locked.Cause = time.Since(a.begun), cause
	return locked
}

// holder describes the holder in the way, with the evidence; nil if there is none. It waits
// for nothing, not even for a dying process.
func (p *place) holder() *LockedError {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	list := new(kernelList)
	status, _, err := p.inspectOnce(ctx, list, true)
	locked := p.locked(p.file.Path, nil, evidence.Unknown, evidence.Unproven)
	if err != nil {
		return locked
	}
	switch status.State {
	case evidence.Free:
		return nil
	case evidence.Dead: // and not in the way; perhaps somebody is on the way in
		if by := p.whoHas(nil, list).processes; len(by) > 0 {
			locked.State, locked.Evidence, locked.Processes = evidence.Held, evidence.KernelLockHeld, by
			return locked
		}
		return nil
	}
	locked.State, locked.Evidence, locked.Info = status.State, status.Evidence, status.Info
	locked.Gone, locked.Shared, locked.Processes = status.Gone, status.Shared, status.Processes
	p.addNote(locked, nil)
	return locked
}
