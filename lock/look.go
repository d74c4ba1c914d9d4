package lock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// A finding is a lock file, or a marker, as it lay on disk at one moment. Whoever got it
// from look, or lookLocked, closes it.
type finding struct {
	path    string
	file    *platform.File // open; nil if it can't be
	info    platform.Info
	data    []byte
	content contentFact
	claim   *claim // nil unless content is contentClaim
}

// look opens the file at path and reads what it says. The error matches fs.ErrNotExist when
// nothing is there. Content that can't be understood is no error.
func (p *place) look(path string) (*finding, error) {
	f, err := p.find(path)
	if err != nil || f.file == nil {
		return f, err
	}
	if err := f.read(p, f.file); err != nil {
		return nil, joined(err, f.file.Close())
	}
	return f, nil
}

// find is look for who reads the file later.
func (p *place) find(path string) (*finding, error) {
	f := &finding{path: path}
	var err error
	switch f.file, err = p.open(path); {
	case err == nil:
	case errors.Is(err, platform.ErrNotRegular):
		f.content = contentAlien
	case errors.Is(err, platform.ErrLeased):
		f.content = contentLeased
	case errors.Is(err, fs.ErrPermission):
		f.content = contentForbidden
	default:
		return nil, err
	}
	return f, nil
}

// read reads the file, and makes f what it finds. The file stays open, whatever comes of it.
func (f *finding) read(p *place, file *platform.File) (err error) {
	*f = finding{path: f.path, file: file}
	if f.info, err = file.Stat(); err == nil {
		f.data, err = file.Read(maxClaim)
	}
	switch {
	case errors.Is(err, platform.ErrTooLarge):
		f.content = contentAlien
		return nil
	case err != nil:
		return err
	}
	f.claim, err = p.decode(f.data)
	switch {
	case err == nil:
	case errors.Is(err, errParse):
		return err
	case p.file.ownParse() && !(f.info.Marked() && f.isDebris()):
		f.content, f.claim = contentAlien, nil
	// Somebody's data may lie at the path by mistake. Only a caller who says that age
	// counts has it taken for a dead holder's.
	case !f.isDebris() && p.file.StaleAfter == 0:
		f.content, f.claim = contentAlien, nil
	default:
		f.content, f.claim = contentNone, nil
	}
	return nil
}

func (f *finding) close() error { return f.file.Close() }

// holder is the claim of the holder that the file names; nil if it names none.
func (f *finding) holder() *LockInfo {
	if f.claim == nil {
		return nil
	}
	return &f.claim.LockInfo
}

// decode reads a claim, in the format of the File.
func (p *place) decode(data []byte) (*claim, error) {
	data = claimIn(data)
	if !p.file.ownParse() {
		return decodeClaim(data)
	}
	info, err := p.file.Format.Parse(data)
	if err != nil {
		return nil, err
	}
	if info.CreatedAt.IsZero() {
		return nil, fmt.Errorf("%w, which returned neither an error nor a CreatedAt", errParse)
	}
	c := &claim{LockInfo: LockInfo{PID: info.PID, CreatedAt: info.CreatedAt, Cmd: info.Cmd, Nonce: info.Nonce, Hostname: info.Hostname}}
	if ours := decodeOurs(data); ours != nil {
		ours.PID, ours.CreatedAt, ours.Cmd = c.PID, c.CreatedAt, c.Cmd
		c = ours
	}
	return c, c.check()
}

// errParse is the error for a Format that breaks its promise.
var errParse = fmt.Errorf("%w: the fault is in Format.Parse", ErrInvalidName)

// isDebris reports whether a file without a claim holds only what a crash leaves of one:
// its beginning, or NULs (after a loss of power).
func (f *finding) isDebris() bool {
	return strings.HasPrefix(`{"pid":`, string(f.data)) || f.isNULs() ||
		bytes.HasPrefix(f.data, []byte(`{"pid":`)) && !json.Valid(f.data)
}

func (f *finding) isNULs() bool { return len(f.data) > 0 && len(bytes.Trim(f.data, "\x00")) == 0 }

// same reports whether a file still says what was found, and nobody has touched it.
func (f *finding) same() (bool, error) {
	data, err := f.file.Read(maxClaim)
	if err != nil || !bytes.Equal(data, f.data) {
		return false, err
	}
	info, err := f.file.Stat()
	return err == nil && info == f.info && info.Links > 0, err
}

