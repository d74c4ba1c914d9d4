package lock

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/platform"
)

// Process is a holder or waiter, as the kernel or an engine knows it.
type Process struct {
	PID int    `json:"pid,omitempty"` // 0 where the kernel does not say
	Cmd string `json:"cmd,omitempty"` // the name of its program; empty where that can't be seen
	// Since is when a waiter began to wait, if it is one that says so.
	Since time.Time `json:"since,omitzero"`
	// Stopped says of a holder that a signal (Ctrl-Z, SIGSTOP) or a debugger has stopped it
	// for now (Linux).
	Stopped bool `json:"stopped,omitempty"`

	// Info is its claim, on engines that have one of each; nil at lock files.
	Info *evidence.Claim `json:"claim,omitempty"`
	// Activity is what a database says of the session ("active", "idle"), and QueryStart since
	// when.
	Activity   string    `json:"activity,omitempty"`
	QueryStart time.Time `json:"query_start,omitzero"`
	// BlockedBy are the pids of the sessions in a waiter's way, where a database says so.
	// Otherwise those are the holders.
	BlockedBy []int `json:"blocked_by,omitempty"`
}

// kernelList is the system's list of locks. It is read only when it is first needed, as reading
// takes long: see platform.ListKernelLocks.
type kernelList struct {
	read  bool
	locks platform.KernelLocks
	known map[int]Process // by pid; zero for a process that has ended
}

// noList is for callers that can do without.
func noList() *kernelList { return &kernelList{read: true} }

// readList is for callers that look at many locks.
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

// holders are the holders of a lock, as far as that can be told.
type holders struct {
	info      *evidence.Claim // the claim of a holder that lives
	gone      *evidence.Claim // the claim of a holder that has gone; its processes have the lock
	shared    bool
	processes []Process
}

// whoHas names the holders of a lock file's kernel lock, or, without a file (nil), of the
// sibling's. It leaves out processes known to be dead, or known not to be among the readers: a
// readers' file names the first reader, which may have left, and a lock outlives its process
// in its children. So info can be nil. Where the claim does not tell it all, the kernel's list
// is asked.
func (p *place) whoHas(f *lockfile.Finding, list *kernelList) (who holders) {
	var id platform.FileID
	if f != nil {
		who.info, who.shared = f.Holder(), f.IsShared()
		if f.File != nil {
			id = f.File.ID()
		} else {
			id, _ = platform.IdentifyFile(f.Path)
		}
	}
	if who.info != nil && (f.Claim.Released || p.IsGone(f)) {
		who.info, who.gone = nil, who.info
	}
	elsewhere := f != nil && f.Claim != nil && p.Origin(f.Claim) == evidence.OriginForeignNamespace
	if who.info != nil && !who.shared && !elsewhere {
		return who
	}
	locks := list.get()
	takers := locks.Holders(id)
	if elsewhere && who.info != nil && !who.shared {
		if !haveGone(takers, f.Claim.PIDFD) {
			return who
		}
		who.info, who.gone = nil, who.info
	}
	// A holder that has gone may live on. If not, its pid may be another process's by now. A pid
	// of another namespace means nothing here.
	isGone := func(pid int) bool {
		switch {
		case who.shared: // their claim does not say which readers have left
			return locks.HasLeft(pid, id)
		case who.gone == nil:
			return false
		case elsewhere:
			return platform.Probe(platform.Process{PID: pid, PIDFD: who.gone.PIDFD}) == platform.Alive
		}
		return pid == who.gone.PID
	}
	for _, q := range list.living(takers) {
		if !isGone(q.PID) {
			who.processes = append(who.processes, q)
		}
	}
	if len(who.processes) < len(takers) || len(takers) == 0 && f != nil && p.isLocked(f, list) {
		who.findHeirs(isGone, takers, locks.Heirs(id), list)
	} else {
		who.gone = nil
	}
	if len(who.processes) == 0 && who.gone == nil && !who.shared { // a holder on its way in, or with only the sibling
		sibling, _ := platform.IdentifyFile(p.sibling.Path)
		who.processes = list.living(locks.Holders(sibling))
	}
	is := func(q Process) bool { return q.PID == who.info.PID }
	if who.info != nil && len(who.processes)+len(takers) > 0 && p.Origin(f.Claim) == evidence.OriginHere && !slices.ContainsFunc(who.processes, is) {
		who.info = nil
	}
	return who
}

// haveGone reports whether the process of an exclusive claim from another pid namespace is
// known to have ended: none of the takers is that process. Its pid there says nothing here.
// The pids of the list do where they are visible, and so does the inode of a pidfd anywhere.
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

// findHeirs adds the processes that have the lock from a holder that has gone.
func (who *holders) findHeirs(isGone func(pid int) bool, takers []int, heirs []platform.Heir, list *kernelList) {
	hasGone := func(pid int) bool {
		return isGone(pid) || platform.Probe(platform.Process{PID: pid}) == platform.Gone
	}
	var pids []int
	for _, h := range heirs {
		// In a pid namespace, the kernel does not give the pid of a taker that has gone.
		if h.Taker == 0 || hasGone(h.Taker) {
			pids = append(pids, h.PID)
		}
	}
	slices.Sort(pids)
	found := list.living(slices.Compact(pids))
	who.processes = append(who.processes, found...)
	// If no heir can be seen, the list may still say that the gone holder took the lock. If it
	// does not, some process is only looking, or takes the lock over.
	if who.shared || len(found) == 0 && !slices.ContainsFunc(takers, hasGone) {
		who.gone = nil
	}
}

// isLocked reports whether a file that is not in the kernel's list is locked. The list leaves
// out locks whose taker has gone (in a pid namespace), and names files differently on some
// filesystems.
func (p *place) isLocked(f *lockfile.Finding, list *kernelList) bool {
	kernel, err := p.peek(f, list, false)
	return err == nil && kernel == evidence.KernelHeld
}

// living returns those of the processes that still run. It looks at each once for each list.
func (l *kernelList) living(pids []int) (all []Process) {
	for _, pid := range pids {
		q, known := l.known[pid]
		if !known {
			if pid > 0 && platform.Probe(platform.Process{PID: pid}) != platform.Gone {
				q = Process{PID: pid, Cmd: platform.ProgramOf(pid), Stopped: platform.Stopped(pid)}
			}
			if l.known == nil {
				l.known = map[int]Process{}
			}
			l.known[pid] = q
		}
		if q.PID > 0 {
			all = append(all, q)
		}
	}
	return all
}

// waiters returns the processes that wait in the kernel for the lock, the next one first.
func (p *place) waiters(list *kernelList) (all []Process) {
	if !list.get().AnyWait() {
		return nil
	}
	for _, path := range []string{p.file.Path, p.sibling.Path} {
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
