package platform

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// A File is a regular file that is open: to be read, written, and locked (see kernel.go). One
// goroutine uses it at a time, except that LeaveTurnstile may be called while another
// goroutine waits in WaitLock.
//
// Its owner closes it. Descriptors are close-on-exec.
type File struct {
	path      string
	id        FileID
	locked    bool        // the kernel lock is ours
	turnstile atomic.Bool // the turnstile is
	descriptor
}

// FileID tells a file from every other existing file: as long as it is open, or has a name, no
// other has its numbers. Once it is neither, some filesystems give its inode to the next file
// at once (ext4, tmpfs).
type FileID struct{ Dev, Ino uint64 }

// Info is what one look at a file found. If two looks found the same (==), nobody has touched
// the file in between, as well as the system can tell.
type Info struct {
	Mode     fs.FileMode
	Size     int64
	Modified time.Time // when its contents were last written
	Changed  int64     // when it last changed in any way; can't be set; 0 where the system doesn't tell
	Links    uint64
	Owner    int // its user's number; -1 where users have none
}

// ErrNotRegular is returned for what is not a regular file: a symbolic link, a folder, a FIFO,
// a socket, a device.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is returned for a file that is larger than its reader allows.
var ErrTooLarge = errors.New("file is too large")

// ErrLeased is returned by Open for a file on which a process has a lease (fcntl(2),
// F_SETLEASE) that the opening would break. The kernel has told that process to give it up,
// and ends it after /proc/sys/fs/lease-break-time; until then opening would wait.
var ErrLeased = errors.New("another process has a lease on the file")

