package lock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// found is a lock file, or a marker, as it lay on disk at one moment.
type found struct {
	info  fs.FileInfo
	data  []byte
	kind  claimFact
	claim *LockInfo // nil unless kind is claimReadable
}

// look reads the file at path and whatever it says. The error matches
// fs.ErrNotExist when nothing is there; what can't be understood is no error.
func look(path string) (*found, error) {
	data, info, err := platform.ReadRegular(path, maxClaim)
	f := &found{info: info, data: data}
	switch {
	case err == nil:
	case errors.Is(err, platform.ErrNotRegular), errors.Is(err, platform.ErrTooLarge):
		f.kind = claimAlien
		return f, nil
	case errors.Is(err, fs.ErrPermission) && info != nil:
		// A claim that is being written has mode 0200, which lets only root read.
	default:
		return nil, err
	}
	switch claim, err := decodeClaim(data); {
	case platform.IsIncomplete(info) && len(data) > 0 && claim == nil && !f.isDebris():
		f.kind = claimAlien // the mode may be a coincidence
	case platform.IsIncomplete(info):
		f.kind = claimIncomplete
	case err != nil:
		f.kind = claimUnreadable
	default:
		f.claim = claim
	}
	return f, nil
}

// look is the other one, for claims in the format of the File.
func (a *attempt) look(path string) (*found, error) {
	f, err := look(path)
	if err != nil || a.file.Parse == nil || f.kind == claimIncomplete {
		return f, err
	}
	f.kind, f.claim = claimAlien, nil
	if claim, err := a.file.Parse(f.data); err == nil && claim.check() == nil {
		f.kind, f.claim = claimReadable, &claim
	}
	return f, nil
}

// isDebris reports whether a file without a claim holds nothing but what a crash
// leaves of one: the beginning, or NULs (of a machine that lost power).
func (f *found) isDebris() bool {
	return f.info.Size() == int64(len(f.data)) &&
		(bytes.HasPrefix(f.data, []byte(`{"pid":`)) && !json.Valid(f.data) || len(bytes.Trim(f.data, "\x00")) == 0)
}

// exitGrace is how long a process may take between letting go of its kernel lock
// and being gone. Measured: milliseconds, in half of all kills.
const exitGrace = 250 * time.Millisecond

// judge gathers the facts on what was found, and puts them to the ladder.
func (a *attempt) judge(ctx context.Context, f *found, kernel kernelFact) (Verdict, Evidence) {
	facts := a.facts(f, kernel)
	v, e := judge(facts)
	if e == SameProcess && facts.sameSibling && facts.kernel == kernelFree {
		// The holder lives, yet its kernel lock is free: it is dying.
		facts.process = platform.AwaitExit(ctx, f.claim.process(), exitGrace)
		v, e = judge(facts)
	}
	return v, e
}

func (a *attempt) facts(f *found, kernel kernelFact) facts {
	facts := facts{
		kernel:     kernel,
		trusted:    a.fsys.Trusted,
		claim:      f.kind,
		nuls:       f.info.Size() > 0 && f.isDebris() && f.data[0] == 0,
		age:        a.now().Sub(f.info.ModTime()),
		staleAfter: a.staleAfter(),
	}
	if f.kind == claimUnreadable && !f.isDebris() && a.file.StaleAfter == 0 {
		// Somebody's data may lie at the path by mistake. It takes a caller who
		// says that age counts to have it taken for a dead holder's.
		facts.claim = claimAlien
	}
	if f.kind != claimReadable {
		return facts
	}
	facts.age = a.now().Sub(f.claim.renewed())
	facts.origin = a.origin(f.claim)
	facts.sameSibling = f.claim.Flock != "" && f.claim.Flock == a.sibling.String()
	facts.underLock = f.claim.Flock != ""
	facts.shared = f.claim.Mode == modeShared
	if facts.origin == originHere {
		facts.process = a.probe(f.claim)
	}
	return facts
}

// origin tells where a claim was made. A claim without a boot id, such as seed
// agency's, is taken to be of this boot, unless it names another host, or lies
// where another host may have put it.
func (a *attempt) origin(c *LockInfo) originFact {
	self, host := platform.Self(), platform.ThisHost()
	sameHost := c.Hostname == "" || c.Hostname == host.Name
	switch {
	case c.BootID == "" && sameHost && a.fsys.Trusted:
		return originHere
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

// probe asks whether a claim's process is alive. A caller's own notion of that
// (RepoLock.IsPIDAlive) counts only where the claim proves nothing by itself.
func (a *attempt) probe(c *LockInfo) platform.Liveness {
	if a.file.pidAlive != nil && c.Start == 0 && c.PIDFD == 0 {
		if a.file.pidAlive(c.PID) {
			return platform.Exists
		}
		return platform.Gone
	}
	return platform.Probe(c.process())
}

// pidAlive reports whether a process has this pid. Where it can't be told, it
// says yes.
func pidAlive(pid int) bool { return platform.Probe(platform.Process{PID: pid}) != platform.Gone }
