package lock

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// Context returns a context for work under the lock. It is done when parent is, or when the
// lock is found lost; then its cause matches ErrLost. Release does not end it.
//
// It carries the hold. Until the lock is released, acquiring it again under this context fails
// at once with ErrReentrant, instead of waiting for ever.
func (h *FileHold) Context(parent context.Context) context.Context { return h.contexts.Context(parent) }

// HoldOf returns the hold that ctx was made for, by Do or by a hold's Context: the
// innermost one, or nil if there is none. It may be over.
func HoldOf(ctx context.Context) Hold {
	hold, _ := engine.Innermost(ctx).(Hold)
	return hold
}

// lockPath is the identity of a File.
type lockPath string

// reentrant returns a *LockedError that matches ErrReentrant if ctx carries a hold of this
// very lock, or a process above this one has it.
func (p *place) reentrant(ctx context.Context) error {
	var hold Hold
	if engine.Innermost(ctx) != nil {
		hold, _ = engine.HoldOf(ctx, lockPath(p.file.Path)).(Hold)
	}
	if hold == nil {
		if locked := p.heldAbove(); locked != nil {
			return locked
		}
		return nil
	}
	info := hold.Info()
	return &LockedError{
		Status: Status{Path: p.file.Path, Info: &info, State: evidence.Held, Evidence: evidence.SameProcess},
		Cause:  ErrReentrant,
		now:    p.Now(),
	}
}

// is reports whether h holds the lock with this identity, by whatever name of its folder,
// and, in a folder that ignores case, by whatever case of its own.
func (h *FileHold) is(identity any) bool {
	path, ok := identity.(lockPath)
	return ok && sameLock(h.Path(), h.id, string(path))
}

// sameLock reports whether other is another path of the lock file at path, which has this id.
func sameLock(path string, id platform.FileID, other string) bool {
	if path == other {
		return true
	}
	mine, name := filepath.Base(path), filepath.Base(other)
	if !strings.EqualFold(mine, name) {
		return false
	}
	folder, err := folderOf(path)
	otherFolder, errOther := folderOf(other)
	if err != nil || errOther != nil || folder != otherFolder {
		return false
	}
	otherID, err := platform.IdentifyFile(other)
	return mine == name || err == nil && otherID == id
}

// folderOf identifies the folder that path lies in, by whatever name.
func folderOf(path string) (platform.FileID, error) {
	// With the dot a symbolic link to the folder is followed.
	return platform.IdentifyFile(filepath.Dir(path) + string(filepath.Separator) + ".")
}
