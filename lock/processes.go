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
	// Stopped says of a holder that a signal (Ctrl-Z, SIGSTOP) or a debugger has stopped it
	// for now (Linux).
	Stopped bool `json:"stopped,omitempty"`
}

// kernelList is the system's list of locks. It is read when it is first needed, as that
// takes long: see platform.ListKernelLocks.
type kernelList struct {
	read  bool
	locks platform.KernelLocks
}

// noList is for those who can do without.
var noList = &kernelList{read: true}

// readList is for those who look at many locks.
func readList() *kernelList {
	l := new(kernelList)
	l.get()
	return l
}

func (l *kernelList) get() platform.KernelLocks {
	if !l.read {
		l.locks, _ = platform.ListKernelLocks()
		l.read = true
	}
	return l.locks
}

// holders are those who have a lock, as far as that can be told.
type holders struct {
	info      *LockInfo // the claim of a holder who lives
	gone      *LockInfo // the claim of one who has gone, and whose processes have the lock
	shared    bool
	processes []Process
}

// whoHas tells who has the kernel lock of a lock file, or, without a file (nil), that of
// the sibling. It names nobody who is known to be dead, or not among the readers: a
// readers' file names the first of them, who may have left, and a lock outlives its process
// in its children. So info can be nil. Where the claim does not tell it all, the kernel's
// list is asked.
func (p *place) whoHas(f *finding, list *kernelList) (who holders) {
	var id platform.FileID
	if f != nil {
		who.info, who.shared = f.holder(), f.isShared()
		if f.file != nil {
			id = f.file.ID()
		} else {
			id, _ = platform.IdentifyFile(f.path)
		}
	}
	if who.info != nil && (f.claim.released || p.isGone(f)) {
		who.info, who.gone = nil, who.info
	}
	elsewhere := f != nil && f.claim != nil && p.origin(f.claim) == originForeignNamespace
	if who.info != nil && !who.shared && !elsewhere {
		return who
	}
	locks := list.get()
	takers := locks.Holders(id)
	if elsewhere && who.info != nil && !who.shared {
		if !haveGone(takers, f.claim.PIDFD) {
			return who
		}
		who.info, who.gone = nil, who.info
	}
	// A holder who has gone may live on. If not, its pid may be another process's by now; and
	// that of another namespace means nothing here.
	isGone := func(pid int) bool {
		switch {
		case who.shared: // their claim says nothing of who has left
			return platform.HasLeft(pid, id)
		case who.gone == nil:
			return false
		case elsewhere:
			return platform.Probe(platform.Process{PID: pid, PIDFD: who.gone.PIDFD}) == platform.Alive
		}
		return pid == who.gone.PID
	}
	for _, q := range living(takers) {
		if !isGone(q.PID) {
			who.processes = append(who.processes, q)
		}
	}
	if len(who.processes) < len(takers) || len(takers) == 0 && f != nil && p.isLocked(f, list) {
		who.findHeirs(isGone, takers, locks.Heirs(id))
	} else {
		who.gone = nil
	}
	if len(who.processes) == 0 && who.gone == nil && !who.shared { // the holder is on its way in, or knows no other lock
		sibling, _ := platform.IdentifyFile(p.sibling)
		who.processes = living(locks.Holders(sibling))
	}
	is := func(q Process) bool { return q.PID == who.info.PID }
	if who.info != nil && len(who.processes)+len(takers) > 0 && p.origin(f.claim) == originHere && !slices.ContainsFunc(who.processes, is) {
		who.info = nil
	}
	return who
}

// haveGone reports whether the process of an exclusive claim from another pid namespace is
// known to have ended: who took the lock is not it. Its pid there says nothing here. The
// pids of the list do where they are visible, and so does the inode of a pidfd anywhere.
// (The list of a pid namespace leaves out a lock whose taker has gone, as it does one whose
// taker can't be seen. There nothing is known.)
func haveGone(takers []int, pidfd uint64) bool {
	for _, pid := range takers {
		l := platform.Probe(platform.Process{PID: pid, PIDFD: pidfd})
		if l != platform.Gone && l != platform.Replaced {
			return false
		}
	}
	return len(takers) > 0
}

// findHeirs adds the processes that have the lock from one that has gone.
func (who *holders) findHeirs(isGone func(pid int) bool, takers []int, heirs []platform.Heir) {
	hasGone := func(pid int) bool {
		return isGone(pid) || platform.Probe(platform.Process{PID: pid}) == platform.Gone
	}
	var pids []int
	for _, h := range heirs {
		// The kernel does not say of a taker who has gone which pid that was, in a pid namespace.
		if h.Taker == 0 || hasGone(h.Taker) {
			pids = append(pids, h.PID)
		}
	}
	slices.Sort(pids)
	found := living(slices.Compact(pids))
	who.processes = append(who.processes, found...)
	// If no heir can be seen, the list may still say that the lock was taken by the holder
	// who has gone. If it does not, somebody is only looking, or takes the lock over.
	if who.shared || len(found) == 0 && !slices.ContainsFunc(takers, hasGone) {
		who.gone = nil
	}
}

// isLocked reports whether somebody has the lock of a file that is not in the kernel's list.
// The list leaves out locks whose taker has gone (in a pid namespace), and has other names
// for files on some filesystems.
func (p *place) isLocked(f *finding, list *kernelList) bool {
	kernel, err := p.peek(f, list, false)
	return err == nil && kernel == kernelHeld
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
			all = append(all, Process{PID: pid, Cmd: platform.ProgramOf(pid), Stopped: platform.Stopped(pid)})
		}
	}
	return all
}

// waiters returns those who wait in the kernel for the lock, the next one first.
func (p *place) waiters(list *kernelList) (all []Process) {
	if !list.get().AnyWait() {
		return nil
	}
	for _, path := range []string{p.file.Path, p.sibling} {
		id, err := platform.IdentifyFile(path)
		if err != nil {
			continue
		}
		for _, w := range list.get().Waiters(id) {
			q := Process{PID: w.PID, Since: w.Since}
			if q.PID > 0 {
				q.Cmd = platform.ProgramOf(q.PID)
			}
			all = append(all, q)
		}
	}
	return all
}