// Open opens the regular file at path with flags of package os, of which os.O_CREATE creates
// it with mode 0600. It does not follow a symbolic link in the last element of path. It waits
// for nothing: not the other end of a FIFO, nor the end of a lease (ErrLeased).
func Open(path string, flag int) (*File, error) {
	// Look before opening: opening a device can have effects.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	f, err := open(path, flag)
	if err != nil {
		return nil, err
	}
	if _, err := f.Stat(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenToLock is Open for a file of which only the lock is wanted, and makes it if it does not
// exist, as CreateAs would. It leaves out what takes further system calls: whether the file is
// a regular one, and its ID, are known once Stat has been called. made tells whether this call
// has made the file. An existing one is left as it is: it may be anybody's.
//
// In a folder like /tmp, O_CREAT is refused for another user's file, even to root (Linux,
// fs.protected_regular). So only what is not there is created.
func OpenToLock(path string, mark bool, perm fs.FileMode) (f *File, made bool, err error) {
	for range 10 { // others may create and remove it in between
		f, err = open(path, os.O_RDWR)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, false, err
		}
		if f, err = CreateAs(path, mark, perm); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil && f != nil {
		f, err = nil, errors.Join(err, f.Close())
	}
	return f, err == nil, err
}

// Create creates the file at path, which must not exist, for reading and writing, with mode
// 0600. A symbolic link at path, dangling or not, counts as existing. The error matches
// fs.ErrExist when something is there. Its ID is known once Stat has been called.
//
// With mark the file bears one that Info.Marked finds, from the act that creates it.
func Create(path string, mark bool) (*File, error) { return CreateAs(path, mark, 0) }

// CreateAs is Create with other rights: those of perm, whatever the umask; 0 means 0600 less
// the umask. What a default ACL of the folder takes away stays away.
//
// A second act gives back what the umask takes. In between others may be refused. If that act
// fails, CreateAs returns both the error and the file, for the caller to remove.
func CreateAs(path string, mark bool, perm fs.FileMode) (*File, error) {
	if perm == 0 {
		return create(path, mark, 0o600)
	}
	f, err := create(path, mark, perm)
	if err == nil {
		err = f.widen(perm)
	}
	return f, err
}

// CreateUnnamed is CreateAs, with a mark, for a file that GiveName gives the path to later. Until then
// it has no name, and nobody comes across it; it ends with the process. The error matches
// errors.ErrUnsupported where there is no such thing.
func CreateUnnamed(path string, perm fs.FileMode) (*File, error) {
	f, err := createUnnamed(path, max(perm, 0o600))
	if err == nil && perm != 0 {
		err = f.widen(perm)
	}
	return f, err
}

// GiveName gives a file of CreateUnnamed its path. The error matches fs.ErrExist when something has
// that name.
func (f *File) GiveName() error { return f.error("link", f.giveName(f.path)) }

// widen gives a file that was just made the rights of perm, beside those that it has. It does
// nothing where an ACL of the folder says which rights its files get.
func (f *File) widen(perm fs.FileMode) error {
	info, err := f.Stat()
	if err != nil || perm&^info.Mode == 0 || HasDefaultACL(filepath.Dir(f.path)) {
		return err
	}
	return f.error("chmod", f.chmod(info.Mode|perm))
}

// HasDefaultACL reports whether a folder says by an ACL which rights files in it get (Linux).
// Then the umask plays no part.
func HasDefaultACL(folder string) bool { return hasDefaultACL(folder) }

// KeepsMarks reports whether this system lets a program mark a file by Create.
const KeepsMarks = keepsMarks

// Marked reports whether the file bears the mark of Create: the sticky bit, which means
// nothing for a regular file, and takes no right away. Umask and default ACLs may take away an
// x bit, or a set-id bit, and a write may clear it; this one stays.
func (i Info) Marked() bool { return keepsMarks && i.Mode&fs.ModeSticky != 0 }

// Path is the path by which the file was opened, or linked.
func (f *File) Path() string { return f.path }

// ID identifies the file, once Stat or IsAt has been called.
func (f *File) ID() FileID { return f.id }

// IsAt reports whether path leads to this very file now; a symbolic link is not followed.
func (f *File) IsAt(path string) (bool, error) {
	if f.id == (FileID{}) {
		if _, err := f.Stat(); err != nil {
			return false, err
		}
	}
	info, id, err := look(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	// A filesystem may cache for a while where a path led to.
	return err == nil && id == f.id && info.Links > 0, err
}

// IdentifyFile returns the identity of the file at path; a symbolic link is not followed.
func IdentifyFile(path string) (FileID, error) {
	_, id, err := look(path)
	return id, err
}

// IsThere reports whether something is at path, and can be looked at.
func IsThere(path string) bool { return isThere(path) }

// Stat describes the file. The error is ErrNotRegular for anything but a regular file.
func (f *File) Stat() (Info, error) {
	info, id, err := f.stat()
	if err == nil && !info.Mode.IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return Info{}, f.error("stat", err)
	}
	f.id = id
	return info, nil
}

// Look describes what is at path; a symbolic link is not followed.
func Look(path string) (Info, FileID, error) { return look(path) }

// Read returns the contents, if they are of at most limit bytes, and reads at most one byte
// beyond. The error matches ErrTooLarge for a larger file.
func (f *File) Read(limit int) ([]byte, error) {
	data := make([]byte, 0, min(limit+1, 1<<10))
	for len(data) <= limit {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := f.readAt(data[len(data):min(cap(data), limit+1)], int64(len(data)))
		if err != nil {
			return nil, f.error("read", err)
		}
		if n == 0 {
			return data, nil
		}
		data = data[:len(data)+n]
	}
	return nil, f.error("read", ErrTooLarge)
}

// ReadAt reads from an offset on, as much as there is, up to the length of data.
func (f *File) ReadAt(data []byte, offset int64) (n int, err error) {
	n, err = f.readAt(data, offset)
	return n, f.error("read", err)
}

// Begins reports whether the file begins with data.
func (f *File) Begins(data []byte) (bool, error) {
	buf := make([]byte, len(data))
	n, err := f.readAt(buf, 0)
	return err == nil && bytes.Equal(buf[:n], data), f.error("read", err)
}

// WriteAt writes data at an offset, all of it or as much as the error leaves.
func (f *File) WriteAt(data []byte, offset int64) error {
	return f.error("write", f.writeAt(data, offset))
}

// Sync has the system write the file to its disk, or server. A filesystem without such a thing
// is no error.
func (f *File) Sync() error {
	err := f.sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return f.error("sync", err)
}

// Unmark takes the mark of Create away. The error matches errors.ErrUnsupported where that
// can't be done.
func (f *File) Unmark() error { return f.error("chmod", f.unmark()) }

// Link gives the file a further name, by which f is known from then on. The error matches
// fs.ErrExist when something has that name, and errors.ErrUnsupported on a filesystem without
// hard links.
func (f *File) Link(path string) error {
	err := os.Link(f.path, path)
	if err == nil {
		f.path = path
		return nil
	}
	if isNoLinks(err) {
		err = errors.Join(err, errors.ErrUnsupported)
	}
	return err
}

// Close lets go of turnstile and lock, and then closes the file. Closing alone would not do: a
// child of this process that is between fork and exec still has the file open. (Of 1500
// releases without the first step, 721 left the lock held.) The file is closed after an error,
// too, which only a failing filesystem gives, or one that has gone away. Then the lock goes
// with it, unless a child has it open. (Where locks have descriptors of their own, as
// gofrs/flock's, it stays open, to be closed again.) Closing again does nothing.
func (f *File) Close() error {
	if f == nil || f.closed() {
		return nil
	}
	f.LeaveTurnstile()
	err := f.Unlock()
	if err != nil && !closeUnlocks {
		return err
	}
	return errors.Join(err, f.error("close", f.close()))
}

func (f *File) error(op string, err error) error { return pathError(op, f.path, err) }

// pathError adds to an error what failed, and where, unless it says so already.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var already *fs.PathError
	if errors.As(err, &already) {
		return err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// again repeats a call as long as a signal interrupts it. (The runtime's signal handlers are
// installed with SA_RESTART, which not all system calls honour. A handler that C code in the
// process has installed may not be.)
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// BeingWritten reports whether any process of this machine, in whatever container, has the
// file open for writing; f itself must be open for reading alone. An error means that it can't
// be told: it matches errors.ErrUnsupported where the system, or the filesystem, has no
// answer.
//
// Source: fcntl(2), F_SETLEASE: the kernel grants a read lease on a file that nobody has open
// for writing. It is given up at once.
func (f *File) BeingWritten() (bool, error) {
	written, err := f.beingWritten()
	return written, f.error("lease", err)
}

// IsOpenElsewhere reports whether any process of this machine, in whatever container, has the
// file open by another act of opening than f. f must be open for reading and writing. An error
// means that it can't be told: it matches errors.ErrUnsupported where the system, or the
// filesystem, has no answer, and fs.ErrPermission for another user's file, unless this process
// is root's.
//
// Source: fcntl(2), F_SETLEASE: the kernel grants a write lease on a file that nobody else has
// open. It is given up at once.
func (f *File) IsOpenElsewhere() (bool, error) {
	open, err := f.isOpenElsewhere()
	return open, f.error("lease", err)
}

// ReadRegular reads the regular file at path, of at most limit bytes. See Open and File.Read.
func ReadRegular(path string, limit int) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Read(limit)
}

// Remove removes the file at path, but no directory: a directory at a lock's path is somebody
// else's lock. (os.Remove would go on to rmdir(2).)
func Remove(path string) error {
	return pathError("remove", path, again(func() error { return removeFile(path) }))
}

// RenameNew renames the file at from to the path to. If something is there, the error matches
// fs.ErrExist, and nothing has changed. Of several processes that rename to one path one
// succeeds. Where the system, or the filesystem, can't do it at once, a crash may leave the
// file under both names.
//
// The caller alone uses from. So if the file has gone to the other name, an error that says
// otherwise (a disk, or a server, whose answer was lost) is none.
func RenameNew(from, to string) error {
	switch err := again(func() error { return renameNew(from, to) }); {
	case err == nil:
		return nil
	case !errors.Is(err, errors.ErrUnsupported):
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) && hasGone(from, to) {
			return nil
		}
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	if err := os.Link(from, to); err != nil && (errors.Is(err, fs.ErrExist) || !sameFile(from, to)) {
		return err
	}
	return Remove(from)
}

// hasGone reports whether the file that was at from is at to. The kernel may have it cached at
// from, as it believes the error.
func hasGone(from, to string) bool {
	if sameFile(from, to) {
		return true
	}
	_, _, err := look(from)
	_, _, terr := look(to)
	return errors.Is(err, fs.ErrNotExist) && terr == nil
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	_, one, err1 := look(a)
	_, other, err2 := look(b)
	return err1 == nil && err2 == nil && one == other
}
