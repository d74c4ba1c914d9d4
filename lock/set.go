package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/platform"
)

// Set is several locks that are held together.
type Set struct{ held []Hold } // in the order in which they were acquired

// AcquireAll acquires several locks, all or none. On any error it releases the locks that it
// had got, and the error is that of the lock that could not be acquired.
//
// Whatever the order of files, the locks are acquired in one order that is the same for all
// processes of a machine: by the identity of their folders, and then by name. So two callers
// that name the same locks in opposite orders never wait for each other. That holds for locks
// acquired by one call, and not for further ones that a caller acquires while holding a Set.
//
// A lock that is named twice is ErrInvalidName.
func AcquireAll(ctx context.Context, files ...File) (*Set, error) {
	return acquireAll(ctx, files, File.Acquire)
}

// TryAcquireAll is AcquireAll without waiting: see File.TryAcquire.
func TryAcquireAll(ctx context.Context, files ...File) (*Set, error) {
	return acquireAll(ctx, files, File.TryAcquire)
}

func acquireAll(ctx context.Context, files []File, acquire func(File, context.Context) (*FileHold, error)) (*Set, error) {
	ordered, err := canonical(files)
	if err != nil {
		return nil, err
	}
	for _, f := range ordered { // before any of them is waited for
		if p, err := f.locate(); err != nil {
			return nil, err
		} else if err := p.reentrant(ctx); err != nil {
			return nil, err
		}
	}
	s := &Set{}
	for _, f := range ordered {
		held, err := acquire(f, ctx)
		if err != nil {
			for _, h := range slices.Backward(s.held) {
				err = fail.Join(err, h.(*FileHold).ReleaseUnused())
			}
			return nil, err
		}
		s.held = append(s.held, held)
		// As in AcquireKeys: two paths may be one lock, and a lost one ends the wait.
		ctx = held.Context(ctx)
	}
	return s, nil
}

// Held returns the locks of the set, in the order in which they were acquired.
func (s *Set) Held() []Hold { return slices.Clone(s.held) }

// Context returns a context that carries all holds of the set: see Hold.Context.
func (s *Set) Context(parent context.Context) context.Context {
	for _, h := range s.held {
		parent = h.Context(parent)
	}
	return parent
}

// Release releases the locks in the reverse order, each as Hold.Release does. It goes on after
// errors, which it joins.
func (s *Set) Release() error {
	var errs []error
	for _, h := range slices.Backward(s.held) {
		errs = append(errs, h.Release())
	}
	return errors.Join(errs...)
}

// canonical sorts files by what identifies a lock on this machine.
func canonical(files []File) ([]File, error) {
	type entry struct {
		file   File
		folder platform.FileID
		name   string
	}
	var entries []entry
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return nil, err
		}
		if err := f.makeFolders(); err != nil {
			return nil, err
		}
		path, err := absolute(f.Path)
		if err != nil {
			return nil, fail.At("resolve", f.Path, err)
		}
		folder, err := folderOf(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noFolder(path)
		} else if err != nil {
			return nil, fail.At("acquire", path, err)
		}
		entries = append(entries, entry{f, folder, filepath.Base(path)})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.folder.Dev, b.folder.Dev), cmp.Compare(a.folder.Ino, b.folder.Ino),
			cmp.Compare(a.name, b.name))
	})
	var ordered []File
	for i, e := range entries {
		if i > 0 && e.folder == entries[i-1].folder && e.name == entries[i-1].name {
			return nil, fmt.Errorf("%w: %s is in the set twice", ErrInvalidName, e.file.Path)
		}
		ordered = append(ordered, e.file)
	}
	return ordered, nil
}
