package lock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// reclaim removes the lock file of a holder that was judged dead, with its own lock ours
// (rule A). It returns errMoved when the file is no longer what was judged, and an
// *ErrLocked when somebody else is reclaiming. Either way nothing has been removed.
//
// The marker keeps out those who take no kernel lock, but respect the marker. Against those
// who know neither, look and removal are two adjacent system calls. A lock file that they
// create in between is lost; one that they create after is theirs.
//
// A crash leaves the dead claim, or none, and at most a marker, whose owner is dead.
//
// What is known of the holder's end is written down before the file goes, which says who it
// was.
func (a *attempt) reclaim(ctx context.Context, dead *finding, who *ErrLocked) error {
	if err := keptBySticky(a.file.Path, dead.info); err != nil {
		return err
	}
	marker, err := a.takeMarker(ctx, a.marker, markerSteps)
	if err != nil {
		return err
	}
	a.rememberDead(who)
	a.at(stepDeadTold)
	err = a.remove(ctx, a.file.Path, dead, stepReread)
	if err == nil {
		a.at(stepDeadRemoved)
	}
	err = joined(err, a.discard(marker))
	a.at(stepMarkerRemoved)
	return err
}

// takeMarker creates the marker at path: this process alone may then remove the file that
// it stands for. It removes a marker that a dead process left. When another process has the
// marker, or may have it, the error is an *ErrLocked that names the owner.
func (a *attempt) takeMarker(ctx context.Context, path string, at steps) (*ownFile, error) {
	for range moves {
		own, err := a.create(ctx, path, platform.Exclusive, at)
		if err == nil || !errors.Is(err, fs.ErrExist) && err != errMoved {
			return own, err
		}
		if err = a.removeMarker(ctx, path); err != nil && err != errMoved {
			return nil, err
		}
	}
	return nil, a.locked(a.file.Path, nil, StateUnknown, EvidenceBeingReclaimed)
}

// removeMarker removes the marker at path, if a dead process left it. The error is errMoved
// when another look is worth it.
func (a *attempt) removeMarker(ctx context.Context, path string) error {
	f, err := a.lookLocked(ctx, path, platform.Exclusive)
	var locked *ErrLocked
	if errors.As(err, &locked) {
		locked.Path, locked.Evidence = a.file.Path, EvidenceBeingReclaimed
	}
	if err != nil {
		return err
	}
	state, _ := a.judge(ctx, f, a.kernelFactOf(f))
	// An empty file under a name that nobody else uses is what a crash has left aside.
	aside := path != a.marker && f.info.Size == 0 && f.file != nil && time.Since(f.info.Modified) > DefaultStaleAfter
	if state == StateDead || aside || a.isAbandoned(f) {
		err = a.remove(ctx, path, f, stepMarkerReread)
	} else {
		err = a.locked(a.file.Path, f, state, EvidenceBeingReclaimed)
	}
	return joined(err, f.close())
}

// isAbandoned reports whether a dead process left a marker without a claim, such as those
// of entwurf's dispatchers. Its maker has a marker open for as long as it stands, and
// nobody has this one open. (A lock file may be empty and not open, and yet be somebody's.)
func (p *place) isAbandoned(f *finding) bool { return f.info.Size == 0 && p.isLeft(f) }

// isLeft reports whether nobody has a file open who could write a claim to it. That can be
// told where one kernel has all who could.
func (p *place) isLeft(f *finding) bool {
	if !p.shares() || f.file == nil {
		return false
	}
	// Its maker may be on the way into open(2), or between close and unlink. (A time in the
	// future comes of a clock that was set back since.)
	if age := time.Since(f.info.Modified); 0 <= age && age < time.Second {
		return false
	}
	written, err := f.file.BeingWritten()
	return err == nil && !written
}

// remove removes the file at path, whose own lock is ours (rule A), if it is still there
// and still what was found (rule B). If not, the error is errMoved.
//
// In fallback mode, and on filesystems that are not trusted, own locks don't stand for all
// who may come. There a further file, named after this one file in this one state, gives
// its creator the right to remove it. So two who judge one file dead can't both remove it,
// and the slower one can't remove its successor. (Under one name for all, two could take
// over the right of one dead.) A right that a dead process left can be removed in its turn,
// by the right to do that. The next holder clears rights away.
func (a *attempt) remove(ctx context.Context, path string, f *finding, looked step) (err error) {
	if err := keptBySticky(path, f.info); err != nil {
		return err
	}
	if a.renews() {
		right, terr := a.takeMarker(ctx, a.marker+"."+f.fingerprint(), rightSteps)
		if terr != nil {
			return terr
		}
		defer func() { err = joined(err, a.discard(right)) }()
	}
	same, err := f.same()
	if err == nil && same && !a.fsys.Trusted {
		same, err = holdsAnew(path, f.data)
	}
	if err != nil {
		return pathError("read", path, err)
	}
	a.at(looked)
	at, err := f.file.IsAt(path)
	if err != nil {
		return pathError("check", path, err)
	}
	if !same || !at {
		return errMoved
	}
	return ignoreAbsent(platform.Remove(path))
}

// holdsAnew reports whether the file at a path, opened anew, has these contents. It is for
// filesystems that remember (FUSE, NFS). A new file there may get the number of one that is
// gone; they may take the one for the other, and read the old one from an older descriptor.
func holdsAnew(path string, data []byte) (bool, error) {
	f, err := platform.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	holds, err := f.Holds(data)
	return holds, errors.Join(err, f.Close())
}

// discard removes a file of ours, if it is still there (rule B), and lets go of it. A file
// that can't be removed is made to say that it was released.
func (a *attempt) discard(own *ownFile) error {
	err := own.isOurs()
	if err == nil {
		err = ignoreAbsent(platform.Remove(own.path))
	}
	if errors.Is(err, ErrLost) {
		err = nil
	} else if err != nil {
		err = joined(err, own.sayReleased())
	}
	// It may have the name that it was to be linked to, and nobody could tell.
	if info, serr := own.file.Stat(); serr != nil || info.Links > 0 {
		_ = own.sayReleased()
	}
	return joined(err, own.file.Close())
}

// clearMarkers removes the markers that dead reclaimers left beside the lock, which is
// ours. One who had removed the dead claim left a marker that nobody would come across, and
// that keeps out programs which know only the marker. What can't be judged, or removed,
// stays.
func (a *attempt) clearMarkers(ctx context.Context) {
	if _, err := platform.IdentifyFile(a.marker); err == nil {
		a.clearMarker(ctx, a.marker)
	}
	if !a.renews() {
		return
	}
	folder, name := filepath.Split(a.marker)
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if base := strings.TrimSuffix(name, markerSuffix); e.Name() != name && strings.HasPrefix(e.Name(), name) && isBeside(e.Name()[len(base):]) {
			a.clearMarker(ctx, folder+e.Name())
		}
	}
}

func (a *attempt) clearMarker(ctx context.Context, path string) {
	clearer := *a
	clearer.patience = impatient{tries: 1} // nobody's marker is worth a wait now
	_ = clearer.removeMarker(ctx, path)
}

// fingerprint names one state of one file.
func (f *finding) fingerprint() string {
	h := fnv.New128a()
	h.Write(f.data)
	fmt.Fprint(h, f.file.ID(), f.info.Modified.UnixNano(), f.info.Size)
	return hex.EncodeToString(h.Sum(nil))
}
