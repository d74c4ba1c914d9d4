package lock

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// List inspects every lock below a folder, in the order of their paths: each lock file that
// has its sibling beside it, each sibling alone (a free lock), and each file named *.lock
// that holds a claim. Symbolic links to folders are not followed.
//
// What can't be read comes as an error with its path, and the walk goes on. The cause of a
// ctx that is done is the last error.
func List(ctx context.Context, dir string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		list := readList()
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			status := Status{Path: path}
			if err == nil && entry.IsDir() {
				return nil
			}
			if err == nil {
				var is bool
				if status, is, err = inspectFound(ctx, path, list); !is && err == nil {
					return nil
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

// inspectFound inspects the lock that the file at path belongs to, if any. Of a lock's two
// files only one leads to it.
func inspectFound(ctx context.Context, path string, list *kernelList) (s Status, is bool, err error) {
	lockPath, sibling := strings.CutSuffix(path, siblingSuffix)
	if !sibling && (!strings.HasSuffix(path, ".lock") || exists(path+siblingSuffix)) {
		return s, false, nil
	}
	p, err := File{Path: lockPath}.locate()
	if errors.Is(err, ErrInvalidName) {
		return s, false, nil // "dir/.flock" belongs to nothing
	} else if err != nil {
		return s, false, err
	}
	s, err = p.inspect(ctx, list)
	return s, sibling || s.Info != nil || s.Evidence == EvidenceIncomplete, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
