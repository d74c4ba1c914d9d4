package platform

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// FileID tells one file from every other file, past or present, as well as the
// system can. Inode numbers are used again at once on some filesystems (ext4),
// so the time of birth is part of it where the system tells it; 0 is unknown.
type FileID struct {
	Dev, Ino uint64
	Birth    int64 // Unix nanoseconds
}

// String gives the form that claims carry: decimal numbers, "dev:ino:birth".
func (id FileID) String() string {
	b := strconv.AppendUint(make([]byte, 0, 64), id.Dev, 10)
	b = strconv.AppendUint(append(b, ':'), id.Ino, 10)
	return string(strconv.AppendInt(append(b, ':'), id.Birth, 10))
}

// IdentifyFile returns the identity of the file at path; a symbolic link is not
// followed.
func IdentifyFile(path string) (FileID, error) { return identifyFile(path) }

// Unchanged reports whether two looks saw one file in one state: identity, size,
// time of its contents and, where the system tells it, of its last change of any
// kind, which nobody can set.
func Unchanged(a, b fs.FileInfo) bool {
	return sameInfo(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changeTime(a) == changeTime(b)
}

// A NewFile is a file that Create has made, open for writing. It is its owner's to
// close; closing it again does nothing. It is used by one goroutine at a time.
type NewFile interface {
	io.Writer
	io.WriterAt
	io.Closer
	// Stat describes the file.
	Stat() (fs.FileInfo, error)
	// MarkComplete clears the mark that CreateIncomplete set; the file's mode is
	// 0600 afterwards.
	MarkComplete() error
}

// Create creates the file at path, which must not exist, for writing, with mode
// 0600. A symbolic link at path, dangling or not, counts as existing. The error
// matches fs.ErrExist when something is there.
func Create(path string) (NewFile, error) { return create(path, false) }

// CreateIncomplete is Create, but marks the file as incomplete by the act that
// creates it: mode 0200 on Unix, the attribute "temporary" on Windows.
//
// The mark is cleared by MarkComplete; a file that still bears it was left by a
// writer that died, or one that still writes.
func CreateIncomplete(path string) (NewFile, error) { return create(path, true) }

// IsIncomplete reports whether a file bears CreateIncomplete's mark.
func IsIncomplete(info fs.FileInfo) bool { return isIncomplete(info) }

// ErrNotRegular is returned by ReadRegular for what is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is returned by ReadRegular for a file above its limit.
var ErrTooLarge = errors.New("file is too large")

// ReadRegular reads the regular file at path, of at most limit bytes, and
// describes it. It does not follow a symbolic link, does not wait for the other
// end of a FIFO, and reads at most one byte beyond the limit.
//
// The description is returned, as far as it is known, with ErrNotRegular, with
// ErrTooLarge, and when the file exists but can't be opened.
func ReadRegular(path string, limit int64) ([]byte, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	f, err := OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, info, err
	}
	defer f.Close()
	// The path may have changed between the look and the opening.
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, info, err
	}
	if int64(len(data)) > limit {
		return nil, info, &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	return data, info, nil
}

// OpenRegular opens the regular file at path with the flags of os.OpenFile, and
// mode 0600 if it creates it. It does not follow a symbolic link, and does not
// wait for the other end of a FIFO.
func OpenRegular(path string, flag int) (*os.File, error) {
	notRegular := &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	// Look before opening: to open a device can have effects.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular
	}
	f, err := os.OpenFile(path, flag|openNoFollow|openNonBlock, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(notRegular, err, f.Close())
	}
	return f, nil
}

// BeingWritten reports whether any process of this machine, in whatever container,
// has the regular file at path open for writing. An error means that it can't be
// told: it matches errors.ErrUnsupported where the system has no answer.
//
// Source: fcntl(2), F_SETLEASE: the kernel grants a read lease on a file that
// nobody has open for writing. It is given up at once.
func BeingWritten(path string) (bool, error) { return beingWritten(path) }

// Remove removes the file at path, and nothing that is a directory.
func Remove(path string) error { return removeFile(path) }

// Replace renames the file at from to the path to, replacing what is there.
func Replace(from, to string) error { return replaceFile(from, to) }

// RenameNew renames the file at from to the path to, at which nothing may be: the
// error then matches fs.ErrExist, and nothing has changed. Of several who rename to
// one path one succeeds.
func RenameNew(from, to string) error { return renameNew(from, to) }

// linkNew is RenameNew in two steps: a crash in between leaves the file under both
// names.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return Remove(from)
}
