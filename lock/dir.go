package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/internal/fail"
	"github.com/holdfast-go/holdfast/platform"
)

// Dir is a folder of lock files as a Locker: PATH/SPACE/NAME.lock. Bytes of a space or a name
// that can't safely be in a file's name are written as %XX, in hexadecimal. A Dir may be
// copied, and used by several goroutines at once.
type Dir struct {
	// Path is the folder. Acquiring makes it, and the spaces' folders in it, if the folder above
	// it exists. Only their owner can write to them, unless File.Perm lets others in.
	//
	// A folder's owner can remove any lock in it. So, without a File.Perm, a folder that another
	// user has made in a sticky one (/tmp, where anybody may come first) is refused, with an
	// error that matches fs.ErrPermission.
	Path string
	// File has the settings for all of the locks. Its Path is not used, nor Tidy: each lock is
	// tidied up at release.
	File File
}

var _ SharedLocker = Dir{}

// Acquire is File.Acquire of the key's File.
func (d Dir) Acquire(ctx context.Context, key Key) (Hold, error) {
	return d.acquire(ctx, key, false, File.Acquire)
}

// TryAcquire is File.TryAcquire of the key's File.
func (d Dir) TryAcquire(ctx context.Context, key Key) (Hold, error) {
	return d.acquire(ctx, key, false, File.TryAcquire)
}

// AcquireShared is Acquire with File.Shared.
func (d Dir) AcquireShared(ctx context.Context, key Key) (Hold, error) {
	return d.acquire(ctx, key, true, File.Acquire)
}

// TryAcquireShared is TryAcquire with File.Shared.
func (d Dir) TryAcquireShared(ctx context.Context, key Key) (Hold, error) {
	return d.acquire(ctx, key, true, File.TryAcquire)
}

func (d Dir) acquire(ctx context.Context, key Key, shared bool, how func(File, context.Context) (*FileHold, error)) (Hold, error) {
	f, err := d.At(key)
	if err != nil {
		return nil, err
	}
	f.Shared = shared
	held, err := how(f, ctx)
	if err != nil {
		return nil, err
	}
	return held, nil
}

// At returns the File of a key. Acquiring it makes the folders that Dir's own methods make.
// The error matches ErrInvalidName when Path or a part of the key is empty, or a part is too
// long for the name of a file.
func (d Dir) At(key Key) (File, error) {
	f := d.File
	space, name := escape(key.Space), escape(key.Name)+".lock"
	if d.Path == "" {
		return f, errNoFolder
	}
	if key.Space == "" || key.Name == "" || len(space) > maxBase {
		return f, fmt.Errorf("%w: lock key %q: neither part may be empty, or longer than a file's name", ErrInvalidName, key)
	}
	f.Tidy, f.Shared = true, false
	f.space = filepath.Join(d.Path, space)
	f.Path = filepath.Join(f.space, name)
	return f, checkPath(f.Path)
}

// isOfDir reports whether Dir.At returned f, so that its folder is ours to make.
func (f File) isOfDir() bool { return f.space != "" && filepath.Dir(f.Path) == f.space }

// makeFolders makes the folder of a File of Dir.At, and the one above it. What is above that
// may be mistyped, and is left to the caller.
func (f File) makeFolders() error {
	if !f.isOfDir() {
		return nil
	}
	dir := filepath.Dir(f.space)
	err := f.madeByOther(dir)
	if err == nil {
		err = f.makeFolder(f.space)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.makeFolder(dir); err == nil || errors.Is(err, fs.ErrExist) {
			err = f.makeFolder(f.space)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return noFolder(f.Path)
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		return fail.At("make folder for", f.Path, err)
	}
	return nil
}

// madeByOther returns an error if the locks are for one user, and another one, not root, owns
// a folder of theirs that lies in a sticky one. If the folder can't be looked at, what follows
// fails.
func (f File) madeByOther(folder string) error {
	info, _, err := platform.Look(folder)
	if err != nil || f.Perm != 0 || info.Owner <= 0 || info.Owner == os.Geteuid() {
		return nil
	}
	if above, err := os.Stat(filepath.Dir(folder)); err != nil || above.Mode()&fs.ModeSticky == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s is %s's, and lies where anybody may make a folder; its owner could remove any lock in it. Name another folder, or share the locks (Perm)",
		fs.ErrPermission, folder, platform.UserName(info.Owner))
}

var errNoFolder = fmt.Errorf("%w: the folder of the locks is not named", ErrInvalidName)

// Inspect is File.Inspect of the key's File.
func (d Dir) Inspect(ctx context.Context, key Key) (Status, error) {
	f, err := d.At(key)
	if err != nil {
		return Status{}, err
	}
	status, err := f.Inspect(ctx)
	status.Key = key
	return status, err
}

// List yields the locks below the folder that somebody holds, died holding, or, on Linux,
// waits for in the kernel. What can't be read comes as an error, and the rest follows. Before
// anything was acquired, it yields nothing.
func (d Dir) List(ctx context.Context) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		// The path becomes absolute, as it is in a Status. A link to the folder counts as
		// the folder, as it does for At.
		d, err := d.absolute()
		if err != nil {
			yield(Status{}, err)
			return
		}
		if !platform.IsThere(d.Path) && platform.IsThere(filepath.Dir(d.Path)) {
			return // nobody has acquired anything yet
		}
		at := func(path string) (File, bool) {
			key, ok := d.key(path)
			if !ok {
				return File{}, false
			}
			f, err := d.At(key)
			return f, err == nil
		}
		for status, err := range listBy(ctx, d.Path+string(filepath.Separator)+".", at) {
			if err == nil && status.State == evidence.Free && len(status.Waiters) == 0 {
				continue
			}
			status.Key, _ = d.key(status.Path)
			if !yield(status, err) {
				return
			}
		}
	}
}

func (d Dir) absolute() (Dir, error) {
	if d.Path == "" {
		return d, errNoFolder
	}
	path, err := filepath.Abs(d.Path)
	if err != nil {
		return d, fail.At("resolve", d.Path, err)
	}
	d.Path = path
	return d, nil
}

// key is the inverse of At. It returns false for a path that At does not make.
func (d Dir) key(path string) (Key, bool) {
	folder, file := filepath.Split(path)
	name, ok := strings.CutSuffix(file, ".lock")
	key := Key{unescape(filepath.Base(folder)), unescape(name)}
	at, err := d.At(key)
	if !ok || err != nil || filepath.Clean(at.Path) != filepath.Clean(path) {
		return Key{}, false
	}
	return key, true
}

const hexDigits = "0123456789ABCDEF"

// escape makes a text one element of a path, on every system. Its inverse is unescape.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		// No name may be that of a file beside a lock file.
		beside := strings.HasPrefix(s[i:], markerSuffix)
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0 && i < len(s)-1 && !beside
		if plain && (i > 0 || filepath.IsLocal(s)) { // "NUL" is no file on Windows
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

// unescape is the inverse of escape. From a text that escape did not make, it makes one that
// escapes to another text.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		high, low := -1, -1
		if s[i] == '%' && i+2 < len(s) {
			high, low = strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		}
		if high < 0 || low < 0 {
			b.WriteByte(s[i])
			continue
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String()
}
