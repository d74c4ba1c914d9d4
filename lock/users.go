package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/platform"
)

// maxDir bounds the working directory in a claim: a byte of it may take six there.
const maxDir = 1 << 10

func workingDir() string {
	dir := platform.WorkingDir()
	if len(dir) > maxDir {
		return ""
	}
	return dir
}

// notPermitted adds to an error why a file beside a lock may not be used, and what would
// help. Other errors it leaves as they are.
func notPermitted(path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	info, _, lerr := platform.Look(path)
	if lerr != nil || info.Owner < 0 {
		return fmt.Errorf("%w (all users of a lock need write permission for its folder)", err)
	}
	return fmt.Errorf("%w: it is %s's, with mode %04o, and this is %s; all users of a lock must ask for one mode that lets them in: 0660 for a group, 0666 for all",
		err, platform.UserName(info.Owner), info.Mode.Perm(), platform.User())
}

// keptBySticky returns an error if only others may remove the file at a path, which is not
// ours: then we can neither take it over nor, as its last reader, leave nothing behind.
func keptBySticky(path string, info platform.Info) error {
	if !platform.KeptBySticky(path, info.Owner) {
		return nil
	}
	owner := platform.UserName(info.Owner)
	return pathError("remove", path, fmt.Errorf("%w: it is %s's, and its folder is sticky, where only %[2]s, the folder's owner and root may remove it",
		fs.ErrPermission, owner))
}

// makeFolder makes a folder of a Dir. With a Perm, whoever may use the locks may make files
// in it, whatever the umask; but what a default ACL takes away stays away.
func (f File) makeFolder(path string) error {
	mode := f.Perm | f.Perm>>2&0o111 // who may read may enter
	if f.Perm == 0 {
		return os.Mkdir(path, 0o777)
	}
	if err := os.Mkdir(path, mode); err != nil {
		return err
	}
	if platform.HasDefaultACL(filepath.Dir(path)) {
		return nil
	}
	return widenFolder(path, mode)
}

// widenFolder gives a folder that was just made the rights that the umask has taken. Others
// who may write to the folder above may have put a link in its place by now, to a folder of
// ours that is none of theirs. So it is changed by its open file, and no link leads out of
// the folder above.
func widenFolder(path string, mode fs.FileMode) error {
	above, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer above.Close()
	folder, err := above.OpenRoot(filepath.Base(path))
	if errors.Is(err, fs.ErrPermission) { // the umask took even our own
		return above.Chmod(filepath.Base(path), mode)
	} else if err != nil {
		return err
	}
	defer folder.Close()
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || mode&^info.Mode() == 0 {
		return err
	}
	return f.Chmod(info.Mode() | mode) // with the set-group-id bit that the folder above gave
}

// asThere returns f with the mode of the lock file that is there: who only clears it away
// must leave a sibling that its users can open.
func (f File) asThere() File {
	if info, _, err := platform.Look(f.Path); err == nil && f.Perm == 0 {
		f.Perm = info.Mode.Perm()&0o066 | 0o600
	}
	return f
}
