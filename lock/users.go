package lock

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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
// in it, whatever the umask; but what a default ACL takes away stays away. Without one,
// nobody else may: who may write to a folder can remove any lock in it. The error matches
// fs.ErrExist if a folder is there, and may be used.
func (f File) makeFolder(path string) error {
	mode := f.Perm | f.Perm>>2&0o111 // who may read may enter
	if f.Perm == 0 {
		mode = 0o755
	}
	if err := os.Mkdir(path, mode); errors.Is(err, fs.ErrExist) {
		return cmp.Or(f.madeByOther(path), err)
	} else if err != nil || f.Perm == 0 {
		return err
	}
	if platform.HasDefaultACL(filepath.Dir(path)) {
		return nil
	}
	return widenFolder(path, mode)
}

// widenFolder gives a folder that was just made the rights that the umask has taken. Others
// who may write to the folder above may have put something else in its place by now: a link,
// or another folder of ours. So it is changed by its open file, no link leads out of the
// folder above, and what is not empty is not the folder that was made.
func widenFolder(path string, mode fs.FileMode) error {
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
	case err == nil:
		return pathError("make", path, errors.New("another folder was put in its place"))
	case err != io.EOF:
		return err
	}
	return f.Chmod(info.Mode() | mode) // with the set-group-id bit that the folder above gave
}
