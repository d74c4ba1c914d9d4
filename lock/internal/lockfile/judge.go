package lockfile

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// exitGrace is how long a process may take between letting go of its kernel lock and being
// gone. Measured: milliseconds, in half of all kills.
const exitGrace = 250 * time.Millisecond

// Judge gathers the facts on what was found, and puts them to the ladder. It waits a little
// for a dying process, unless ctx is done.
func (l *Lock) Judge(ctx context.Context, f *Finding, kernel evidence.KernelLock) (evidence.State, evidence.Evidence) {
	facts := l.facts(f, kernel)
	s, e := evidence.Judge(facts)
	if e == evidence.SameProcess && facts.UnderLock && facts.SameKind && facts.Kernel == evidence.KernelFree {
		// The holder lives, yet its kernel lock is free: it is dying.
		l.at(StepDying)
		facts.Process = life[platform.AwaitExit(ctx, process(f.Claim), exitGrace)]
		s, e = evidence.Judge(facts)
	}
	return s, e
}

func (l *Lock) facts(f *Finding, kernel evidence.KernelLock) evidence.Facts {
	facts := evidence.Facts{
		Kernel:     kernel,
		Trusted:    l.Fsys.Trusted,
		Content:    f.Content,
		Marked:     l.marks() && f.Info.Marked() && f.isDebris(), // in somebody's data the bit means nothing
		NULs:       f.isNULs() && l.isLeft(f),                    // another program may write NULs first
		Age:        l.Now().Sub(f.Info.Modified),
		StaleAfter: l.Span(),
	}
	c := f.Claim
	if c == nil {
		// A program that locks its file in another way (fcntl) may leave it empty.
		if kernel != evidence.KernelHeld && f.File != nil && f.Content == evidence.ContentNone && f.File.HasByteLock() {
			facts.Kernel = evidence.KernelHeld
		}
		return facts
	}
	facts.Released = c.Released
	facts.Origin = l.Origin(c)
	facts.Shared = c.Mode == evidence.ModeShared
	facts.Age = l.Now().Sub(c.Renewed())
	if c.StaleAfter != 0 && facts.StaleAfter >= 0 {
		facts.StaleAfter = c.StaleAfter
	}
	if facts.UnderLock = c.KernelLock != ""; facts.UnderLock {
		facts.SameKind, facts.Copied = l.asLock(c.KernelLock, f.File.ID())
	}
	// A holder that could not remove its marked file may have taken the mark away instead:
	// see SayReleased. (On Windows nobody can take it away, and Wine forgets it.)
	if kernel == evidence.KernelFree && facts.SameKind && !facts.Copied && l.marks() && platform.OwnLocks && !f.Info.Marked() {
		facts.Released = true
	}
	if facts.Origin == evidence.OriginHere && kernel != evidence.KernelHeld {
		facts.Process = life[platform.Probe(process(c))]
		if facts.Process == evidence.Exists {
			began, known := platform.Began(c.PID)
			facts.Began = known && began.Before(c.CreatedAt.Add(timeGranularity))
		}
	}
	if l.Amend != nil && kernel != evidence.KernelHeld {
		l.Amend(c, &facts)
	}
	return facts
}

// timeGranularity is how coarse the time in another program's claim may be.
const timeGranularity = time.Second

// Origin tells where a claim was made. A claim of another program counts as made in this boot
// and pid namespace, unless it names another host, or lies where another host may have put it.
// One of ours must say so.
func (l *Lock) Origin(c *evidence.Said) evidence.Origin {
	self, host := platform.Self(), platform.ThisHost()
	sameHost := c.Hostname == "" || c.Hostname == host.Name
	if !c.Ours || c.BootID == "" && host.BootID == "" { // a system without boot ids
		if sameHost && l.Fsys.Trusted {
			return evidence.OriginHere
		}
		return evidence.OriginForeignHost
	}
	switch {
	case c.BootID == "" || host.BootID == "":
		return evidence.OriginForeignHost
	case c.BootID != host.BootID && sameHost:
		return evidence.OriginEarlierBoot
	case c.BootID != host.BootID:
		return evidence.OriginForeignHost
	case c.PIDNamespace != self.PIDNamespace:
		return evidence.OriginForeignNamespace
	}
	return evidence.OriginHere
}

// process is the process that a claim names.
func process(c *evidence.Said) platform.Process {
	return platform.Process{
		PID: c.PID, Start: c.Start, PIDFD: c.PIDFD,
		PIDNamespace: c.PIDNamespace, TimeNamespace: c.TimeNamespace,
	}
}

// life has what the kernel knows of a process in the ladder's words.
var life = [...]evidence.Life{
	platform.Uncertain: evidence.Uncertain, platform.Exists: evidence.Exists, platform.Alive: evidence.Alive,
	platform.Gone: evidence.Gone, platform.Replaced: evidence.Replaced,
}

// lockName is what a claim says of the kernel lock on a file. asLock tells how far that names
// a lock that we can ask about. (An overlay and the folder underneath have the same files with
// other locks, but are two kinds of filesystem. A file has one device. Another number in its
// claim means that the filesystem was mounted anew, or that the file is a copy.)
func (l *Lock) lockName(id platform.FileID) string {
	b := append(make([]byte, 0, 64), l.Fsys.Kind...)
	b = strconv.AppendUint(append(b, ':'), id.Dev, 10)
	b = strconv.AppendUint(append(b, ':'), id.Ino, 10)
	return string(b)
}

// asLock reports whether a claim, which lies in this file, names a kernel lock that can be
// asked about here. copied says that the claim was written to another file.
func (l *Lock) asLock(name string, in platform.FileID) (ours, copied bool) {
	if !platform.OwnLocks { // it names the sibling
		id, err := platform.IdentifyFile(l.Stands)
		return err == nil && name == l.lockName(id), false
	}
	kind, device, _ := strings.Cut(name, ":")
	_, inode, _ := strings.Cut(device, ":")
	ours = kind == l.Fsys.Kind
	return ours, ours && inode != strconv.FormatUint(in.Ino, 10)
}

// IsAbandoned reports whether a dead process left a marker without a claim, such as those of
// entwurf's dispatchers. A maker has its marker open for as long as it stands, and nobody has
// this one open. (A lock file may be empty and not open, and yet be somebody's.)
func (l *Lock) IsAbandoned(f *Finding) bool { return f.Info.Size == 0 && l.isLeft(f) }

// isLeft reports whether no process that could write a claim to a file has it open. That can be
// told where one kernel has all such processes.
func (l *Lock) isLeft(f *Finding) bool {
	if !l.Shares() || f.File == nil {
		return false
	}
	// Its maker may be on the way into open(2), or between close and unlink. (A time in the
	// future means that the clock was set back since.)
	if age := time.Since(f.Info.Modified); 0 <= age && age < time.Second {
		return false
	}
	written, err := f.File.BeingWritten()
	return err == nil && !written
}

// IsGone reports whether the process that a lock file names is known to have ended.
func (l *Lock) IsGone(f *Finding) bool {
	if l.Origin(f.Claim) != evidence.OriginHere {
		return false
	}
	is := platform.Probe(process(f.Claim))
	return is == platform.Gone || is == platform.Replaced
}
