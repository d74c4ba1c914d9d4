package lock

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/platform"
)

// Update changes the file at path under the lock path+".lock". It reads the file, calls change
// with its contents (nil if it does not exist), and replaces it with what change returns. It
// waits for the lock as Acquire does.
//
// Readers of the file, with or without the lock, see the old contents or the new, never a mix.
// When Update has returned nil, the new ones outlive a crash of the machine. The file keeps
// its mode, and its owner where that is permitted; a new one gets 0644 less the umask. The new
// contents are first written to ".NAME.holdfast-tmp" beside it, a name for Update alone. Hard
// links, extended attributes and ACLs are not carried over. If path is a symbolic link, the
// file that it leads to is changed, and the lock is beside that file.
//
// If change returns ErrUnchanged, or the contents that are there, the file is left as it is,
// without error. nil contents are an error; an empty slice empties the file. An error or panic
// of change is passed on as it is, and nothing has changed. If Update itself fails to write,
// the file has its old contents; only if syncing the folder failed, it has the new ones, which
// a crash may undo. If the lock was lost, the error matches ErrLost. When that is found out
// before the file is replaced, nothing has changed; after, the new contents stand.
func Update(ctx context.Context, path string, change func(old []byte) ([]byte, error)) error {
	path, err := followLinks(path)
	if err != nil {
		return err
	}
	if err := checkUpdatable(path); err != nil { // without a lock, which would leave its sibling
		return fail.At("update", path, err)
	}
	f := File{Path: path + ".lock", Cmd: "update"}
	done := false
	err = f.Do(ctx, func(ctx context.Context, held *FileHold) error {
		old, err := readForUpdate(path)
		if err != nil {
			return fail.At("update", path, err)
		}
		was := bytes.Clone(old) // change may write to old
		contents, err := change(old)
		switch {
		case err == ErrUnchanged:
			return nil
		case err != nil:
			return err
		case contents == nil:
			return fail.At("update", path, errNoContents)
		case old != nil && bytes.Equal(was, contents):
			return nil
		}
		if ctx.Err() != nil { // the caller has given up meanwhile
			return fail.At("update", path, fail.Context(ctx))
		}
		if err := held.check(); err != nil {
			return fail.At("update", path, err)
		}
		if err := platform.WriteDurably(path, contents); err != nil {
			return fail.At("update", path, err)
		}
		done = true
		return nil
	})
	if done && !errors.Is(err, ErrLost) {
		return nil // the new contents stand, and the lock is released, whatever becomes of its file
	}
	return err
}

// ErrUnchanged, returned by the function that Update calls, leaves the file as it is.
var ErrUnchanged = errors.New("left as it is")

var errNoContents = errors.New("the change gave no contents; an empty slice empties the file, and ErrUnchanged leaves it as it is")

// checkUpdatable refuses what can't be read as a file, if anything is there.
func checkUpdatable(path string) error {
	f, err := platform.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return f.Close()
}

// followLinks returns the absolute path of the file itself, so that all names of it lead to
// one lock. For a file that does not exist yet, only the folder's links are followed.
func followLinks(path string) (string, error) {
	if path == "" {
		return "", fail.At("update", `""`, ErrInvalidName)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fail.At("update", path, err)
	}
	// One look decides: the file may come into being at any moment.
	info, err := os.Lstat(abs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fail.At("update", abs, err)
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		resolved, err := filepath.EvalSymlinks(abs)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("symbolic link that leads nowhere")
		}
		if err != nil {
			return "", fail.At("update", abs, err)
		}
		return resolved, nil
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return "", noFolder(abs)
	} else if err != nil {
		return "", fail.At("update", abs, err)
	}
	return filepath.Join(folder, filepath.Base(abs)), nil
}

// readForUpdate returns nil for a file that does not exist, and never for one that does.
func readForUpdate(path string) ([]byte, error) {
	data, err := platform.ReadRegular(path, math.MaxInt-1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
