package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/lock/internal/lockfile"
	"github.com/holdfast-go/holdfast/lock/internal/queue"
	"github.com/holdfast-go/holdfast/platform"
)

// place is where a lock lies, and what is known of that. It does not change once locate has
// returned it. It is enough for looking at a lock and judging it; acquiring takes an attempt.
type place struct {
	lockfile.Lock
	file    File // with an absolute Path
	sibling queue.Sibling
}

// locate checks f, and finds out where it lies. Nothing is changed.
func (f File) locate() (place, error) {
	if err := checkPath(f.Path); err != nil {
		return place{}, err
	}
	if len(f.Cmd) > evidence.MaxCmd {
		return place{}, fmt.Errorf("%w: the cmd for %s has %d bytes; at most %d", ErrInvalidName, f.Path, len(f.Cmd), evidence.MaxCmd)
	}
	if f.OwnerPID < 0 || f.OwnerPID > math.MaxInt32 {
		return place{}, fmt.Errorf("%w: the owner of %s can't be pid %d", ErrInvalidName, f.Path, f.OwnerPID)
	}
	if f.Perm&^0o666 != 0 || f.Perm != 0 && f.Perm&0o600 != 0o600 {
		return place{}, fmt.Errorf("%w: mode %04o for %s: it must let the owner read and write, and nobody execute", ErrInvalidName, uint32(f.Perm), f.Path)
	}
	// The process may change its working directory while it holds the lock.
	path, err := absolute(f.Path)
	if err != nil {
		return place{}, fail.At("resolve", f.Path, err)
	}
	f.Path = path
	fsys, err := platform.FilesystemOf(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return place{}, noFolder(path)
	} else if err != nil {
		return place{}, fmt.Errorf("lock: %w", err)
	}
	both := path + siblingSuffix + path + markerSuffix // one allocation
	sibling := len(path) + len(siblingSuffix)
	p := place{file: f}
	p.Lock = lockfile.Lock{
		Path: path, Marker: both[sibling:], Stands: both[:sibling], Fsys: fsys, NoKernelLock: f.noKernelLock,
		Cmd: f.Cmd, OwnerPID: f.OwnerPID, Perm: f.Perm, StaleAfter: f.StaleAfter, Parker: lines, Clearing: clearing, At: f.park,
	}
	if f.Format != nil {
		p.Fields, p.Parse = f.Format.Fields, f.Format.Parse
		if r := f.Format.Rule; r != nil {
			p.Clock, p.Amend = r.Now, r.Amend
		}
	}
	p.sibling = queue.Sibling{
		Path: both[:sibling], Lines: lines, Lock: path, Perm: siblingPerm(f.Perm), Trusted: fsys.Trusted, At: f.park,
		// The mark says no more than that holdfast made the file, so an overlay is no exception: see
		// marks.
		Mark:      platform.KeepsMarks && p.Shares(),
		Turnstile: fsys.Trusted && platform.HasTurnstile() && !f.noKernelLock,
		Tidies:    f.Tidy && p.Shares(),
	}
	return p, nil
}

// What the locks of this process share, beside holds.
var (
	lines    = queue.New()
	clearing = new(lockfile.Clearing)
)

// siblingPerm is the mode of the sibling. Every process that may read a lock file stands in
// its queue, and for that needs to write.
func siblingPerm(perm fs.FileMode) fs.FileMode { return perm | perm&0o044>>1 }

// noFolder is the error for a path through a folder that does not exist.
func noFolder(path string) error {
	return fmt.Errorf("lock: the folder for %s is not there; make it first, or mend the path: %w", path, fs.ErrNotExist)
}
