package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
// not wait.
//
// On success the lock file names this process, and the Held releases it. When
// somebody has the lock, or may have, the error is an *ErrLocked. With any error
// nothing is held and nothing of others' has been changed; the sibling may have
// been created, and claims of dead holders removed.
//
// Acquiring a lock that another goroutine of the same process holds is
// contention like any other.
func (f File) TryAcquire(ctx context.Context) (*Held, error) {
	a, err := f.begin()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return nil, pathError("acquire", a.file.Path, context.Cause(ctx))
		}
		err := a.takeKernelLock(platform.TryKernelLock)
		if err == nil {
			return a.claim(ctx)
		}
		if err != platform.ErrBusy {
			return nil, err
		}
		locked, passing := a.kernelHolder()
		if !passing || try == passageTries {
			return nil, locked
		}
		time.Sleep(passage)
	}
}

// takeKernelLock is steps 1 and 2 of the protocol. It returns nil without a
// kernel lock in fallback mode, and platform.ErrBusy as it is.
func (a *attempt) takeKernelLock(take func(string, platform.Mode) (*platform.KernelLock, error)) error {
	if a.file.noKernelLock {
		take = noKernelLock
	}
	for range siblingTries {
		// 1. Take the kernel lock on the sibling.
		kernel, err := take(a.siblingPath(), platform.Exclusive)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			if a.file.RequireKernelLock {
				return fmt.Errorf("lock: %s on %s: %w", a.file.Path, a.fsys.Kind, ErrUnsupported)
			}
			return nil
		case err == platform.ErrBusy:
			return err
		case err != nil:
			return fmt.Errorf("lock: %w", err)
		}
		if a.file.RequireKernelLock && !a.fsys.Trusted {
			return also(fmt.Errorf("lock: %s on %s: %w", a.file.Path, a.fsys.Kind, ErrUnsupported), kernel.Unlock())
		}
		a.at(stepKernelLocked)

		// 2. Is the file that we locked still the sibling? If someone replaced
		// it in between, another process may be locking the new one. From here
		// on a replacement does no harm: the lock file stands.
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
// Invariant: where there is a kernel lock we hold it from before the lock file
// is created or replaced until after it is removed, so whoever comes to step 3
// and finds a claim made under this sibling's lock finds a dead holder's.
func (a *attempt) claim(ctx context.Context) (held *Held, err error) {
	defer func() {
		if held == nil {
			err = also(err, a.dropKernelLock())
		}
	}()
	var locked *ErrLocked
	for range claimTries {
		// Cancel beats acquire.
		if ctx.Err() != nil {
			return nil, pathError("acquire", a.file.Path, context.Cause(ctx))
		}
		// 3. Create the lock file.
		own, err := a.publish(a.file.Path, stepCreated, stepWritten, stepComplete)
		if err == nil {
			return a.hold(own), nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		// 4. Judge the claim that is there.
		found, err := look(a.file.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // released since
		} else if err != nil {
			return nil, pathError("read", a.file.Path, err)
		}
		verdict, evidence := a.judge(ctx, found, a.kernelFact())
		locked = a.locked(a.file.Path, found, verdict, evidence)
		if verdict != Dead {
			return nil, locked
		}
		own, err = a.reclaim(ctx, found)
		if err == nil {
			return a.hold(own), nil
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

// ownFile is a complete claim of ours on disk.
type ownFile struct {
	claim LockInfo
	info  fs.FileInfo
	// open is the file itself, where the claim must be renewed in place.
	open *os.File
}

// publish creates the file at path with a claim of ours. Under a kernel lock the
// file says until the claim is whole that it isn't, by the act that creates it: a
// crash in between leaves something that anyone can tell from a claim. When it fails nothing of ours is
// left; the error matches fs.ErrExist when something is there already.
func (a *attempt) publish(path string, created, written, complete step) (*ownFile, error) {
	own := &ownFile{claim: a.newClaim()}
	data, err := own.claim.encode()
	if err != nil {
		return nil, err
	}
	create, finish := platform.CreateIncomplete, platform.MarkComplete
	if a.kernel == nil {
		// The mark says "under a kernel lock". Somebody who has one must not find
		// it on a file that is just being written without.
		create, finish = platform.Create, func(*os.File) error { return nil }
	}
	f, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	a.at(created)
	_, err = f.Write(data)
	if err == nil {
		a.at(written)
		err = finish(f)
	}
	if err == nil {
		own.info, err = f.Stat()
	}
	if err == nil && a.renews() {
		own.open = f
	} else {
		err = also(err, f.Close()) // a full disk may show only here
	}
	if err != nil {
		return nil, also(fmt.Errorf("lock: %w", err), platform.Remove(path))
	}
	a.at(complete)
	return own, nil
}

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
	found, err := look(a.file.Path)
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
	gone := l == platform.Gone || l == platform.Replaced
	return locked, gone && found.claim.Mode != modeShared
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

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
