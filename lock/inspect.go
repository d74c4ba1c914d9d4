package lock

import (
	"cmp"
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

	// Fence is the last that was given to a holder: see FileHold.Fence. 0: none is known of.
	// One after which engine.NextFence has none was written by somebody else.
	Fence int64 `json:"fence,omitempty"`

	// Shared says that readers have the lock. Processes are the holders, each reader one,
	// as far as the kernel's list (Linux) tells. For an exclusive holder it is set only if
	// Info is nil.
	Shared    bool      `json:"shared,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	// Waiters are in the order of the queue, one for each process, as the kernel tells
	// (Linux). A waiter that looks from time to time is not seen. Nor does Inspect see a
	// program that waits by flock(2) alone while no holdfast waiter does; List sees it.
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
	return p.inspect(ctx, new(kernelList))
}

func (p *place) inspect(ctx context.Context, list *kernelList) (Status, error) {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return Status{}, pathError("inspect", p.file.Path, contextError(ctx))
		}
		status, by, betweenSteps, err := p.inspectOnce(ctx, list, try)
		if err != nil || !betweenSteps || try == passageTries {
			p.lookBeside(&status, by, list)
			return status, err
		}
		p.at(stepBusy)
		sleep(ctx, passage)
		list = new(kernelList) // the one we had is too old by now
	}
}

// lookBeside adds what the sibling tells: who waits, and what it remembers.
func (p *place) lookBeside(s *Status, by *claim, list *kernelList) {
	sibling, err := platform.Open(p.sibling, os.O_RDONLY)
	if err != nil {
		s.Waiters = p.waiters(list)
		return
	}
	defer sibling.Close()
	s.Fence, _, _ = readFence(sibling)
	if list.read || !p.nobodyWaits(by, sibling) {
		s.Waiters = p.waiters(list)
	}
	if s.State == StateFree {
		m, _ := readMemory(sibling)
		s.Last = m.predecessor()
	} else if !s.Shared {
		s.Note, s.NotedAt = readNote(sibling, cmp.Or(s.Info, s.Gone))
	}
}

// nobodyWaits reports whether nobody waits in the kernel who would be in its list. Whoever has
// begun to wait is at the turnstile; whoever has passed it has the sibling's lock, and waits for
// the lock file. So nobody waits if nobody is at the turnstile, and the holder has the sibling's
// lock itself. Programs that know only flock(2) are not seen so.
func (p *place) nobodyWaits(by *claim, sibling *platform.File) bool {
	if by == nil || by.QueueFD <= 0 || !p.queued() || !platform.HasLocked(by.PID, by.QueueFD, sibling.ID()) {
		return false
	}
	taken, err := sibling.TurnstileTaken()
	return err == nil && !taken
}

// saysItself reports whether the holder whom a claim names has locked its file, by the
// descriptor that the claim gives.
func (p *place) saysItself(f *finding) bool {
	c := f.claim
	return c != nil && c.ours && c.LockFD > 0 && p.origin(c) == originHere && platform.HasLocked(c.PID, c.LockFD, f.file.ID())
}

// inspectOnce looks once. betweenSteps says that somebody seems to be between two steps, so
// that another look may tell more. by is the claim of a holder who has the kernel lock.
func (p *place) inspectOnce(ctx context.Context, list *kernelList, try int) (s Status, by *claim, betweenSteps bool, err error) {
	s.Path = p.file.Path
	last := try == passageTries
	f, err := p.look(p.file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if p.isNext(&s, list) {
			return s, nil, true, nil
		}
		s.State, s.Evidence = StateFree, EvidenceNoLockFile
		return s, nil, false, nil
	} else if err != nil {
		return s, nil, false, pathError("inspect", p.file.Path, err)
	}
	defer f.close()
	kernel, err := p.peek(f, list, last)
	if err != nil {
		return s, nil, false, fmt.Errorf("lock: %w", err)
	}
	if kernel != kernelHeld && f.info.Marked() && f.content == contentNone && p.isNext(&s, list) {
		return s, nil, true, nil // whoever made the file is about to lock it
	}
	s.State, s.Evidence = p.judge(ctx, f, kernel)
	s.Info, s.NotPermitted = f.holder(), f.content == contentForbidden
	if kernel != kernelHeld && f.file != nil && !last {
		// Nobody has the lock of a file that was removed since we opened it: it was released.
		if at, err := f.file.IsAt(p.file.Path); err == nil && !at {
			return s, nil, true, nil
		}
	}
	switch s.State {
	case StateHeld:
		if s.Evidence == EvidenceKernelLockHeld {
			who := p.whoHas(f, list)
			s.Info, s.Gone, s.Shared, s.Processes = who.info, who.gone, who.shared, who.processes
			if s.Info != nil {
				by = f.claim
			}
			nobody := s.Info == nil && s.Gone == nil && !s.Shared
			return s, by, nobody || try < anothersTries && p.mayBeAnothers(f, &s), nil
		}
	case StateDead:
		p.inspectMarker(ctx, list, &s)
	case StateUnknown:
		betweenSteps = f.info.Marked() && f.content == contentNone
	}
	return s, nil, betweenSteps, nil
}

// isNext reports whether a process has the sibling's lock, and says of a lock without a claim
// that this process holds it: it is on the way in or out, for an instant or because it was
// stopped there; or a hand removed its lock file; or it knows no other lock (flock(1)).
func (p *place) isNext(s *Status, list *kernelList) bool {
	sibling, err := platform.IdentifyFile(p.sibling)
	if err != nil || !list.get().Held(sibling) {
		return false
	}
	s.State, s.Evidence = StateHeld, EvidenceKernelLockHeld
	s.Processes = p.whoHas(nil, list).processes
	return true
}

// anothersTries is how often a lock is looked at that another look may have, for an instant.
const anothersTries = 3

// mayBeAnothers reports whether a locked file may be so by another look (see peek): whoever its
// claim names has gone, or can't be seen from here.
func (p *place) mayBeAnothers(f *finding, s *Status) bool {
	if s.Gone != nil || s.Info == nil {
		return s.Gone != nil
	}
	origin := p.origin(f.claim)
	return origin == originForeignHost || origin == originEarlierBoot
}

// inspectMarker looks whether a dead holder's lock is being taken over, or seems to be.
// Nobody else can have it as long as that lasts.
func (p *place) inspectMarker(ctx context.Context, list *kernelList, s *Status) {
	m, err := p.look(p.marker)
	if err != nil {
		return
	}
	defer m.close()
	kernel, err := p.peek(m, list, true)
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
func (p *place) peek(f *finding, list *kernelList, touch bool) (kernelFact, error) {
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
		if id, err := platform.IdentifyFile(f.path); err == nil && list.get().Held(id) {
			return kernelHeld, nil
		}
		return kernelUnknown, nil
	}
	if !list.read && p.saysItself(f) || list.get().Held(file.ID()) {
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
