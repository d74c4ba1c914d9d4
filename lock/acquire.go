package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// The protocol, in the order in which an acquisition goes through it:
//
//	1  takeSibling  the kernel lock on the sibling: the queue
//	2  create       the lock file, marked, with its own lock, and then the claim
//	3  takeOver     a file that is there already: its own lock, a judgement, reclaim
//
// It rests on two rules:
//
//	A  Whoever joins, replaces or removes a lock file (or a marker) has the kernel lock
//	   of that very file: exclusive, or shared to join as a reader. Whoever creates one
//	   takes its lock before anything else, and waits for those who only look.
//	B  Whoever has that lock looks whether the path still leads to that file, and acts
//	   on the path only if it does.
//
// So between participants nobody's file is ever removed or replaced under them. Whoever
// would remove it needs the lock that its owner has (A). A file that is locked, and not at
// the path, is nobody's lock (B). The fate of the sibling decides only who is next. A
// program that knows none of this can remove any file at any time.
//
// A and B are kept where a file is created (create), where one that is there is locked and
// read (lookLocked), and where one is removed (remove; for files of our own removeLockFile,
// clear, discard and abandon). On Windows a locked file can't be read, and an open one
// can't be removed. There the sibling's lock stands for the lock of every file beside it.

// An attempt is one try for a lock, or one wait for it. It belongs to one goroutine until
// it becomes part of a FileHold.
type attempt struct {
	place
	mode     platform.Mode
	patience patience
	begun    time.Time
	nonce    string // of its claims

	// siblingLock is the sibling, open and locked. It is nil before step 1, and in fallback
	// mode.
	siblingLock *platform.File
	siblingInfo platform.Info // of siblingLock, as we found it
	siblingGone bool          // siblingLock was removed since, or replaced
	fallback    bool          // the kernel has no locks here, as step 1 has found

	// reclaimed is the dead holder that the lock was taken over from; nil if it was free.
	reclaimed *ErrLocked
	// untold is reclaimed, if that could not be written into the sibling.
	untold *ErrLocked
}

// patience is the difference between Acquire and TryAcquire: how long to wait for others.
type patience interface {
	// lockSibling is step 1: it opens and locks the sibling.
	lockSibling(ctx context.Context, a *attempt) (*platform.File, error)
	// lockOwn takes the own lock of f, which was opened at path. With the lock it returns
	// f, or another open file of the same. It returns nil if f was left to a thread that
	// waits. The error is errMoved when the path leads elsewhere by now, and
	// platform.ErrBusy when it no longer waits for whoever has the lock.
	lockOwn(ctx context.Context, a *attempt, f *platform.File, path string, mode platform.Mode) (*platform.File, error)
	// lookAgain waits before the next look. looked counts the looks so far. locked is the
	// holder that the last one found, for whom no kernel lock stands; nil if others have
	// just moved something. It returns the error to give up with.
	lookAgain(ctx context.Context, a *attempt, looked int, locked *ErrLocked) error
}

func (f File) attempt(mode platform.Mode, patience patience) (*attempt, error) {
	if err := f.makeFolders(); err != nil {
		return nil, err
	}
	p, err := f.locate()
	if err != nil {
		return nil, err
	}
	if !p.shares() {
		mode = platform.Exclusive
	}
	return &attempt{place: p, mode: mode, patience: patience, begun: time.Now(), nonce: newNonce()}, nil
}

