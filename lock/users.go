package lock

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/platform"
)

// makeFolder makes a folder of a Dir. With a Perm, every user of the locks may make files in
// it, whatever the umask; but what a default ACL takes away stays away. Without one, nobody
// else may: a user that may write to a folder can remove any lock in it. The error matches
// fs.ErrExist if a folder is there, and may be used.
func (f File) makeFolder(path string) error {
	mode := f.Perm | f.Perm>>2&0o111 // a user that may read may enter
	if f.Perm == 0 {
		mode = 0o755
	}
	begun := time.Now()
	if err := os.Mkdir(path, mode); errors.Is(err, fs.ErrExist) {
		return cmp.Or(f.madeByOther(path), err)
	} else if err != nil || f.Perm == 0 {
		return err
	}
	if platform.HasDefaultACL(filepath.Dir(path)) {
		return nil
	}
	return widenFolder(path, mode, begun)
}

// clockStep is how far a file's time may lie behind the clock's: a filesystem counts in steps,
// or by a server's clock.
const clockStep = time.Second

// widenFolder gives a folder that was just made the rights that the umask has taken. Others
// that may write to the folder above may have put something else in its place by now: a link,
// or another folder of ours. So it is changed by its open file, and no link leads out of the
// folder above. A folder that is not empty, or older, is not the one that was made.
func widenFolder(path string, mode fs.FileMode, made time.Time) error {
	above, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close()
	f, err := above.Open(filepath.Base(path))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || mode&^info.Mode() == 0 {
		return err
	}
	switch _, err := f.Readdirnames(1); {
	case err == nil, info.ModTime().Before(made.Add(-clockStep)):
		return fail.At("make", path, errors.New("another folder was put in its place"))
	case err != io.EOF:
		return err
	}
	return f.Chmod(info.Mode() | mode) // with the set-group-id bit that the folder above gave
}

// orAsThere returns f for a caller that asked for no mode, and acquires no lock of its own: it
// clears a dead holder's away, or writes for a process above. If it has to make the sibling,
// that gets the mode of the lock file, if the lock file is this user's. No mode is taken from
// another user's file: then the sibling lets in the users that may make files in the folder.
func (f File) orAsThere() File {
	if f.Perm != 0 || platform.IsThere(f.Path+siblingSuffix) {
		return f
	}
	if info, _, err := platform.Look(f.Path); err == nil && info.Owner == os.Geteuid() {
		f.Perm = info.Mode.Perm()&0o066 | 0o600
	} else if folder, err := os.Stat(filepath.Dir(f.Path)); err == nil {
		writers := folder.Mode().Perm() & 0o022
		f.Perm = 0o600 | writers | writers<<1
	}
	return f
}