// exitGrace is how long a process may take between letting go of its kernel lock
// and being gone. Measured: milliseconds, in half of all kills.
const exitGrace = 250 * time.Millisecond

// judge gathers the facts on what was found, and puts them to the ladder. It waits a little
// for a process that is dying, unless ctx is done.
func (p *place) judge(ctx context.Context, f *finding, kernel kernelFact) (State, Evidence) {
	facts := p.facts(f, kernel)
	s, e := judge(facts)
	if e == EvidenceSameProcess && facts.underLock && facts.sameKind && facts.kernel == kernelFree {
		// The holder lives, yet its kernel lock is free: it is dying.
		p.at(stepDying)
		facts.process = platform.AwaitExit(ctx, f.claim.process(), exitGrace)
		s, e = judge(facts)
	}
	return s, e
}

func (p *place) facts(f *finding, kernel kernelFact) facts {
	facts := facts{
		kernel:     kernel,
		trusted:    p.fsys.Trusted,
		content:    f.content,
		marked:     p.marks() && f.info.Marked() && f.isDebris(), // in somebody's data the bit means nothing
		nuls:       f.isNULs() && p.isLeft(f),                    // another program may write NULs first
		age:        p.now().Sub(f.info.Modified),
		staleAfter: p.staleAfter(),
	}
	c := f.claim
	if c == nil {
		// A program that locks its file in another way (fcntl) may leave it empty.
		if kernel != kernelHeld && f.file != nil && f.content == contentNone && f.file.HasByteLock() {
			facts.kernel = kernelHeld
		}
		return facts
	}
	facts.released = c.released
	facts.origin = p.origin(c)
	facts.shared = c.Mode == modeShared
	facts.age = p.now().Sub(c.renewed())
	switch {
	case !c.ours && p.file.pidAlone:
		facts.staleAfter = -1
	case c.StaleAfter != 0 && facts.staleAfter >= 0:
		facts.staleAfter = c.StaleAfter
	}
	if facts.underLock = c.KernelLock != ""; facts.underLock {
		facts.sameKind, facts.copied = p.asLock(c.KernelLock, f.file.ID())
	}
	// A holder that could not remove its marked file may have taken the mark away instead:
	// see sayReleased. (On Windows nobody can take it away, and Wine forgets it.)
	if kernel == kernelFree && facts.sameKind && !facts.copied && p.marks() && platform.OwnLocks && !f.info.Marked() {
		facts.released = true
	}
	if facts.origin == originHere && kernel != kernelHeld {
		facts.process = p.probe(c)
		if facts.process == platform.Exists && p.file.repoID == "" {
			began, known := platform.Began(c.PID)
			facts.began = known && began.Before(c.CreatedAt.Add(timeGranularity))
		}
	}
	return facts
}

// timeGranularity is how coarse the time in another program's claim may be.
const timeGranularity = time.Second

// origin tells where a claim was made. A claim of another program counts as made in this
// boot and pid namespace, unless it names another host, or lies where another host may have
// put it. One of ours must say so.
func (p *place) origin(c *claim) originFact {
	self, host := platform.Self(), platform.ThisHost()
	sameHost := c.Hostname == "" || c.Hostname == host.Name
	if !c.ours || c.BootID == "" && host.BootID == "" { // a system without boot ids
		if sameHost && p.fsys.Trusted {
			return originHere
		}
		return originForeignHost
	}
	switch {
	case c.BootID == "" || host.BootID == "":
		return originForeignHost
	case c.BootID != host.BootID && sameHost:
		return originEarlierBoot
	case c.BootID != host.BootID:
		return originForeignHost
	case c.PIDNamespace != self.PIDNamespace:
		return originForeignNamespace
	}
	return originHere
}

// probe asks whether a claim's process is alive. A caller's own check (RepoLock.IsPIDAlive)
// counts only where the claim proves nothing by itself.
func (p *place) probe(c *claim) platform.Liveness {
	if p.file.pidAlive != nil && c.Start == 0 && c.PIDFD == 0 {
		if p.file.pidAlive(c.PID) {
			return platform.Exists
		}
		return platform.Gone
	}
	return platform.Probe(c.process())
}

// pidAlive reports whether a process has this pid; true if that can't be told.
func pidAlive(pid int) bool { return platform.Probe(platform.Process{PID: pid}) != platform.Gone }