// acquire goes through the protocol. On failure nothing is held, and no file of ours left.
func (a *attempt) acquire(ctx context.Context) (held *FileHold, err error) {
	if a.file.RequireKernelLock && (!a.fsys.Trusted || a.file.noKernelLock) {
		return nil, a.unsupported()
	}
	defer func() {
		if held == nil {
			err = joined(err, a.siblingLock.Close())
			a.tidyUp()
		}
	}()
	if err := a.takeSibling(ctx); err != nil {
		return nil, err
	}
	for round := 1; ; round++ {
		if ctx.Err() != nil { // cancel beats acquire
			return nil, pathError("acquire", a.file.Path, contextError(ctx))
		}
		own, err := a.create(ctx, a.file.Path, a.mode, createSteps)
		a.leaveTurnstile()
		if err == nil {
			return a.hold(own), nil
		}
		var locked *ErrLocked
		if errors.Is(err, fs.ErrExist) {
			own, err = a.takeOver(ctx)
			if own != nil {
				return a.hold(own), nil
			}
		}
		switch {
		case err == nil: // the dead holder's file is gone: create ours
			continue
		case errors.As(err, &locked):
		case err != errMoved:
			return nil, err
		default: // the queue may have moved as well, with its folder
			if err := a.takeSibling(ctx); err != nil {
				return nil, err
			}
		}
		if err := a.patience.lookAgain(ctx, a, round, locked); err != nil {
			return nil, err
		}
	}
}

// takeSibling is step 1: a place in the queue. Called again, it keeps a sibling that is
// still there.
func (a *attempt) takeSibling(ctx context.Context) error {
	if a.file.noKernelLock {
		a.fallBack()
		return nil
	}
	if a.siblingLock != nil {
		if stands, err := a.siblingLock.IsAt(a.sibling); err != nil || stands {
			return err
		}
		if err := a.siblingLock.Close(); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		a.siblingLock = nil
	}
	for round := 1; ; round++ {
		f, err := a.patience.lockSibling(ctx, a)
		if err != nil && f != nil {
			_ = f.Close() // it has no lock
		}
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			if a.file.RequireKernelLock {
				return a.unsupported()
			}
			a.fallBack()
			return nil
		case err != nil:
			return err
		}
		a.at(stepSiblingLocked)
		// Somebody may have removed it before we had its lock (see tidy), and others may
		// stand at a new one. Then there would be two queues, and one would look empty to
		// whoever tidies up.
		info, err := f.Stat()
		if err == nil && info.Links > 0 {
			a.siblingLock, a.siblingInfo, a.siblingGone = f, info, false
			a.at(stepSiblingChecked)
			return nil
		}
		if err := joined(err, f.Close()); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if err := a.patience.lookAgain(ctx, a, round, nil); err != nil {
			return pathError("acquire", a.file.Path, errors.New("the file beside it, "+siblingSuffix+", keeps being replaced"))
		}
	}
}

// leaveTurnstile lets the next one come to the sibling. Whoever waited has kept the turnstile
// until now, and not only until the sibling was theirs: whoever has just released, and comes
// back at once, finds it taken, and stands behind those who have waited for it.
func (a *attempt) leaveTurnstile() {
	if a.siblingLock != nil {
		a.siblingLock.LeaveTurnstile()
	}
}

// fallBack goes on without kernel locks, where shared means exclusive.
func (a *attempt) fallBack() { a.fallback, a.mode = true, platform.Exclusive }

// takeOver is step 3: it deals with the lock file that is there. It returns our claim if we
// have joined as one more reader; neither claim nor error if the file was a dead holder's,
// and is removed; errMoved if another look at once is worth it; and an *ErrLocked when
// somebody has the lock, or may have it.
func (a *attempt) takeOver(ctx context.Context) (own *ownFile, err error) {
	f, err := a.lookLocked(ctx, a.file.Path, a.mode)
	if err != nil {
		return nil, err
	}
	if a.mode == platform.Shared && a.isReaders(f) {
		if err := keptBySticky(a.file.Path, f.info); err != nil { // we may be the last to leave
			return nil, joined(err, f.close())
		}
		a.at(stepJoined)
		return a.join(f), nil
	}
	defer func() { err = joined(err, f.close()) }()
	if a.mode == platform.Shared && f.file != nil {
		// It can't be joined, so we judge it, and for that we must be alone. A file without
		// a claim may be one that another reader is just making: we join it at the next
		// look.
		if f.content == contentNone {
			err = f.file.TryLock(platform.Exclusive)
		} else {
			f.file, err = a.patience.lockOwn(ctx, a, f.file, a.file.Path, platform.Exclusive)
		}
		switch {
		case err == platform.ErrBusy && f.content == contentNone:
			a.at(stepNotAlone)
			err = errMoved
		case err == platform.ErrBusy:
			err = a.lockedByKernel(a.file.Path, f, a.siblingLock)
		}
		if err != nil {
			return nil, err
		}
		if err := f.read(&a.place, f.file); err != nil {
			return nil, pathError("read", a.file.Path, err)
		}
	}
	state, evidence := a.judge(ctx, f, a.kernelFactOf(f))
	locked := a.locked(a.file.Path, f, state, evidence)
	if state != StateDead {
		a.addNote(locked, a.siblingLock)
		return nil, locked
	}
	a.at(stepJudged)
	if err := a.reclaim(ctx, f, locked); err != nil {
		return nil, err
	}
	a.reclaimed = locked
	return nil, nil
}

