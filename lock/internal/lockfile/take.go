package lockfile

import (
	"cmp"
	"context"
	"errors"
	"io/fs"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/platform"
)

// TakeOver deals with the lock file that is there. It returns our claim if we have joined as
// one more reader, and the dead holder if the file was that one's, and is removed. The error is
// ErrMoved if another look at once is worth it, and a refusal when the lock is held, or may be.
func (t *Taker) TakeOver(ctx context.Context) (own *Own, dead *Dead, err error) {
	f, err := t.LookLocked(ctx, t.Path, t.Mode)
	if err != nil {
		return nil, nil, err
	}
	if t.Mode == platform.Shared && t.isReaders(f) {
		if err := keptBySticky(t.Path, f.Info); err != nil { // we may be the last to leave
			return nil, nil, fail.Join(err, f.Close())
		}
		t.at(StepJoined)
		return t.join(f), nil, nil
	}
	defer func() { err = fail.Join(err, f.Close()) }()
	if t.Mode == platform.Shared && f.File != nil {
		// It can't be joined, so we judge it, and for that we must be alone. A file without
		// a claim may be one that another reader is just making: we join it at the next
		// look.
		if f.Content == evidence.ContentNone {
			err = f.File.TryLock(platform.Exclusive)
		} else {
			f.File, err = t.lockOwn(ctx, f.File, t.Path, platform.Exclusive)
		}
		switch {
		case err == platform.ErrBusy && f.Content == evidence.ContentNone:
			t.at(StepNotAlone)
			err = ErrMoved
		case err == platform.ErrBusy:
			err = t.refuseLocked(t.Path, f)
		}
		if err != nil {
			return nil, nil, err
		}
		if err := f.read(t.Lock, f.File); err != nil {
			return nil, nil, fail.At("read", t.Path, err)
		}
	}
	state, why := t.Judge(ctx, f, t.KernelFact(f))
	if state != evidence.Dead {
		return nil, nil, t.refuse(Refusal{Path: t.Path, Found: f, State: state, Evidence: why})
	}
	t.at(StepJudged)
	dead = &Dead{f.Holder(), why}
	if err := t.reclaim(ctx, f, *dead); err != nil {
		return nil, nil, err
	}
	return nil, dead, nil
}

// LookLocked opens the file at path, takes its own lock (rule A), checks whether it is still
// there (rule B), and reads it. Where there are no own locks, or the file can't be opened, it
// only looks. It returns ErrMoved when the path leads elsewhere, or nowhere, and a
// refusal when the file is locked.
func (t *Taker) LookLocked(ctx context.Context, path string, mode platform.Mode) (*Finding, error) {
	f, err := t.find(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMoved
	} else if err != nil {
		return nil, fail.At("read", path, err)
	}
	if f.File == nil {
		return f, nil
	}
	read := func(file *platform.File) (*Finding, error) {
		if err := f.read(t.Lock, file); err != nil {
			return nil, fail.Join(fail.At("read", path, err), file.Close())
		}
		return f, nil
	}
	if !t.HasOwnLocks() {
		return read(f.File)
	}
	t.at(StepFound)
	file, err := t.lockOwn(ctx, f.File, path, mode)
	switch {
	case err == platform.ErrBusy:
		if _, err = read(file); err == nil {
			err = t.refuseLocked(path, f)
		}
	case errors.Is(err, errors.ErrUnsupported) && file != nil: // BreakForce has not asked the sibling
		t.FallBack()
		return read(file)
	}
	if err != nil {
		return nil, fail.Join(err, file.Close())
	}
	t.at(StepFoundLocked)
	at, err := file.IsAt(path)
	if err != nil || !at {
		return nil, fail.Join(cmp.Or(err, ErrMoved), file.Close())
	}
	t.at(StepFoundChecked)
	return read(file)
}

// HasOwnLocks reports whether files here have own locks, which stand for their holders.
func (t *Taker) HasOwnLocks() bool { return t.OwnLocks() && !t.Fallback }

// KernelFact is what we know of the own lock of a file that LookLocked returned.
func (t *Taker) KernelFact(f *Finding) evidence.KernelLock {
	if t.Fallback || f.File == nil {
		return evidence.KernelUnknown
	}
	return evidence.KernelFree
}

// refuseLocked refuses for a file that is locked.
func (t *Taker) refuseLocked(path string, f *Finding) error {
	why := evidence.KernelLockHeld
	if path != t.Path {
		why = evidence.BeingReclaimed
	}
	return t.refuse(Refusal{Path: t.Path, Found: f, State: evidence.Held, Evidence: why, ByKernel: true})
}
