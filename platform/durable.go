package platform

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TempSuffix ends the name of a file that WriteDurably has not finished, or whose writer
// died; it begins with a dot.
const TempSuffix = ".holdfast-tmp"

// WriteDurably replaces the contents of the file at path, or creates it. Readers see
// the old contents or the new. Once it has returned, the new ones outlive a crash of
// the machine:
//
//	open(".NAME.holdfast-tmp", O_CREAT|O_EXCL|O_WRONLY, 0600)
//	fchown, fchmod    as the old file had them
//	write
//	fchmod            where a program's special bits are to be kept
//	fsync, close
//	rename(".NAME.holdfast-tmp", "NAME")
//	open("."), fsync, close
//
// An existing file keeps its mode; and its owner and group, where the system has them and the
// process may set them. Where the group can't be kept, the new group gets no more than
// everybody has. So a user that could not read the old contents can at no moment read the new.
// A new file gets 0644 less the umask, from the start.
//
// The caller sees to it that nobody else does the same to this file: a temporary file of that
// name is a dead writer's, and is removed. On error the file has its old contents; after an
// error of the last line, the new ones, which a crash may still undo.
func WriteDurably(path string, contents []byte) error {
	dir, name := filepath.Split(path)
	temp := dir + "." + name + TempSuffix
	if err := Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeSynced(temp, path, contents); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return err // not ours
		}
		return errors.Join(err, ignoreNotExist(Remove(temp)))
	}
	if err := replaceFile(temp, path); err != nil {
		// The rename may have happened all the same: a disk's, or a server's, answer can be lost.
		rerr := Remove(temp)
		if got, gerr := ReadRegular(path, len(contents)); !errors.Is(rerr, fs.ErrNotExist) || gerr != nil || !bytes.Equal(got, contents) {
			return errors.Join(err, ignoreNotExist(rerr))
		}
	}
	return SyncFolder(filepath.Dir(path))
}

// writeSynced creates temp with the contents, and with the mode and owner of the file at like,
// if there is one.
func writeSynced(temp, like string, contents []byte) error {
	old, err := os.Lstat(like)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	first := fs.FileMode(0o600)
	if old == nil {
		first = 0o644
	}
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, first)
	if err != nil {
		return err
	}
	var mode fs.FileMode
	if old != nil {
		if mode, err = keepOwner(f, old); err == nil {
			err = f.Chmod(mode.Perm())
		}
	}
	if err == nil {
		_, err = f.Write(contents)
	}
	if err == nil && mode != mode.Perm() {
		err = f.Chmod(mode) // writing clears the special bits
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncFolder makes what was created, renamed and removed in a folder outlive a crash of the
// machine. Where a folder can't be synced (Windows), it does nothing.
func SyncFolder(path string) error { return syncFolder(path) }

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