// lookLocked opens the file at path, takes its own lock (rule A), looks whether it is still
// there (rule B), and reads it. Where there are no own locks, or the file can't be opened,
// it only looks. It returns errMoved when the path leads elsewhere, or nowhere, and an
// *ErrLocked when somebody has the file's lock.
func (a *attempt) lookLocked(ctx context.Context, path string, mode platform.Mode) (*finding, error) {
	f, err := a.find(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errMoved
	} else if err != nil {
		return nil, pathError("read", path, err)
	}
	if f.file == nil {
		return f, nil
	}
	read := func(file *platform.File) (*finding, error) {
		if err := f.read(&a.place, file); err != nil {
			return nil, joined(pathError("read", path, err), file.Close())
		}
		return f, nil
	}
	if !a.hasOwnLocks() {
		return read(f.file)
	}
	a.at(stepFound)
	file, err := a.patience.lockOwn(ctx, a, f.file, path, mode)
	switch {
	case err == platform.ErrBusy:
		if _, err = read(file); err == nil {
			err = a.lockedByKernel(path, f, a.siblingLock)
		}
	case errors.Is(err, errors.ErrUnsupported) && file != nil: // BreakForce has not asked the sibling
		a.fallBack()
		return read(file)
	}
	if err != nil {
		return nil, joined(err, file.Close())
	}
	a.at(stepFoundLocked)
	at, err := file.IsAt(path)
	if err != nil || !at {
		return nil, joined(cmp.Or(err, errMoved), file.Close())
	}
	a.at(stepFoundChecked)
	return read(file)
}

// hasOwnLocks reports whether files here have own locks, which stand for their holders.
func (a *attempt) hasOwnLocks() bool { return a.ownLocks() && !a.fallback }

// kernelFactOf is what we know of the own lock of a file that lookLocked returned.
func (a *attempt) kernelFactOf(f *finding) kernelFact {
	if a.fallback || f.file == nil {
		return kernelUnknown
	}
	return kernelFree
}

func (a *attempt) unsupported() error {
	return fmt.Errorf("lock: %s on %s: %w", a.file.Path, a.fsys.Kind, ErrUnsupported)
}

// lockedByKernel describes a lock whose file somebody has locked. That may be somebody else
// than the claim names, whose process may be gone.
func (p *place) lockedByKernel(path string, f *finding, sibling *platform.File) *ErrLocked {
	locked := p.locked(path, nil, StateHeld, EvidenceKernelLockHeld)
	who := p.whoHas(f, new(kernelList))
	locked.Info, locked.Gone, locked.Shared, locked.Processes = who.info, who.gone, who.shared, who.processes
	p.addNote(locked, sibling)
	return locked
}

func (p *place) locked(path string, f *finding, s State, e Evidence) *ErrLocked {
	locked := &ErrLocked{RepoID: p.file.repoID, Path: path, State: s, Evidence: e, now: p.now()}
	if f != nil {
		locked.Info = f.holder()
	}
	return locked
}
