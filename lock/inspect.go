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

// Status is one look at a lock.
type Status struct {
	Path     string    `json:"path"`
	State    State     `json:"state"`
	Evidence Evidence  `json:"evidence"`
	Info     *LockInfo `json:"holder,omitempty"` // nil if there is none, it is unreadable, or its holder has gone

	// NotPermitted says that this user may not read the lock file, and so not who has it.
	NotPermitted bool `json:"not_permitted,omitempty"`

	// Gone is the claim of a holder who has gone, and whose processes still have the lock
	// (see FileHold.Attach). They are Processes, as far as they can be seen.
	Gone *LockInfo `json:"gone,omitempty"`

	// Note is what the holder, or the one who has gone, last said of its work (see
	// FileHold.Note), and NotedAt when.
	Note    string    `json:"note,omitempty"`
	NotedAt time.Time `json:"noted_at,omitzero"`

	// Last is who had a free lock before: see FileHold.Predecessor.
	Last *Predecessor `json:"last,omitempty"`

	// Shared says that readers have the lock. Processes are the holders, each reader one,
	// as far as the kernel's list (Linux) tells. For an exclusive holder it is set only if
	// Info is nil.
	Shared    bool      `json:"shared,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	// Waiters are in the order of the queue, one for each process, as the kernel tells
	// (Linux). A waiter that looks from time to time is not seen.
	Waiters []Process `json:"waiters,omitempty"`
}

// Inspect tells who has the lock, and whether they live, by the same evidence as acquiring.
// It changes nothing on disk. Where the system lists its locks (Linux), it does not touch a
// lock that is held. The answer may be out of date when it arrives.
func (f File) Inspect(ctx context.Context) (Status, error) {
	p, err := f.locate()
	if errors.Is(err, fs.ErrNotExist) && f.isOfDir() {
		// Nobody has acquired anything in that space yet.
		path, err := absolute(f.Path)
		return Status{Path: path, State: StateFree, Evidence: EvidenceNoLockFile}, err
	} else if err != nil {
		return Status{}, err
	}
	locks, _ := platform.ListKernelLocks()
	return p.inspect(ctx, locks)
}

func (p *place) inspect(ctx context.Context, locks platform.KernelLocks) (Status, error) {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return Status{}, pathError("inspect", p.file.Path, contextError(ctx))
		}
		last := try == passageTries
		status, betweenSteps, err := p.inspectOnce(ctx, locks, last)
		if err != nil || !betweenSteps || last {
			status.Waiters = p.waiters(locks)
			p.remember(&status)
			return status, err
		}
		sleep(ctx, passage)
		locks, _ = platform.ListKernelLocks() // the one we had is too old by now
	}
}

// remember adds what the sibling remembers.
func (p *place) remember(s *Status) {
	m := p.memory()
	if s.State == StateFree {
		s.Last = m.predecessor()
	} else if !s.Shared {
		s.Note, s.NotedAt = m.noteOf(s.Info, s.Gone)
	}
}

// inspectOnce looks once. betweenSteps says that somebody seems to be between two steps, so
// that another look may tell more. last says that there will be no other look.
func (p *place) inspectOnce(ctx context.Context, locks platform.KernelLocks, last bool) (s Status, betweenSteps bool, err error) {
	s.Path = p.file.Path
	f, err := p.look(p.file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		// Whoever has the sibling's lock is on the way in or out; or a hand removed their
		// lock file; or they know no other lock (flock(1)).
		if sibling, err := platform.IdentifyFile(p.sibling); err == nil && locks.Held(sibling) {
			s.State, s.Evidence = StateHeld, EvidenceKernelLockHeld
			s.Processes = p.whoHas(nil, &locks).processes
			return s, true, nil
		}
		s.State, s.Evidence = StateFree, EvidenceNoLockFile
		return s, false, nil
	} else if err != nil {
		return s, false, pathError("inspect", p.file.Path, err)
	}
	defer f.close()
	kernel, err := p.peek(f, locks, last)
	if err != nil {
		return s, false, fmt.Errorf("lock: %w", err)
	}
	s.State, s.Evidence = p.judge(ctx, f, kernel)
	s.Info, s.NotPermitted = f.holder(), f.content == contentForbidden
	if kernel != kernelHeld && f.file != nil && !last {
		// Nobody has the lock of a file that was removed since we opened it: it was released.
		if at, err := f.file.IsAt(p.file.Path); err == nil && !at {
			return s, true, nil
		}
	}
	switch s.State {
	case StateHeld:
		if s.Evidence == EvidenceKernelLockHeld {
			who := p.whoHas(f, &locks)
			s.Info, s.Gone, s.Shared, s.Processes = who.info, who.gone, who.shared, who.processes
			return s, s.Info == nil && s.Gone == nil && !s.Shared, nil
		}
	case StateDead:
		p.inspectMarker(ctx, locks, &s)
	case StateUnknown:
		betweenSteps = f.info.Marked() && f.content == contentNone
	}
	return s, betweenSteps, nil
}

// inspectMarker looks whether a dead holder's lock is being taken over, or seems to be.
// Nobody else can have it as long as that lasts.
func (p *place) inspectMarker(ctx context.Context, locks platform.KernelLocks, s *Status) {
	m, err := p.look(p.marker)
	if err != nil {
		return
	}
	defer m.close()
	kernel, err := p.peek(m, locks, true)
	if err != nil {
		return
	}
	state, _ := p.judge(ctx, m, kernel)
	if state == StateDead || p.isAbandoned(m) {
		return
	}
	s.State, s.Evidence, s.Info = state, EvidenceBeingReclaimed, m.holder()
}

// peek tells whether someone has the own lock of a file. If the system's list does not have
// it, only trying can tell. That takes the lock for an instant, and whoever meets it looks
// again. A file that is just being made is left alone, unless touch says that it has been
// for long.
func (p *place) peek(f *finding, locks platform.KernelLocks, touch bool) (kernelFact, error) {
	if p.file.noKernelLock {
		return kernelUnknown, nil
	}
	file := f.file
	if !platform.OwnLocks {
		sibling, err := platform.Open(p.sibling, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			return kernelFree, nil
		} else if err != nil {
			return kernelUnknown, nil
		}
		defer sibling.Close()
		file = sibling
	}
	if file == nil { // it can't be opened, but the list may have it
		if id, err := platform.IdentifyFile(f.path); err == nil && locks.Held(id) {
			return kernelHeld, nil
		}
		return kernelUnknown, nil
	}
	if locks.Held(file.ID()) {
		return kernelHeld, nil
	}
	if f.info.Marked() && f.content == contentNone && !touch {
		return kernelUnknown, nil
	}
	switch err := file.TryLock(platform.Exclusive); {
	case err == nil:
		p.at(stepPeeked)
		return kernelFree, file.Unlock()
	case err == platform.ErrBusy:
		return kernelHeld, nil
	default:
		// There are no locks here; or, on NFSv4, none for a file that is open for reading.
		return kernelUnknown, nil
	}
}
