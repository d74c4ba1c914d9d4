package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/platform"
)

// The sibling lies in a folder where others may add, rename and link files. So the file at
// its path may be anybody's: a private file of this user, or of root's, that somebody has
// put there. These are kept here:
//
//   - A sibling bears a mark from the act that makes it, where a lock file would bear one.
//   - Only a file that we have just made gets a mode. One that is there has the mode that was
//     asked for, or the caller is told. The exception is a file that a crash has left between
//     making and mode: it is this user's, has one name, bears the mark where siblings do, and
//     holds nothing but what a sibling holds.
//   - Nothing is written to a file, and no file is removed, that does not show that it is a
//     sibling: see memory.alien, and isSibling.

// marksSibling reports whether a sibling that is made here bears the mark. It says no more than
// that holdfast made the file, so an overlay is no exception: see marks.
func (p *place) marksSibling() bool { return platform.KeepsMarks && p.shares() }

// siblingPerm is the mode of the sibling: all who may read a lock file stand in its queue, and
// for that they need to write.
func (f File) siblingPerm() fs.FileMode { return f.Perm | f.Perm&0o044>>1 }

// makeSibling opens the sibling, or makes it. Whether it is a regular file is known once Stat
// has been called.
func (p *place) makeSibling() (*platform.File, error) {
	f, made, err := platform.OpenToLock(p.sibling, p.marksSibling(), p.file.siblingPerm())
	if err == nil && !made {
		if err = p.checkMode(f); err != nil {
			f, err = nil, joined(err, f.Close())
		}
	}
	return f, err
}

// checkMode returns an error if a sibling that was there lets in fewer users than were asked
// for. It widens one that is certain to be ours.
func (p *place) checkMode(f *platform.File) error {
	perm := p.file.siblingPerm()
	if perm == 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil || perm&^info.Mode == 0 || platform.HasDefaultACL(filepath.Dir(p.sibling)) {
		return err
	}
	if info.Owner == os.Geteuid() && info.Links == 1 && (info.Marked() || !p.marksSibling()) {
		if m, err := readMemory(f); err == nil && !m.alien {
			return f.Widen(perm)
		}
	}
	return pathError("open", p.sibling, errMode)
}

// errMode is an error of permissions, as it may be one that passes: the sibling's maker has
// not undone the umask yet.
var errMode = fmt.Errorf("%w for all who are to have the lock", fs.ErrPermission)

// isSibling reports whether an open file shows that holdfast made it as a sibling: by the mark,
// or by what a holder wrote into it. Where no file can bear a mark, any file counts that holds
// nothing else: the caller's word for the path is all that there is.
func isSibling(f *platform.File, info platform.Info) (is bool, m memory, err error) {
	var lockBytes [fenceOffset]byte // nobody writes to them
	if info.Size > 0 {
		if _, err = f.ReadAt(lockBytes[:], 0); err == nil {
			m, err = readMemory(f)
		}
	}
	is = lockBytes == [fenceOffset]byte{} && !m.alien && (info.Marked() || m.isWritten() || !platform.KeepsMarks)
	return is, m, err
}

// hasSibling reports whether what lies at the sibling's path shows that holdfast made it.
func (p *place) hasSibling() bool {
	f, err := platform.Open(p.sibling, os.O_RDONLY)
	if err != nil {
		return false
	}
	is, info := false, platform.Info{}
	if info, err = f.Stat(); err == nil {
		is, _, err = isSibling(f, info)
	}
	return joined(err, f.Close()) == nil && is
}

// notPermitted adds to an error why the sibling may not be used, and what would help. Other
// errors it leaves as they are.
func (p *place) notPermitted(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	info, _, lerr := platform.Look(p.sibling)
	switch {
	case lerr != nil || info.Owner < 0:
		return fmt.Errorf("%w (all users of a lock need write permission for its folder)", err)
	case errors.Is(err, errMode) && info.Owner == os.Geteuid():
		return fmt.Errorf("%w: its mode is %04o, and %04o is asked for; holdfast does not change a file that may be another's: change its mode, or remove it while nobody uses the lock",
			err, info.Mode.Perm(), p.file.siblingPerm())
	}
	return fmt.Errorf("%w: it is %s's, with mode %04o, and this is %s; all users of a lock must ask for one mode that lets them in: 0660 for a group, 0666 for all",
		err, platform.UserName(info.Owner), info.Mode.Perm(), platform.User())
}

// orAsThere returns f for a caller who asked for no mode, and has no lock of their own to
// acquire: they clear a dead holder's away, or write for a process above. If they have to make
// the sibling, it gets the mode of the lock file, if that is this user's. No mode is taken
// from another user's file: then the sibling lets in those who may make files in the folder.
func (f File) orAsThere() File {
	if f.Perm != 0 || exists(f.Path+siblingSuffix) {
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
