package lock

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/platform"
)

// Update changes the file at path under the lock path+".lock": it reads the file,
// calls change with its contents (nil if it does not exist), and replaces it with
// what change returns. It waits for the lock as Acquire does.
//
// Whoever reads the file, lock or no lock, sees the old contents or the new, never
// a mix; and when Update has returned nil, the new ones outlive a crash of the
// machine. The file keeps its mode, and its owner where that is permitted; a new
// one gets 0644 less the umask. Hard links, extended attributes and ACLs are not
// carried over. If path is a symbolic link, the file that it leads to is changed,
// and the lock is beside that.
//
// If change returns an error or panics, nothing has changed, and the error or
// panic is passed on as it is. If Update itself fails to write, the file has its
// old contents; only if syncing the folder is what failed, it has the new ones,
// which a crash may undo. A lock that was lost is found out before the file is
// replaced; or after, and then the new contents stand, and the error matches ErrLost.
//
// Source: seed advisory-locking (config editor), seed jit (storage).
func Update(ctx context.Context, path string, change func(old []byte) ([]byte, error)) error {
	path, err := followLinks(path)
	if err != nil {
		return err
	}
	f := File{Path: path + ".lock", Cmd: "update"}
	done := false
	err = f.Do(ctx, func(ctx context.Context) error {
		old, err := readForUpdate(path)
		if err != nil {
			return pathError("update", path, err)
		}
		contents, err := change(old)
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // the caller has given up meanwhile
			return pathError("update", path, contextError(ctx))
		}
		if err := HoldOf(ctx).(*Held).check(); err != nil {
			return pathError("update", path, err)
		}
		if err := platform.WriteDurably(path, contents); err != nil {
			return pathError("update", path, err)
		}
		done = true
		return nil
	})
	if done && !errors.Is(err, ErrLost) {
		return nil // the new contents stand, and the lock is let go of, whatever becomes of its file
	}
	return err
}

// followLinks returns the path of the file itself, absolute, so that all names of
// it lead to one lock. A file that does not exist yet has only its folder's links
// followed.
func followLinks(path string) (string, error) {
	if path == "" {
		return "", pathError("update", `""`, ErrInvalidName)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", pathError("update", path, err)
	}
	// One look decides: the file may come into being at any moment.
	info, err := os.Lstat(abs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", pathError("update", abs, err)
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		resolved, err := filepath.EvalSymlinks(abs)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("symbolic link that leads nowhere")
		}
		if err != nil {
			return "", pathError("update", abs, err)
		}
		return resolved, nil
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", pathError("update", abs, err)
	}
	return filepath.Join(folder, filepath.Base(abs)), nil
}

// readForUpdate returns nil for a file that does not exist, and never for one that
// does.
func readForUpdate(path string) ([]byte, error) {
	data, err := platform.ReadRegular(path, math.MaxInt-1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
