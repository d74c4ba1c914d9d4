package lockfile

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

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/pace"
	"github.com/holdfast-go/holdfast/platform"
)

// reclaim removes the lock file of a holder that was judged dead. The file's own lock is ours
// (rule A). It returns ErrMoved when the file is no longer what was judged, and a refusal
// when another process is reclaiming. Either way nothing has been removed.
//
// The marker keeps out programs that take no kernel lock, but respect the marker. Against
// programs that know neither, look and removal are two adjacent system calls. A lock file that
// they create in between is lost; one that they create after is theirs.
//
// A crash leaves the dead claim, or none, and at most a marker whose owner is dead.
//
// What is known of the holder's end is written down before the file goes, as the file names
// the holder.
func (t *Taker) reclaim(ctx context.Context, dead *Finding, who Dead) error {
	if err := keptBySticky(t.Path, dead.Info); err != nil {
		return err
	}
	marker, err := t.takeMarker(ctx, t.Marker, markerSteps)
	if err != nil {
		return err
	}
	t.Face.Remember(who)
	t.at(StepDeadTold)
	err = t.Remove(ctx, t.Path, dead, StepReread)
	if err == nil {
		t.at(StepDeadRemoved)
	}
	err = fail.Join(err, t.discard(marker))
	t.at(StepMarkerRemoved)
	return err
}

// takeMarker creates the marker at path: this process alone may then remove the file that it
// stands for. It removes a marker that a dead process left. When another process has the
// marker, or may have it, the error is a refusal that names the owner.
func (t *Taker) takeMarker(ctx context.Context, path string, at steps) (*Own, error) {
	for range pace.Moves {
		own, err := t.create(ctx, path, platform.Exclusive, at)
		if err == nil || !errors.Is(err, fs.ErrExist) && err != ErrMoved {
			return own, err
		}
		if err = t.RemoveMarker(ctx, path); err != nil && err != ErrMoved {
			return nil, err
		}
	}
	return nil, t.refuse(Refusal{Path: t.Path, State: evidence.Unknown, Evidence: evidence.BeingReclaimed})
}

// RemoveMarker removes the marker at path, if a dead process left it. The error is ErrMoved
// when another look is worth it.
func (t *Taker) RemoveMarker(ctx context.Context, path string) error {
	f, err := t.LookLocked(ctx, path, platform.Exclusive)
	if err != nil {
		return err
	}
	state, _ := t.Judge(ctx, f, t.KernelFact(f))
	// An empty file under a name that nobody else uses is what a crash has left aside.
	aside := path != t.Marker && f.Info.Size == 0 && f.File != nil && time.Since(f.Info.Modified) > DefaultStaleAfter
	if state == evidence.Dead || aside || t.IsAbandoned(f) {
		err = t.Remove(ctx, path, f, StepMarkerReread)
	} else {
		err = t.refuse(Refusal{Path: t.Path, Found: f, State: state, Evidence: evidence.BeingReclaimed})
	}
	return fail.Join(err, f.Close())
}

// Remove removes the file at path if it is still there and still what was found (rule B). Its
// own lock is ours (rule A). Otherwise the error is ErrMoved.
//
// In fallback mode, and on filesystems that are not trusted, own locks don't stand for
// everyone who may come. There a further file, named after this one file in this one state,
// gives its creator the right to remove it. So two processes that judge one file dead can't
// both remove it, and the slower one can't remove its successor. (Under one name for all, two
// could take over the right of one dead.) A right that a dead process left can be removed in
// its turn, by the right to do that. The next holder clears rights away.
func (t *Taker) Remove(ctx context.Context, path string, f *Finding, looked string) (err error) {
	if err := keptBySticky(path, f.Info); err != nil {
		return err
	}
	if t.Renews() {
		right, terr := t.takeMarker(ctx, t.Marker+"."+f.fingerprint(), rightSteps)
		if terr != nil {
			return terr
		}
		defer func() { err = fail.Join(err, t.discard(right)) }()
	}
	same, err := f.same()
	if err == nil && same && !t.Fsys.Trusted {
		same, err = holdsAnew(path, f.Data)
	}
	if err != nil {
		return fail.At("read", path, err)
	}
	t.at(looked)
	at, err := f.File.IsAt(path)
	if err != nil {
		return fail.At("check", path, err)
	}
	if !same || !at {
		return ErrMoved
	}
	return fail.UnlessAbsent(platform.Remove(path))
}

// holdsAnew reports whether the file at a path, opened anew, has these contents. It is for
// filesystems that cache (FUSE, NFS). A new file there may get the number of one that is gone.
// Such a filesystem may take one for the other, and read the old one from an older descriptor.
func holdsAnew(path string, data []byte) (bool, error) {
	f, err := platform.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	holds, err := f.Begins(data)
	return holds, errors.Join(err, f.Close())
}

// discard removes a file of ours, if it is still there (rule B), and closes it. A file that
// can't be removed is made to say that it was released.
func (t *Taker) discard(own *Own) error {
	err := own.IsOurs()
	if err == nil {
		err = fail.UnlessAbsent(platform.Remove(own.Path))
	}
	if errors.Is(err, ErrLost) {
		err = nil
	} else if err != nil {
		err = fail.Join(err, own.SayReleased())
	}
	// It may have the name that it was to be linked to, and nobody could tell.
	if info, serr := own.File.Stat(); serr != nil || info.Links > 0 {
		_ = own.SayReleased()
	}
	return fail.Join(err, own.File.Close())
}

// ClearMarkers removes the markers that dead reclaimers left beside the lock, which is ours. A
// reclaimer that died after removing the dead claim left a marker that nobody would come
// across, and that keeps out programs which know only the marker. What can't be judged, or
// removed, stays.
func (t *Taker) ClearMarkers(ctx context.Context) {
	if platform.IsThere(t.Marker) {
		t.clearMarker(ctx, t.Marker)
	}
	if !t.Renews() {
		return
	}
	folder, name := filepath.Split(t.Marker)
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if base := strings.TrimSuffix(name, MarkerSuffix); e.Name() != name && strings.HasPrefix(e.Name(), name) && IsBeside(e.Name()[len(base):]) {
			t.clearMarker(ctx, folder+e.Name())
		}
	}
}

func (t *Taker) clearMarker(ctx context.Context, path string) {
	clearer := *t
	clearer.Waiter, clearer.Tries = nil, 1 // nobody's marker is worth a wait now
	_ = clearer.RemoveMarker(ctx, path)
}

// fingerprint names one state of one file.
func (f *Finding) fingerprint() string {
	h := fnv.New128a()
	h.Write(f.Data)
	fmt.Fprint(h, f.File.ID(), f.Info.Modified.UnixNano(), f.Info.Size)
	return hex.EncodeToString(h.Sum(nil))
}

// keptBySticky returns an error if the file at a path is not ours and only others may remove
// it. Then we can neither take it over nor, as its last reader, leave nothing behind.
func keptBySticky(path string, info platform.Info) error {
	if !platform.KeptBySticky(path, info.Owner) {
		return nil
	}
	owner := platform.UserName(info.Owner)
	return fail.At("remove", path, fmt.Errorf("%w: it is %s's, and its folder is sticky, where only %[2]s, the folder's owner and root may remove it",
		fs.ErrPermission, owner))
}
