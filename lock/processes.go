package lock

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// Process is a holder or waiter, as the kernel knows it.
type Process struct {
	PID int    `json:"pid,omitempty"` // 0 where it does not say
	Cmd string `json:"cmd,omitempty"` // the name of its program; empty where that can't be seen
	// Since is when a holdfast waiter began to wait.
	Since time.Time `json:"since,omitzero"`
}

// whoHas tells who has the kernel lock of a lock file, or, without a file (nil), that of
// the sibling. It names nobody who is known to be dead, or not among the readers: a
// readers' file names the first of them, who may have left, and a lock outlives its process
// in a child. So info can be nil. Where the claim does not tell it all, the kernel's list
// is asked; a nil locks has it read then.
func (p *place) whoHas(f *finding, locks *platform.KernelLocks) (info *LockInfo, shared bool, by []Process) {
	var id platform.FileID
	if f != nil {
		info, shared = f.holder(), f.isShared()
		if f.file != nil {
			id = f.file.ID()
		} else {
			id, _ = platform.IdentifyFile(f.path)
		}
	}
	if info != nil && p.isGone(f) {
		info = nil
	}
	if info != nil && !shared {
		return info, false, nil
	}
	if locks == nil {
		all, _ := platform.ListKernelLocks()
		locks = &all
	}
	by = living(locks.Holders(id))
	if len(by) == 0 && !shared { // the holder is on its way in, or knows no other lock
		sibling, _ := platform.IdentifyFile(p.sibling)
		by = living(locks.Holders(sibling))
	}
	is := func(q Process) bool { return q.PID == info.PID }
	if info != nil && len(by) > 0 && p.origin(f.claim) == originHere && !slices.ContainsFunc(by, is) {
		info = nil
	}
	return info, shared, by
}

func (f *finding) isShared() bool { return f.claim != nil && f.claim.Mode == modeShared }

// isGone reports whether the process that a lock file names is known to have ended.
func (p *place) isGone(f *finding) bool {
	if p.origin(f.claim) != originHere {
		return false
	}
	l := platform.Probe(f.claim.process())
	return l == platform.Gone || l == platform.Replaced
}

// living returns those of the processes that still run.
func living(pids []int) (all []Process) {
	for _, pid := range pids {
		if pid > 0 && platform.Probe(platform.Process{PID: pid}) != platform.Gone {
			all = append(all, Process{PID: pid, Cmd: platform.ProgramOf(pid)})
		}
	}
	return all
}

// waiters returns those who wait in the kernel for the lock, the next one first.
func (p *place) waiters(locks platform.KernelLocks) (all []Process) {
	for _, path := range []string{p.file.Path, p.sibling} {
		id, err := platform.IdentifyFile(path)
		if err != nil {
			continue
		}
		for _, w := range locks.Waiters(id) {
			q := Process{PID: w.PID, Since: w.Since}
			if q.PID > 0 {
				q.Cmd = platform.ProgramOf(q.PID)
			}
			all = append(all, q)
		}
	}
	return all
}
