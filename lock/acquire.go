package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Bounds on beginning again. Each round needs somebody else's act in between.
const (
	siblingTries = 10 // the sibling was replaced while we took its lock
	claimTries   = 10 // the lock file went, or changed, while we judged it
)

// passage is how long, and how often, a busy kernel lock is looked at again when
// its holder has no claim on disk: it is between two steps, or only judging.
const (
	passage      = 500 * time.Microsecond
	passageTries = 10
)

// TryAcquire takes the lock if nobody has it, or if the holder is dead, and does
// not wait. It takes no place in the queue, and may get in before those who wait.
//
// On success the lock file names this process, and the Held releases it. When
// somebody has the lock, or may have, the error is an *ErrLocked. With any error
// nothing is held and nothing of others' has been changed; the sibling may have
// been created, and claims of dead holders removed.
//
// Acquiring a lock that another goroutine of the same process holds is
// contention like any other. Under a context of a Held of this very lock, the
// *ErrLocked matches ErrReentrant.
func (f File) TryAcquire(ctx context.Context) (*Held, error) {
	return f.try(ctx, platform.Exclusive)
}

// TryAcquireShared is TryAcquire for a lock that any number of readers can have
// together, and none beside an exclusive holder. Readers pass the queue: while
// anyone waits for the lock the error is an *ErrLocked. Without a trustworthy
// kernel lock, and on systems without a turnstile (all but Linux), shared means
// exclusive.
func (f File) TryAcquireShared(ctx context.Context) (*Held, error) {
	return f.try(ctx, platform.Shared)
}

func (f File) try(ctx context.Context, mode platform.Mode) (*Held, error) {
	a, err := f.begin(mode)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, pathError("acquire", a.file.Path, contextError(ctx))
	}
	if err := a.reentrant(ctx); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		held, err := a.tryOnce(ctx)
		if err == nil && ctx.Err() != nil { // cancel beats acquire
			return nil, also(pathError("acquire", a.file.Path, contextError(ctx)), held.Release())
		}
		if err != platform.ErrBusy && err != errQueued && err != errReplaced {
			return held, err
		}
		locked, passing := a.kernelHolder()
		switch err {
		case errQueued:
			locked.Evidence, passing = OthersWait, true
		case errReplaced:
			locked.Verdict, locked.Evidence, passing = Unknown, Unproven, true
		}
		if !passing || try == passageTries {
			return nil, locked
		}
		time.Sleep(passage)
	}
}

// errQueued says that someone has the turnstile: waiting, or on their way in.
var errQueued = errors.New("turnstile is taken")

// tryOnce returns platform.ErrBusy and errQueued as they are.
func (a *attempt) tryOnce(ctx context.Context) (*Held, error) {
	take := platform.TryKernelLock
	if a.mode == platform.Shared {
		var turnstile *platform.Turnstile
		defer func() { turnstile.Open() }()
		take = func(sibling string, mode platform.Mode) (*platform.KernelLock, error) {
			turnstile.Open() // of a sibling that was replaced
			var err error
			if turnstile, err = platform.TryTurnstile(sibling); err == platform.ErrBusy {
				return nil, errQueued
			} else if err != nil {
				return nil, err
			}
			return turnstile.TryKernelLock(mode)
		}
	}
	if err := a.takeKernelLock(take); err != nil {
		return nil, err
	}
	return a.claim(ctx)
}

// takeKernelLock is steps 1 and 2 of the protocol. It returns nil without a
// kernel lock in fallback mode, and platform.ErrBusy, errQueued and errReplaced as they
// are. take is called again when the sibling was replaced.
func (a *attempt) takeKernelLock(take func(string, platform.Mode) (*platform.KernelLock, error)) error {
	if a.file.noKernelLock {
		take = noKernelLock
	}
	if a.file.RequireKernelLock && !a.fsys.Trusted {
		return fmt.Errorf("lock: %s on %s: %w", a.file.Path, a.fsys.Kind, ErrUnsupported)
	}
	for range siblingTries {
		// 1. Take the kernel lock on the sibling.
		kernel, err := take(a.siblingPath(), a.mode)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			if a.file.RequireKernelLock {
				return fmt.Errorf("lock: %s on %s: %w", a.file.Path, a.fsys.Kind, ErrUnsupported)
			}
			return nil
		case err == platform.ErrBusy, err == errQueued, err == errReplaced:
			return err
		case err != nil:
			return fmt.Errorf("lock: %w", err)
		}
		a.at(stepKernelLocked)

		// 2. Is the file that we locked still the sibling? If someone replaced
		// it in between, another process may be locking the new one.
		sibling, same, err := kernel.At(a.siblingPath())
		if err == nil && same {
			a.kernel, a.sibling = kernel, sibling
			a.at(stepSiblingChecked)
			return nil
		}
		if err := errors.Join(kernel.Unlock(), ignoreAbsent(err)); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
	}
	return pathError("acquire", a.file.Path, errors.New("the file beside it, "+siblingSuffix+", keeps being replaced"))
}

