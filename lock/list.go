package lock

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lock/evidence"
)

// List inspects every lock below a folder, in the order of their paths: each lock file that
// has its sibling beside it, each sibling alone (a free lock), and each file named *.lock. It
// leaves out a *.lock that Inspect says is no lock file (evidence.NotALockFile): a package
// manager's yarn.lock, a symbolic link. So an empty file is listed, as Acquire would wait for
// it; and so is one that this user may not read. A lock file of another name that has no
// sibling is not found. Symbolic links to folders are not followed.
//
// What can't be read comes as an error with its path, and the walk goes on. The cause of a ctx
// that is done is the last error.
func List(ctx context.Context, dir string) iter.Seq2[Status, error] {
	return listBy(ctx, dir, func(path string) (File, bool) { return File{Path: path}, true })
}

// listBy is List, of the locks for which at has a File. Each is judged by that File's
// settings.
func listBy(ctx context.Context, dir string, at func(path string) (File, bool)) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		kernel := readList()
		told := map[string]bool{} // at the lock file, so not again at its sibling
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			status := Status{Path: path}
			if err == nil {
				lockPath, sibling := strings.CutSuffix(path, siblingSuffix)
				file, is := at(lockPath)
				if entry.IsDir() || !is || told[lockPath] || !sibling && !strings.HasSuffix(path, ".lock") {
					return nil
				}
				if status, is, err = inspectFound(ctx, file, sibling, kernel); !is && err == nil {
					return nil
				}
				if !sibling {
					told[lockPath] = true
				}
			}
			if !yield(status, err) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Status{Path: dir}, err)
		}
	}
}

// inspectFound inspects a lock whose sibling was found, or else its lock file. is says whether
// that is a lock.
func inspectFound(ctx context.Context, file File, sibling bool, kernel *kernelList) (s Status, is bool, err error) {
	p, err := file.locate()
	if errors.Is(err, ErrInvalidName) {
		return s, false, nil // no lock belongs to "dir/.flock"
	} else if err != nil {
		return Status{Path: file.Path}, false, err
	}
	s, err = p.inspect(ctx, kernel)
	// A lock file that is gone by now was just released.
	return s, sibling || s.State != evidence.Free && s.Evidence != evidence.NotALockFile, err
}
