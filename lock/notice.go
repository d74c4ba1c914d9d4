package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A wait tells the Observer when it begins, OnWait when it lasts, and the caller when it
// was in vain.

// begunToWait makes it known, once, that the lock could not be had at once.
func (w *waiter) begunToWait() {
	if w.waiting {
		return
	}
	w.waiting = true
	a := w.attempt
	if a.file.Observer != nil {
		locked, _ := a.kernelHolder(nil)
		a.observe(Event{Kind: EventWaiting, Info: locked.Info, Evidence: locked.Evidence})
	}
	if a.file.OnWait == nil {
		return
	}
	after := a.file.OnWaitAfter
	if after <= 0 {
		after = time.Second
	}
	w.notice = time.AfterFunc(after, func() {
		w.calling.Lock()
		defer w.calling.Unlock()
		if w.stopped {
			return
		}
		locked := a.holder()
		if locked == nil || locked.Info != nil && locked.Info.Nonce == a.nonce {
			return // the wait is over
		}
		locked.Waited = time.Since(a.begun)
		a.file.OnWait(locked)
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
	cause := contextError(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = fmt.Errorf("%w: %w", ErrTimeout, cause)
	}
	var locked *ErrLocked
	if !errors.As(err, &locked) {
		if locked = a.holder(); locked == nil { // nobody is in the way by now
			return pathError("acquire", a.file.Path, cause)
		}
	}
	locked.Waited, locked.Cause = time.Since(a.begun), cause
	return locked
}

// holder describes the holder in the way, with the evidence; nil if there is none. It waits
// for nothing, not even for a dying process.
func (p *place) holder() *ErrLocked {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	list := new(kernelList)
	status, _, _, err := p.inspectOnce(ctx, list, passageTries)
	locked := p.locked(p.file.Path, nil, StateUnknown, EvidenceUnproven)
	if err != nil {
		return locked
	}
	switch status.State {
	case StateFree:
		return nil
	case StateDead: // and not in the way; perhaps somebody is on the way in
		if by := p.whoHas(nil, list).processes; len(by) > 0 {
			locked.State, locked.Evidence, locked.Processes = StateHeld, EvidenceKernelLockHeld, by
			return locked
		}
		return nil
	}
	locked.State, locked.Evidence, locked.Info = status.State, status.Evidence, status.Info
	locked.Gone, locked.Shared, locked.Processes = status.Gone, status.Shared, status.Processes
	p.addNote(locked, nil)
	return locked
}
