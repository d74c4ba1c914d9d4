package platform

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteDurably replaces the contents of the file at path, or creates it, so that
// readers see the old contents or the new, and the new ones outlive a crash of the
// machine once it has returned:
//
//	open(".NAME.tmp", O_CREAT|O_EXCL|O_WRONLY)
//	write
//	fchown, fchmod    as the old file had them
//	fsync, close
//	rename(".NAME.tmp", "NAME")
//	open("."), fsync, close
//
// An existing file keeps its mode; and its owner and group, where the system has
// them and the process may set them. A new one gets 0644 less the umask.
//
// The caller sees to it that nobody else does the same to this file: a temporary
// file of that name is a dead writer's, and is removed. On error the file has its
// old contents; after an error of the last line, the new ones, which a crash may
// still undo.
func WriteDurably(path string, contents []byte) error {
	dir, name := filepath.Split(path)
	temp := dir + "." + name + ".tmp"
	if err := Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeSynced(temp, path, contents); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return err // not ours
		}
		return errors.Join(err, ignoreNotExist(Remove(temp)))
	}
	if err := Replace(temp, path); err != nil {
		return errors.Join(err, Remove(temp))
	}
	return SyncFolder(filepath.Dir(path))
}

// writeSynced creates temp with the contents, and with the mode and owner of the
// file at like, if there is one.
func writeSynced(temp, like string, contents []byte) error {
	old, err := os.Lstat(like)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(contents)
	if err == nil && old != nil {
		err = keepOwnerAndMode(f, old)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func keepOwnerAndMode(f *os.File, old fs.FileInfo) error {
	keep := fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	kept, err := keepOwner(f, old)
	if err != nil {
		return err
	}
	if !kept {
		keep = fs.ModePerm // what was to run as somebody else must not run as us
	}
	// Last: to write, and to change the owner, clears bits of the mode.
	return f.Chmod(old.Mode() & keep)
}

// SyncFolder makes what was created, renamed and removed in a folder outlive a
// crash of the machine. Where a folder can't be synced (Windows), it does nothing.
func SyncFolder(path string) error { return syncFolder(path) }

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
