package lock

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// State is what Inspect finds a lock to be.
type State string

const (
	StateFree    State = "free"    // nobody has it
	StateHeld    State = "held"    // its holder is alive
	StateDead    State = "dead"    // its holder is dead; acquiring takes it over
	StateUnknown State = "unknown" // it can't be told; acquiring treats it as held
)

// NoLockFile is the evidence for StateFree.
const NoLockFile Evidence = "no lock file"

// Status is one look at a lock.
type Status struct {
	Path     string    `json:"path"`
	State    State     `json:"state"`
	Evidence Evidence  `json:"evidence"`
	Holder   *LockInfo `json:"holder,omitempty"` // nil if there is none, or it is unreadable
}

// Inspect tells who has the lock, and whether they live, by the same evidence
// that acquiring goes by. It changes nothing on disk, and where the system lists
// its locks (Linux) it does not touch a lock that is held. The answer may be out
// of date when it arrives.
func (f File) Inspect(ctx context.Context) (Status, error) {
	a, err := f.begin(platform.Exclusive)
	if err != nil {
		return Status{}, err
	}
	locks, _ := platform.ListKernelLocks()
	return a.inspect(ctx, locks)
}

func (a *attempt) inspect(ctx context.Context, locks platform.KernelLocks) (Status, error) {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return Status{}, pathError("inspect", a.file.Path, contextError(ctx))
		}
		status, passing, err := a.inspectOnce(ctx, locks)
		if err != nil || !passing || try == passageTries {
			return status, err
		}
		time.Sleep(passage)
		locks, _ = platform.ListKernelLocks() // the one we had is too old by now
	}
}

// inspectOnce looks once. passing is that of kernelHolder.
func (a *attempt) inspectOnce(ctx context.Context, locks platform.KernelLocks) (s Status, passing bool, err error) {
	s.Path = a.file.Path
	kernel, err := a.peekKernelLock(locks)
	if err != nil {
		return s, false, err
	}
	if kernel == kernelHeld {
		locked, passing := a.kernelHolder()
		s.State, s.Evidence, s.Holder = StateHeld, locked.Evidence, locked.Info
		return s, passing, nil
	}
	found, err := a.look(a.file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		s.State, s.Evidence = StateFree, NoLockFile
		return s, false, nil
	} else if err != nil {
		return s, false, pathError("inspect", a.file.Path, err)
	}
	verdict, evidence := a.judge(ctx, found, kernel)
	s.State = map[Verdict]State{Alive: StateHeld, Dead: StateDead, Unknown: StateUnknown}[verdict]
	s.Evidence, s.Holder = evidence, found.claim
	return s, false, nil
}

// peekKernelLock tells whether someone has the kernel lock. Where the system's
// list does not have it, only trying can tell; that takes the lock for an
// instant, and acquirers who meet it look again.
func (a *attempt) peekKernelLock(locks platform.KernelLocks) (kernelFact, error) {
	if a.file.noKernelLock {
		return kernelUnknown, nil
	}
	var err error
	a.sibling, err = platform.IdentifyFile(a.siblingPath())
	if errors.Is(err, fs.ErrNotExist) {
		return kernelFree, nil
	} else if err != nil {
		return kernelUnknown, pathError("inspect", a.file.Path, err)
	}
	if locks.Held(a.sibling) {
		return kernelHeld, nil
	}
	switch err := platform.PeekKernelLock(a.siblingPath()); {
	case err == nil:
		return kernelFree, nil
	case err == platform.ErrBusy:
		return kernelHeld, nil
	case errors.Is(err, fs.ErrNotExist):
		return kernelFree, nil // gone since
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errors.ErrUnsupported):
		return kernelUnknown, nil // no permission to look, or no such locks here
	default:
		return kernelUnknown, pathError("inspect", a.file.Path, err)
	}
}
