package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// place is where a lock lies, and what is known of that. It does not change once locate has
// returned it. It is enough to look at a lock and judge it; acquiring takes an attempt.
type place struct {
	file    File   // with an absolute Path
	sibling string // path of the sibling
	marker  string // path of the marker
	fsys    platform.Filesystem
}

// locate checks f, and finds out where it lies. Nothing is changed.
func (f File) locate() (place, error) {
	if err := checkPath(f.Path); err != nil {
		return place{}, err
	}
	if len(f.Cmd) > maxCmd {
		return place{}, fmt.Errorf("%w: the cmd for %s has %d bytes; at most %d", ErrInvalidName, f.Path, len(f.Cmd), maxCmd)
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
		return place{}, pathError("resolve", f.Path, err)
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
	return place{file: f, sibling: both[:sibling], marker: both[sibling:], fsys: fsys}, nil
}

// noFolder is the error for a path that leads through a folder which is not there.
func noFolder(path string) error {
	return fmt.Errorf("lock: the folder for %s is not there; make it first, or mend the path: %w", path, fs.ErrNotExist)
}

func (p *place) now() time.Time {
	if p.file.clock != nil {
		if t := p.file.clock(); !t.IsZero() { // a clock that was not set
			return t
		}
	}
	return time.Now()
}

func (p *place) staleAfter() time.Duration {
	if p.file.StaleAfter == 0 {
		return DefaultStaleAfter
	}
	return p.file.StaleAfter
}

// ownLocks reports whether the holder of a lock file has its own lock. Otherwise the
// sibling's stands for it (Windows). In fallback mode nothing does; that is known only when
// a lock is asked for.
func (p *place) ownLocks() bool { return platform.OwnLocks && !p.file.noKernelLock }

// shares reports whether readers can have the lock together. Where own locks are missing,
// or prove nothing, shared means exclusive.
func (p *place) shares() bool { return p.ownLocks() && p.fsys.Trusted }

// queued reports whether waiters for this lock pass a turnstile.
func (p *place) queued() bool {
	return p.fsys.Trusted && platform.HasTurnstile() && !p.file.noKernelLock
}

// marks reports whether lock files bear marks here. On an overlay they don't: the folder
// underneath shows the same files, and neither side can judge the own locks of the other. A
// file without a claim does not say on which side it was made.
func (p *place) marks() bool {
	return platform.KeepsMarks && p.fsys.Trusted && p.fsys.Kind != "overlay" && !p.file.noKernelLock
}

// lockName is what a claim says of the kernel lock on a file. asLock tells how far that
// names a lock that we can ask about. (An overlay and the folder underneath have the same
// files with other locks, but are two kinds of filesystem. A file has one device: another
// number in its claim means that the filesystem was mounted anew, or that the file is a
// copy.)
func (p *place) lockName(id platform.FileID) string {
	b := append(make([]byte, 0, 64), p.fsys.Kind...)
	b = strconv.AppendUint(append(b, ':'), id.Dev, 10)
	b = strconv.AppendUint(append(b, ':'), id.Ino, 10)
	return string(b)
}

// open opens the file at path, to be locked and read. It need not be writable: only
// NFSv4 wants that, for an exclusive lock.
func (p *place) open(path string) (*platform.File, error) {
	if !p.fsys.Trusted {
		f, err := platform.Open(path, os.O_RDWR)
		if !errors.Is(err, fs.ErrPermission) {
			return f, err
		}
	}
	return platform.Open(path, os.O_RDONLY)
}

// asLock reports whether a claim, which lies in this file, names a kernel lock that can be
// asked about here. copied says that the claim was written to another file.
func (p *place) asLock(name string, in platform.FileID) (ours, copied bool) {
	if !platform.OwnLocks { // it names the sibling
		id, err := platform.IdentifyFile(p.sibling)
		return err == nil && name == p.lockName(id), false
	}
	kind, device, _ := strings.Cut(name, ":")
	_, inode, _ := strings.Cut(device, ":")
	ours = kind == p.fsys.Kind
	return ours, ours && inode != strconv.FormatUint(in.Ino, 10)
}
