package platform_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

// noSync is a file and a folder that a filesystem can't sync, as the kernel says.
func noSync(t *testing.T) (file, folder string) {
	t.Helper()
	for _, path := range []string{"/proc/self", "/proc/self/status"} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Fsync(fd)
			unix.Close(fd)
		}
		if err != unix.EINVAL {
			t.Skip("needs a /proc that can't be synced: ", err)
		}
	}
	return "/proc/self/status", "/proc/self"
}

// TestSync_NoSuchThing: a filesystem that knows no fsync for a file, or for a folder, and says
// EINVAL, is no error.
func TestSync_NoSuchThing(t *testing.T) {
	file, folder := noSync(t)
	noErr(t, platform.SyncFolder(folder))
	f := must(platform.Open(file, os.O_RDONLY))(t)
	noErr(t, f.Sync())
	closed(t, f)
	that(t, f.Sync() != nil, "no error of a closed file")
}

// TestCreateAs: the rights that are asked for, whatever the umask, and the mark with them.
func TestCreateAs(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	for _, mark := range []bool{false, true} {
		for perm, want := range map[fs.FileMode]fs.FileMode{0: 0o600, 0o600: 0o600, 0o660: 0o660, 0o666: 0o666} {
			path := filepath.Join(t.TempDir(), "file")
			f := must(platform.CreateAs(path, mark, perm))(t)
			info, err := f.Stat()
			if err != nil || info.Mode.Perm() != want || info.Marked() != (mark && platform.KeepsMarks) {
				t.Errorf("mode %v, mark %v: %v, %v", perm, mark, info.Mode, err)
			}
			wantErr(t, errOf(platform.CreateAs(path, mark, perm)), fs.ErrExist, "there already")
			noErr(t, errOf(os.Stat(path)), "what was there is gone")
			closed(t, f)
		}
	}
}

// TestLink: a file is known by the name that it was linked to, if it was.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	path, taken, to := filepath.Join(dir, "file"), filepath.Join(dir, "taken"), filepath.Join(dir, "to")
	f := open(t, path)
	closed(t, open(t, taken))
	if err := f.Link(taken); !errors.Is(err, fs.ErrExist) || f.Path() != path {
		t.Errorf("to a name that is taken: %v, known as %s", err, f.Path())
	}
	if err := f.Link(to); err != nil || f.Path() != to {
		t.Errorf("%v, known as %s", err, f.Path())
	}
	if at, err := f.IsAt(to); err != nil || !at {
		t.Error(at, err)
	}
	f = open(t, path)
	if err := f.Link("/dev/shm/holdfast-no-link"); err == nil {
		os.Remove("/dev/shm/holdfast-no-link")
		t.Skip("needs a folder on another filesystem")
	} else if f.Path() != path {
		t.Errorf("%v, and known as %s", err, f.Path())
	}
}

// TestRenameNew_OtherFilesystem: an error with files at both names is an error.
func TestRenameNew_OtherFilesystem(t *testing.T) {
	memory, err := os.MkdirTemp("/dev/shm", "holdfast")
	if err != nil {
		t.Skip("needs /dev/shm: ", err)
	}
	defer os.RemoveAll(memory)
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(memory, "to")
	if os.Link(t.TempDir(), to) == nil || os.Rename(memory, filepath.Join(t.TempDir(), "x")) == nil {
		t.Skip("needs two filesystems")
	}
	check(t, os.WriteFile(from, []byte("new"), 0o600))
	check(t, os.WriteFile(to, []byte("old"), 0o600))
	that(t, platform.RenameNew(from, to) != nil, "it passes for renamed")
	for path, want := range map[string]string{from: "new", to: "old"} {
		if got, err := os.ReadFile(path); string(got) != want {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
}

// TestLease_GivenUp: who was asked whether a file is open, and stays open itself, keeps nobody
// from opening it.
func TestLease_GivenUp(t *testing.T) {
	testkit.NeedsLeases(t)
	path := filepath.Join(t.TempDir(), "file")
	closed(t, open(t, path))
	reader := must(platform.Open(path, os.O_RDONLY))(t)
	defer reader.Close()
	if written, err := reader.BeingWritten(); err != nil || written {
		t.Error(written, err)
	}
	writer := must(platform.Open(path, os.O_RDWR))(t)
	defer writer.Close()
	if elsewhere, err := writer.IsOpenElsewhere(); err != nil || !elsewhere {
		t.Errorf("open elsewhere: %v, %v", elsewhere, err)
	}
	closed(t, reader)
	if elsewhere, err := writer.IsOpenElsewhere(); err != nil || elsewhere {
		t.Errorf("open here alone: %v, %v", elsewhere, err)
	}
	closed(t, open(t, path))
}

// TestLockError: only on a filesystem that is not trusted does a lack of locks mean that there
// are none: elsewhere the kernel is short of memory.
func TestLockError(t *testing.T) {
	here := open(t, filepath.Join(t.TempDir(), "file"))
	fsys := must(platform.FilesystemOf(filepath.Dir(here.Path())))(t)
	elsewhere := must(platform.Open("/proc/self/status", os.O_RDONLY))(t)
	defer elsewhere.Close()
	for _, test := range []struct {
		f    *platform.File
		err  error
		want bool
	}{
		{here, unix.ENOLCK, !fsys.Trusted}, {elsewhere, unix.ENOLCK, true}, {here, unix.ENOSYS, true},
		{here, unix.EOPNOTSUPP, true}, {here, unix.EIO, false}, {elsewhere, unix.EIO, false},
	} {
		err := test.f.LockError(test.err)
		if !errors.Is(err, test.err) || errors.Is(err, errors.ErrUnsupported) != test.want {
			t.Errorf("%s, %v: %v", test.f.Path(), test.err, err)
		}
	}
}

// TestFilesystemOf_Mounted: filesystems that are local, and yet not on the list.
func TestFilesystemOf_Mounted(t *testing.T) {
	if !testkit.WithMounts(t) {
		return
	}
	for kind, trusted := range map[string]bool{"tmpfs": true, "ramfs": false} {
		dir := t.TempDir()
		if err := syscall.Mount("none", dir, kind, 0, ""); err != nil {
			t.Logf("no %s here: %v", kind, err) // users may mount some kinds only
			continue
		}
		defer syscall.Unmount(dir, syscall.MNT_DETACH)
		if got, err := platform.FilesystemOf(dir); err != nil || got.Kind != kind || got.Trusted != trusted {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
}
