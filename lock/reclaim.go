package lock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// errChanged says that a claim which was judged is no longer the one on disk.
var errChanged = errors.New("claim changed since it was judged")

// reclaim takes over the lock file of a holder that was judged dead. It returns
// errChanged when the lock file has changed since, and an *ErrLocked when
// somebody else is reclaiming; either way nothing has been changed.
//
// The marker is created as a claim of ours and then renamed over the dead one:
// one step, with the lock file in place all the time. A crash before it leaves
// the dead claim and a marker whose owner is dead; a crash after it leaves a
// claim whose owner is dead, and no marker. Either is reclaimed by the next.
//
// Invariant: only the marker's owner replaces or removes a dead holder's lock
// file, and only while the file is what was judged dead.
func (a *attempt) reclaim(ctx context.Context, dead *found) (*ownFile, error) {
	own, err := a.takeMarker(ctx, a.markerPath())
	if err != nil {
		return nil, err
	}
	// See confirm: from here on the marker is nobody else's to remove.
	if err := a.siblingStands(); err != nil {
		return nil, also(err, a.discard(a.markerPath(), own))
	}
	if err := a.reread(a.file.Path, dead); err != nil {
		return nil, also(err, a.discard(a.markerPath(), own))
	}
	a.at(stepReread)
	// The marker is looked at before and after: a program that takes no kernel lock
	// may remove it, having made one that isAbandoned.
	if own.check(a.markerPath()) != nil {
		return nil, also(errChanged, a.discard(a.markerPath(), own))
	}
	if err := platform.Replace(a.markerPath(), a.file.Path); err != nil {
		return nil, also(pathError("reclaim", a.file.Path, err), a.discard(a.markerPath(), own))
	}
	if own.check(a.file.Path) != nil {
		return nil, also(errChanged, own.close())
	}
	a.at(stepReplaced)
	return own, nil
}

// takeMarker creates the marker at path, which says that this process alone may
// remove the file it stands for. A marker left by a dead process is removed. It
// returns an *ErrLocked that names its owner when another process has it, or may.
func (a *attempt) takeMarker(ctx context.Context, path string) (*ownFile, error) {
	for range claimTries {
		own, err := a.publish(path, stepMarkerCreated, stepMarkerWritten, stepMarkerComplete)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return own, err
		}
		found, err := a.look(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, pathError("read", path, err)
		}
		verdict, _ := a.judge(ctx, found, a.kernelFact())
		if verdict != Dead && !a.isAbandoned(path, found) {
			return nil, a.locked(a.file.Path, found, verdict, BeingReclaimed)
		}
		if err := a.removeDeadMarker(ctx, path, found); err != nil && err != errChanged {
			return nil, err
		}
	}
	return nil, a.locked(a.file.Path, nil, Unknown, BeingReclaimed)
}

// isAbandoned reports whether a marker without a claim in it, such as those of seed
// entwurf, was left by a process that died: who makes one has it open for as long as
// it stands, and nobody has this one open. (A lock file may be empty and not open,
// and yet be somebody's.)
func (a *attempt) isAbandoned(path string, f *found) bool {
	if a.kernel == nil || !a.fsys.Trusted || f.info.Size() != 0 || !f.info.Mode().IsRegular() {
		return false
	}
	// Its maker may be on the way into open(2), or between close and unlink.
	if age := time.Since(f.info.ModTime()); age < time.Second {
		return false
	}
	written, err := platform.BeingWritten(path)
	return err == nil && !written
}

// removeDeadMarker removes a marker that was judged dead. Under a trustworthy
// kernel lock nobody else does so. Elsewhere, the right to remove this one marker belongs
// to whoever creates a further marker, named after it: since only its owner may
// remove the marker it names, the marker that the owner then reads again is
// there until the owner removes it. Two who judge one marker dead can't both
// remove it, nor can the slower one remove its successor.
func (a *attempt) removeDeadMarker(ctx context.Context, path string, dead *found) error {
	if a.renews() {
		right := a.markerPath() + "." + dead.fingerprint()
		own, err := a.takeMarker(ctx, right)
		if err != nil {
			return err
		}
		defer a.discard(right, own)
	}
	if err := a.reread(path, dead); err != nil {
		return err
	}
	return ignoreAbsent(platform.Remove(path))
}

// reread returns errChanged unless the file at path is still what was judged.
func (a *attempt) reread(path string, judged *found) error {
	now, err := look(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errChanged
	case err != nil:
		return pathError("read", path, err)
	case !now.same(judged):
		return errChanged
	}
	return nil
}

// discard removes a file of ours, if it is still there.
func (a *attempt) discard(path string, own *ownFile) error {
	err := own.check(path)
	if err == nil {
		err = platform.Remove(path)
	}
	err = also(err, own.close())
	if errors.Is(err, ErrLost) {
		return nil
	}
	return ignoreAbsent(err)
}

// fingerprint names one state of one file.
func (f *found) fingerprint() string {
	h := fnv.New128a()
	h.Write(f.data)
	fmt.Fprint(h, f.info.ModTime().UnixNano(), f.info.Size())
	return hex.EncodeToString(h.Sum(nil))
}