func noKernelLock(string, platform.Mode) (*platform.KernelLock, error) {
	return nil, errors.ErrUnsupported
}

// claim is steps 3 and 4 of the protocol. On failure the kernel lock has been
// dropped.
//
// Invariant: where there is a kernel lock, the lock file is created, replaced and
// removed only under an exclusive one, or (by readers who come) under a shared one
// and the turnstile; and a holder has it from before until after. So whoever comes
// to step 3 is alone there, and an exclusive claim made under this sibling's lock
// that it finds is a dead holder's.
func (a *attempt) claim(ctx context.Context) (held *Held, err error) {
	defer func() {
		if held == nil {
			if a.mode == platform.Exclusive && a.kernel != nil {
				clearReaders(a.file.Path, a.kernel)
			}
			err = also(err, a.dropKernelLock())
		}
	}()
	var locked *ErrLocked
	for range claimTries {
		// Cancel beats acquire.
		if ctx.Err() != nil {
			return nil, pathError("acquire", a.file.Path, contextError(ctx))
		}
		// 3. Create the lock file.
		own, err := a.publish(a.file.Path, stepCreated, stepWritten, stepComplete)
		if err == nil {
			return a.confirm(own)
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		// 4. Judge the claim that is there.
		found, err := a.look(a.file.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // released since
		} else if err != nil {
			return nil, pathError("read", a.file.Path, err)
		}
		if a.mode == platform.Shared && found.isReaders(a.sibling) {
			return a.confirm(a.join(found))
		}
		verdict, evidence := a.judge(ctx, found, a.kernelFact())
		locked = a.locked(a.file.Path, found, verdict, evidence)
		if verdict != Dead {
			return nil, locked
		}
		own, err = a.reclaim(ctx, found)
		if err == nil {
			a.reclaimed = locked
			if found.isReaders(a.sibling) { // who may just have left it to us
				return a.hold(own), nil
			}
			return a.hold(own, Event{Kind: Reclaimed, Holder: found.claim, Evidence: evidence}), nil
		}
		if err != errChanged {
			return nil, err
		}
	}
	if locked == nil {
		locked = a.locked(a.file.Path, nil, Unknown, Unproven)
	}
	locked.Verdict, locked.Evidence = Unknown, Unproven
	return nil, locked
}

// confirm makes a claim of ours, now whole, a Held, if the sibling still stands.
// Were it replaced while our claim was incomplete, somebody who locked the new one
// could have taken the claim for a dead writer's. From here on a replacement does no
// harm: a whole claim of a live process is nobody's to remove.
func (a *attempt) confirm(own *ownFile) (*Held, error) {
	err := a.siblingStands()
	if err == nil {
		return a.hold(own), nil
	}
	if own.nonce == own.claim.Nonce { // and not one that we joined
		err = also(err, a.discard(a.file.Path, own))
	}
	return nil, err
}

// siblingStands returns errReplaced unless the sibling is the file that we locked.
func (a *attempt) siblingStands() error {
	if a.kernel == nil {
		return nil
	}
	id, same, err := a.kernel.At(a.siblingPath())
	if err == nil && same && id == a.sibling || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errReplaced
}

// errReplaced says that the sibling was replaced, so that all must begin again.
var errReplaced = errors.New("sibling was replaced")

func (a *attempt) kernelFact() kernelFact {
	if a.kernel == nil {
		return kernelUnknown
	}
	return kernelFree
}

// kernelHolder describes who holds the busy kernel lock. passing says that there
// is no claim of theirs on disk (yet, or any more), so that another look may
// find the lock free, or its holder known.
func (a *attempt) kernelHolder() (locked *ErrLocked, passing bool) {
	found, err := a.look(a.file.Path)
	if err != nil {
		return a.locked(a.file.Path, nil, Alive, KernelLockHeld), true
	}
	locked = a.locked(a.file.Path, found, Alive, KernelLockHeld)
	if found.kind != claimReadable {
		return locked, true
	}
	l := platform.Uncertain
	if a.origin(found.claim) == originHere {
		l = platform.Probe(found.claim.process())
	}
	gone := (l == platform.Gone || l == platform.Replaced) && found.claim.Mode != modeShared
	if gone {
		locked.Info = nil // the lock is another's
	}
	return locked, gone
}

func (a *attempt) locked(path string, f *found, v Verdict, e Evidence) *ErrLocked {
	locked := &ErrLocked{RepoID: a.file.repoID, Path: path, Verdict: v, Evidence: e, now: a.now()}
	if f != nil {
		locked.Info = f.claim
	}
	return locked
}

// dropKernelLock lets go of the kernel lock, if there is one.
func (a *attempt) dropKernelLock() error {
	if a.kernel == nil {
		return nil
	}
	err := a.kernel.Unlock()
	if err == nil {
		a.kernel = nil
	}
	return err
}

// also returns err with a second error that came of dealing with it. Unlike
// errors.Join it leaves err as it is when there is none.
func also(err, second error) error {
	if second == nil {
		return err
	}
	return errors.Join(err, second)
}

// contextError is why ctx is done: its error, with the cause if there is another.
func contextError(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
