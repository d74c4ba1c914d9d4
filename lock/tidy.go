package lock

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/platform"
)

// Why a sibling may be removed.
//
// Whoever removes it has its exclusive kernel lock, looks that it is still the sibling (rule
// B), and finds no lock file. Nobody has got in by it then, nor can two get in around its
// removal:
//
//   - Who has the lock, or is on the way to it, has the sibling's kernel lock: readers
//     shared. So who tidies meets neither. A holder whose sibling was removed before has the
//     own lock of a lock file, or is about to create one. That file alone keeps others out,
//     before the removal and after: it takes its own lock to join, replace or remove it
//     (rule A).
//   - Those who wait, at the turnstile, for the kernel lock, or in this process, are left
//     with a file that has no name. Each gets its lock, looks whether the path leads to it
//     (rule B), lets go, and begins again at the new one (takeSibling). A wait that came for
//     nobody has taken nothing else. So nobody acts by the old sibling, and the new one is
//     the only queue.
//   - A reclaimer has the sibling's lock for as long as its marker stands. A marker has its own
//     lock, and is judged by that.
//
// Between the looks and the unlink somebody whose sibling was removed before may create the
// lock file: then a held lock loses its sibling, and newcomers wait for the lock file. A hand
// may replace the sibling: then a new one goes, and those who stand there begin again.
//
// Whoever knows the sibling only as a file for flock(1) does not look again: for their sake
// it stays while anybody else has it open. What is left to them is the time between that
// look and the unlink.
//
// A crash leaves the sibling, or nothing.

// tidying says which siblings go.
type tidying struct {
	before      time.Time // those written before; zero: whatever their age
	fenceBefore time.Time // of those with a fence, those whose fence was given before; zero: none
	dry         bool      // none, really
	dead        bool      // ... as if the lock file, a dead holder's, had gone
}

// Kept says why a file stays, in words for people. Empty: it does not.
type kept string

const (
	keptInUse     kept = "somebody has it open, or waits for it"
	keptLocked    kept = "somebody has its kernel lock"
	keptYoung     kept = "it was written not long ago"
	keptFence     kept = "it has a fence, which was given not long ago"
	keptBadFence  kept = "its fence is out of all reason: " + beginAnew
	keptDeath     kept = "it tells of a holder's death, which nobody has heard of"
	keptAlien     kept = "nothing shows that it is holdfast's"
	keptLockFile  kept = "the lock file is there"
	keptMoved     kept = "the path leads to another file by now"
	keptUntrusted kept = "kernel locks prove nothing on this filesystem"
)

// tidies reports whether the lock's sibling is to be removed when nobody needs it, and that
// can be told.
func (p *place) tidies() bool { return p.file.Tidy && p.shares() }

// tidy removes the sibling f, whose exclusive kernel lock is ours, if nobody needs it. It
// returns why it stays; after an error it stays, too.
func (p *place) tidy(f *platform.File, which tidying) (kept, error) {
	open, err := f.IsOpenElsewhere()
	if errors.Is(err, errors.ErrUnsupported) { // then those who wait begin again
		open, err = f.HasByteLock(), nil
	}
	switch {
	case err != nil:
		return "", err
	case open:
		return keptInUse, nil
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	is, m, err := isSibling(f, info)
	switch fence := m.fence; {
	case err != nil:
		return "", err
	case !is:
		return keptAlien, nil
	// One that was given long ago is less than the time of day, from which it goes on:
	// only a clock that is set back by more could rewind it.
	case fence > 0 && (which.fenceBefore.IsZero() || fence >= which.fenceBefore.UnixMicro()):
		if _, err := engine.NextFence(fence, p.now()); err != nil {
			return keptBadFence, nil
		}
		return keptFence, nil
	// Whoever cleared it away was no holder who could tell of itself: a reader, a Break, a
	// cancelled Acquire. The next one has not learned of it.
	case which.fenceBefore.IsZero() && m.last != nil && m.last.How != EndReleased:
		return keptDeath, nil
	}
	if !which.before.IsZero() && !info.Modified.Before(which.before) {
		return keptYoung, nil
	}
	switch _, _, err := platform.Look(p.file.Path); {
	case err == nil && !which.dead:
		return keptLockFile, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	stands, err := f.IsAt(p.sibling) // rule B
	switch {
	case err != nil:
		return "", err
	case !stands:
		return keptMoved, nil
	case which.dry:
		return "", nil
	}
	p.at(stepSiblingIdle)
	err = ignoreAbsent(platform.Remove(p.sibling))
	p.at(stepSiblingRemoved)
	return "", err
}

// tidyUp is for those who had no lock, or a shared one: it looks whether they were the last
// to need the sibling. Whoever has it, or leaves at the same time, may have seen ours open
// and left it; so it looks more than once.
func (p *place) tidyUp() {
	if !p.tidies() {
		return
	}
	for range 3 {
		if exists(p.file.Path) {
			return // whoever has it, or takes it over, does this
		}
		why, err := p.tidyAnew(tidying{})
		if err != nil || why != keptInUse && why != keptLocked {
			return
		}
		time.Sleep(jitter(passage))
	}
}

// tidyAnew is tidy for those who do not have the sibling open.
func (p *place) tidyAnew(which tidying) (kept, error) {
	f, err := platform.Open(p.sibling, os.O_RDWR)
	if errors.Is(err, platform.ErrLeased) {
		return keptInUse, nil // somebody else tidies up
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	switch err := f.TryLock(platform.Exclusive); err {
	case nil:
		return p.tidy(f, which)
	case platform.ErrBusy:
		return keptLocked, nil
	default:
		return "", err
	}
}

// giveBackSibling lets go of a sibling's lock that came when nobody was left to take it.
// Whoever had it may just have left the sibling to us, and not have closed it yet.
func (p *place) giveBackSibling(f *platform.File, _ error) {
	_ = f.Close()
	if p.tidies() {
		go p.tidyUp()
	}
}
