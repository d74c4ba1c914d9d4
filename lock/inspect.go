package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/lock/internal/record"
	"github.com/holdfast-go/holdfast/platform"
)

// Status is one look at a lock: what it is, who has it, who waits, and how that is known.
type Status struct {
	// Key names it to the Locker that was asked; empty for a File.
	Key Key `json:"key,omitzero"`
	// Path is the lock file, absolute; of an engine that has none, Key.String().
	Path     string            `json:"path"`
	State    evidence.State    `json:"state"`
	Evidence evidence.Evidence `json:"evidence"`
	Info     *evidence.Claim   `json:"holder,omitempty"` // nil if there is none, it is unreadable, or its holder has gone

	// NotPermitted says that this user may not read the lock file, and so not its holder.
	NotPermitted bool `json:"not_permitted,omitempty"`

	// Gone is the claim of a holder that has gone while its processes still have the lock (see
	// FileHold.Attach). They are Processes, as far as they can be seen.
	Gone *evidence.Claim `json:"gone,omitempty"`

	// Note is what the holder, or the one that has gone, last said of its work (see
	// FileHold.Note), and NotedAt when.
	Note    string    `json:"note,omitempty"`
	NotedAt time.Time `json:"noted_at,omitzero"`

	// Last is the previous holder of a free lock: see FileHold.Predecessor.
	Last *Predecessor `json:"last,omitempty"`

	// Fence is the last that a holder was given: see FileHold.Fence. 0: none is known. A fence
	// after which engine.NextFence has none was written by somebody else.
	Fence int64 `json:"fence,omitempty"`

	// Shared says that readers have the lock. Processes are the holders, each reader one, as far
	// as the kernel's list (Linux) or the engine tells. Of a lock file's exclusive holder it is set
	// only if Info is nil.
	Shared    bool      `json:"shared,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	// Waiters are in the order of the queue, one for each process, as the kernel tells (Linux). A
	// waiter that looks from time to time is not seen. Nor does Inspect see a program that waits
	// by flock(2) alone while no holdfast waiter does; List sees it.
	Waiters []Process `json:"waiters,omitempty"`
}

// Inspect names the lock's holder, and tells whether it lives, by the same evidence as
// acquiring. It changes nothing on disk. It asks for a shared kernel lock, for an instant, so
// looks never meet, and a held lock is not touched. For a readers' lock, a file without a
// claim, and where there is no lock file, it asks for an exclusive one: two looks that meet
// there look again. The answer may be out of date when it arrives.
func (f File) Inspect(ctx context.Context) (Status, error) {
	p, err := f.locate()
	if errors.Is(err, fs.ErrNotExist) && f.isOfDir() {
		// Nobody has acquired anything in that space yet.
		path, err := absolute(f.Path)
		return Status{Path: path, State: evidence.Free, Evidence: evidence.NoLockFile}, err
	} else if err != nil {
		return Status{}, err
	}
	return p.inspect(ctx, new(kernelList))
}

func (p *place) inspect(ctx context.Context, list *kernelList) (Status, error) {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return Status{}, fail.At("inspect", p.file.Path, fail.Context(ctx))
		}
		status, look, err := p.inspectOnce(ctx, list, try == pace.Tries)
		if err != nil || !look.again || try == pace.Tries {
			p.lookBeside(&status, look.waits, list)
			return status, err
		}
		p.at(lockfile.StepBusy)
		pace.Sleep(ctx, pace.Passage)
		list = new(kernelList) // the one we had is too old by now
	}
}

// lookBeside adds what the sibling tells: the waiters, and what it remembers. waits says that
// somebody waits at the lock file. The kernel's list is read only if there are waiters, or
// that can't be told otherwise.
func (p *place) lookBeside(s *Status, waits bool, list *kernelList) {
	waits = waits || list.read || !p.sibling.Turnstile
	if sibling, err := platform.Open(p.sibling.Path, os.O_RDONLY); err == nil {
		defer sibling.Close()
		waits = waits || sibling.AnyWaits()
		m, _ := record.Read(sibling) // nothing, if it can't be read
		s.Fence = m.Fence
		if s.State == evidence.Free {
			s.Last = predecessorOf(m.Last(nil))
		} else if !s.Shared {
			s.readNote(&m)
		}
	}
	if waits {
		s.Waiters = p.waiters(list)
	}
}

// A glance is what inspectOnce learns beside a Status.
type glance struct {
	again bool // a process seems to be between two steps, so another look may tell more
	waits bool // somebody waits at the lock file
}

// inspectOnce looks once. The last look touches what it would otherwise leave to its maker.
func (p *place) inspectOnce(ctx context.Context, list *kernelList, last bool) (s Status, g glance, err error) {
	s.Path = p.file.Path
	f, err := p.Look(p.file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if g.again = p.isNext(&s, list); !g.again {
			s.State, s.Evidence = evidence.Free, evidence.NoLockFile
		}
		return s, g, nil
	} else if err != nil {
		return s, g, fail.At("inspect", p.file.Path, err)
	}
	defer f.Close()
	kernel, err := p.peek(f, list, last)
	if err != nil {
		return s, g, fmt.Errorf("lock: %w", err)
	}
	if kernel != evidence.KernelHeld && f.Info.Marked() && f.Content == evidence.ContentNone && p.isNext(&s, list) {
		return s, glance{again: true}, nil // the file's maker is about to lock it
	}
	s.State, s.Evidence = p.Judge(ctx, f, kernel)
	s.Info, s.NotPermitted = f.Holder(), f.Content == evidence.ContentForbidden
	g.waits = f.File != nil && f.File.AnyWaits()
	if kernel != evidence.KernelHeld && f.File != nil && !last {
		// A file that was removed since we opened it, and is not locked, was released.
		if at, err := f.File.IsAt(p.file.Path); err == nil && !at {
			return s, glance{again: true}, nil
		}
	}
	switch s.State {
	case evidence.Held:
		if s.Evidence == evidence.KernelLockHeld {
			who := p.whoHas(f, list)
			s.Info, s.Gone, s.Shared, s.Processes = who.info, who.gone, who.shared, who.processes
			g.again = s.Info == nil && s.Gone == nil && !s.Shared
		}
	case evidence.Dead:
		p.inspectMarker(ctx, list, &s)
	case evidence.Unknown:
		g.again = f.Info.Marked() && f.Content == evidence.ContentNone
	}
	return s, g, nil
}

// isNext reports whether a process has the sibling's lock, and says of a lock without a claim
// that this process holds it. That process is on the way in or out, for an instant or because
// it was stopped there; or its lock file was removed; or it knows no other lock (flock(1)).
func (p *place) isNext(s *Status, list *kernelList) bool {
	if !p.siblingLocked(list) {
		return false
	}
	s.State, s.Evidence = evidence.Held, evidence.KernelLockHeld
	s.Processes = p.whoHas(nil, list).processes
	return true
}

// siblingLocked reports whether the sibling is locked. It asks for the lock, for an instant:
// reading the kernel's list would cost the whole machine more. It asks for the exclusive one,
// as readers whose lock file was removed have it shared.
func (p *place) siblingLocked(list *kernelList) bool {
	if p.file.noKernelLock {
		return false
	}
	sibling, err := platform.Open(p.sibling.Path, os.O_RDONLY)
	if err != nil {
		id, err := platform.IdentifyFile(p.sibling.Path)
		return err == nil && list.get().Held(id)
	}
	defer sibling.Close()
	return sibling.TryLock(platform.Exclusive) == platform.ErrBusy
}

// inspectMarker checks whether a dead holder's lock is being taken over, or seems to be. While
// that lasts, nobody else can acquire it.
func (p *place) inspectMarker(ctx context.Context, list *kernelList, s *Status) {
	m, err := p.Look(p.Marker)
	if err != nil {
		return
	}
	defer m.Close()
	kernel, err := p.peek(m, list, true)
	if err != nil {
		return
	}
	state, _ := p.Judge(ctx, m, kernel)
	if state == evidence.Dead || p.IsAbandoned(m) {
		return
	}
	s.State, s.Evidence, s.Info = state, evidence.BeingReclaimed, m.Holder()
}

// peek tells whether the own lock of a file is taken. Only trying can tell. An exclusive
// holder's file is tried for a shared lock, so two that look are not in each other's way;
// others for an exclusive one, as a shared one would pass for a reader's. A process that meets
// that looks again. A file that is just being made is left alone, unless touch says that it
// has been for long.
func (p *place) peek(f *lockfile.Finding, list *kernelList, touch bool) (evidence.KernelLock, error) {
	if p.file.noKernelLock {
		return evidence.KernelUnknown, nil
	}
	file, mode := f.File, platform.Exclusive
	if f.Claim != nil && !f.IsShared() {
		mode = platform.Shared
	}
	if !platform.OwnLocks {
		sibling, err := platform.Open(p.sibling.Path, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			return evidence.KernelFree, nil
		} else if err != nil {
			return evidence.KernelUnknown, nil
		}
		defer sibling.Close()
		file = sibling
	}
	isMaking := f.Info.Marked() && f.Content == evidence.ContentNone && !touch
	if file == nil || isMaking { // the list may have it
		if id, err := platform.IdentifyFile(f.Path); err == nil && list.get().Held(id) {
			return evidence.KernelHeld, nil
		}
		return evidence.KernelUnknown, nil
	}
	switch err := file.TryLock(mode); {
	case err == nil:
		p.at(lockfile.StepPeeked)
		return evidence.KernelFree, file.Unlock()
	case err == platform.ErrBusy:
		return evidence.KernelHeld, nil
	default:
		// There are no locks here; or, on NFSv4, none for a file that is open for reading.
		return evidence.KernelUnknown, nil
	}
}
