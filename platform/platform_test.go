package platform_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

// roleVar tells the test binary to play a part instead of running tests.
const roleVar = "HOLDFAST_PLATFORM_ROLE"

// roles are filled by the files per system.
var roles = map[string]func(){}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		roles[role]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience bounds what must not hang; nothing is expected to take this long.
const patience = time.Minute

func promptly(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s hangs", what)
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func needsKernelLocks(t *testing.T) {
	t.Helper()
	if _, err := platform.TryKernelLock(filepath.Join(t.TempDir(), "probe"), platform.Exclusive); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs a system with kernel locks")
	}
}

func tryLock(t *testing.T, path string, mode platform.Mode) *platform.KernelLock {
	t.Helper()
	k, err := platform.TryKernelLock(path, mode)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func unlock(t *testing.T, k *platform.KernelLock) {
	t.Helper()
	if err := k.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// Kernel locks.

func TestTryKernelLock_Modes(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	for _, test := range []struct {
		first, second platform.Mode
		busy          bool
	}{
		{platform.Exclusive, platform.Exclusive, true},
		{platform.Exclusive, platform.Shared, true},
		{platform.Shared, platform.Exclusive, true},
		{platform.Shared, platform.Shared, false},
	} {
		first := tryLock(t, path, test.first)
		second, err := platform.TryKernelLock(path, test.second)
		if test.busy && err != platform.ErrBusy {
			t.Errorf("%v then %v: %v, want ErrBusy itself", test.first, test.second, err)
		} else if !test.busy && err != nil {
			t.Errorf("%v then %v: %v", test.first, test.second, err)
		}
		if err == nil {
			unlock(t, second)
		}
		unlock(t, first)
		unlock(t, tryLock(t, path, test.second))
	}
}

func TestTryKernelLock_CreatesAndLeaves(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	k := tryLock(t, path, platform.Exclusive)
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode is %v, want 0600", info.Mode())
	}
	id, err := platform.IdentifyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if at, same, err := k.At(path); err != nil || !same || at != id {
		t.Errorf("at its path is %v, %v, %v; want %v", at, same, err, id)
	}
	unlock(t, k)
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	unlock(t, tryLock(t, path, platform.Shared))
	if data, err := os.ReadFile(path); err != nil || string(data) != "content" {
		t.Errorf("content is %q (%v)", data, err)
	}
	if err := k.Unlock(); err != nil {
		t.Errorf("second Unlock: %v", err)
	}
}

func TestTryKernelLock_Replaced(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	k := tryLock(t, path, platform.Exclusive)
	defer unlock(t, k)
	is := func() bool {
		_, same, err := k.At(path)
		if err != nil {
			t.Fatal(err)
		}
		return same
	}
	if !is() {
		t.Error("the locked file is not the one at its path")
	}
	if runtime.GOOS == "windows" {
		return // an open file stays where it is
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if _, same, err := k.At(path); same || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("moved away: %v, %v", same, err)
	}
	other := tryLock(t, path, platform.Exclusive) // another file, and so another lock
	defer unlock(t, other)
	if is() {
		t.Error("a replaced file passes for the locked one")
	}
	if _, err := platform.TryKernelLock(path+".moved", platform.Exclusive); err != platform.ErrBusy {
		t.Errorf("the lock did not move with its file: %v", err)
	}
}

func TestWaitKernelLock(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	k := tryLock(t, path, platform.Exclusive)
	var dropped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		next, err := platform.WaitKernelLock(path, platform.Exclusive)
		if err != nil {
			t.Error(err)
			return
		}
		if !dropped.Load() {
			t.Error("granted while it was held")
		}
		if err := next.Unlock(); err != nil {
			t.Error(err)
		}
	}()
	dropped.Store(true)
	unlock(t, k)
	promptly(t, "WaitKernelLock", func() { <-done })
}

func TestPeekKernelLock(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "sibling")
	if err := platform.PeekKernelLock(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("looking created the file")
	}
	for _, mode := range []platform.Mode{platform.Exclusive, platform.Shared} {
		k := tryLock(t, path, mode)
		if err := platform.PeekKernelLock(path); err != platform.ErrBusy {
			t.Errorf("held in mode %v: %v, want ErrBusy", mode, err)
		}
		unlock(t, k)
		if err := platform.PeekKernelLock(path); err != nil {
			t.Errorf("free: %v", err)
		}
	}
	unlock(t, tryLock(t, path, platform.Exclusive)) // nothing stays locked by looking
}

// Files.

func TestReadRegular_Limit(t *testing.T) {
	const limit = 100
	path := filepath.Join(t.TempDir(), "file")
	for size := range int64(limit + 3) {
		want := bytes.Repeat([]byte{'x'}, int(size))
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		data, info, err := platform.ReadRegular(path, limit)
		if info == nil || info.Size() != size {
			t.Fatalf("size %d: described as %v", size, info)
		}
		if size <= limit && (err != nil || !bytes.Equal(data, want)) {
			t.Errorf("size %d: %d bytes, %v", size, len(data), err)
		}
		if size > limit && (!errors.Is(err, platform.ErrTooLarge) || data != nil) {
			t.Errorf("size %d: %d bytes, %v; want ErrTooLarge", size, len(data), err)
		}
	}
	if _, info, err := platform.ReadRegular(path+".absent", limit); !errors.Is(err, fs.ErrNotExist) || info != nil {
		t.Errorf("absent: %v, %v", info, err)
	}
}

func TestReadRegular_ReadsNoMoreThanItMust(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Skip("needs a filesystem with sparse files:", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := platform.ReadRegular(path, 64<<10); !errors.Is(err, platform.ErrTooLarge) {
		t.Errorf("error is %v, want ErrTooLarge", err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("allocated %d bytes", n)
	}
}

func TestReadRegular_NotRegular(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.Symlink(target, link), os.Symlink(target+".absent", dangling)); err != nil {
		t.Skip("needs symbolic links:", err)
	}
	for _, path := range []string{link, dangling, dir} {
		data, info, err := platform.ReadRegular(path, 100)
		if !errors.Is(err, platform.ErrNotRegular) || data != nil {
			t.Errorf("%s: %q, %v; want ErrNotRegular", path, data, err)
		}
		if info == nil || info.Mode().IsRegular() {
			t.Errorf("%s: described as %v", path, info)
		}
	}
}

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if _, err := platform.OpenRegular(path, os.O_RDWR); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	f, err := platform.OpenRegular(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 5); err != nil {
		t.Error(err)
	}
	f.Close()
	if info, err := os.Lstat(path); err != nil || info.Size() != 6 || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := platform.OpenRegular(dir, os.O_RDONLY); !errors.Is(err, platform.ErrNotRegular) {
		t.Errorf("directory: %v", err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(path+".absent", dangling); err != nil {
		t.Skip("needs symbolic links:", err)
	}
	if _, err := platform.OpenRegular(dangling, os.O_RDWR|os.O_CREATE); err == nil {
		t.Error("followed a dangling link")
	}
	if _, err := os.Lstat(path + ".absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("created what a dangling link names")
	}
}

func TestCreateIncomplete(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	f, err := platform.CreateIncomplete(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, "content"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || !platform.IsIncomplete(info) {
		t.Errorf("not marked: %v, %v", info, err)
	}
	if err := f.MarkComplete(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || platform.IsIncomplete(info) {
		t.Errorf("still marked: %v, %v", info, err)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode is %v, want 0600", info.Mode())
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "content" {
		t.Errorf("content is %q (%v)", data, err)
	}

	for _, there := range []string{"file", "directory", "link", "dangling"} {
		at := filepath.Join(dir, there)
		switch there {
		case "directory":
			err = os.Mkdir(at, 0o700)
		case "link":
			err = os.Symlink(path, at)
		case "dangling":
			err = os.Symlink(path+".absent", at)
		}
		if err != nil {
			t.Skip("needs symbolic links:", err)
		}
		if _, err := platform.CreateIncomplete(at); !errors.Is(err, fs.ErrExist) {
			t.Errorf("where there is a %s: %v, want ErrExist", there, err)
		}
	}
	if _, err := os.Lstat(path + ".absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("created what a dangling link names")
	}
	if _, err := platform.CreateIncomplete(filepath.Join(dir, "absent", "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its folder: %v", err)
	}
}

func TestNewFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f, err := platform.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("0123456789", 100_000)
	if n, err := io.WriteString(f, long); err != nil || n != len(long) {
		t.Fatal(n, err)
	}
	if n, err := f.WriteAt([]byte("ABC"), 5); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	want := "01234ABC" + long[8:]
	if data, err := os.ReadFile(path); err != nil || string(data) != want {
		t.Errorf("%d bytes, %v; want %d", len(data), err, len(want))
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	same, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !platform.Unchanged(info, same) || info.Name() != same.Name() || info.Mode() != same.Mode() || info.IsDir() {
		t.Errorf("Stat gives %v, Lstat %v", info, same)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if _, err := f.Write([]byte("late")); err == nil {
		t.Error("written to after Close")
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != want {
		t.Errorf("after Close: %d bytes, %v", len(data), err)
	}
}

func TestIsIncomplete_OnlyTheMark(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs file modes")
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o400, 0o220, 0o222, 0o300, 0o700} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || platform.IsIncomplete(info) {
			t.Errorf("mode %v passes for the mark (%v)", mode, err)
		}
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o200); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if info, err := os.Lstat(dir); err != nil || platform.IsIncomplete(info) {
		t.Errorf("a directory passes for an incomplete file (%v)", err)
	}
}

func TestRemoveAndReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := platform.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := platform.Remove(empty); err == nil {
		t.Error("removed a directory")
	}
	if _, err := os.Lstat(empty); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"file", "new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := platform.Replace(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "new" {
		t.Errorf("content is %q (%v)", data, err)
	}
	if err := platform.Replace(path, empty); err == nil {
		t.Error("replaced a directory")
	}
	if err := platform.Remove(path); err != nil {
		t.Error(err)
	}
}

func TestIdentifyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if _, err := platform.IdentifyFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	write := func(name string) platform.FileID {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := platform.IdentifyFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := write("file")
	if again := write("file"); again != first {
		t.Errorf("written to, %v became %v", first, again)
	}
	if other := write("other"); other == first {
		t.Errorf("two files are %v", first)
	}
	if parts := strings.Split(first.String(), ":"); len(parts) != 3 {
		t.Errorf("identity is %q", first)
	}
	if err := os.Rename(path, filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if moved := write("moved"); moved != first {
		t.Errorf("moved, %v became %v", first, moved)
	}
}

func TestUnchanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	look := func() fs.FileInfo {
		t.Helper()
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("content")
	first := look()
	if !platform.Unchanged(first, look()) {
		t.Error("changed by a look")
	}
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if !platform.Unchanged(first, look()) {
		t.Error("changed by being read")
	}
	for what, change := range map[string]func() error{
		"longer":    func() error { return os.WriteFile(path, []byte("content, more of it"), 0o600) },
		"time set":  func() error { return os.Chtimes(path, first.ModTime(), first.ModTime().Add(-time.Hour)) },
		"time back": func() error { return os.Chtimes(path, first.ModTime(), first.ModTime().Add(time.Hour)) },
		"another file, alike": func() error {
			// Made before the first is removed: not in its inode.
			return errors.Join(os.WriteFile(path+".new", []byte("content"), 0o600),
				os.Chtimes(path+".new", first.ModTime(), first.ModTime()), os.Rename(path+".new", path))
		},
	} {
		write("content")
		if err := os.Chtimes(path, first.ModTime(), first.ModTime()); err != nil {
			t.Fatal(err)
		}
		before := look()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if platform.Unchanged(before, look()) {
			t.Errorf("%s: passes for unchanged", what)
		}
	}
}

func TestFilesystemOf_Absent(t *testing.T) {
	dir := t.TempDir()
	there, err := platform.FilesystemOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if there.Kind == "" {
		t.Error("the kind is empty")
	}
	if _, err := platform.FilesystemOf(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of what does not exist: %v", err)
	}
}

// Processes and hosts.

func TestSelf(t *testing.T) {
	self := platform.Self()
	if self.PID != os.Getpid() {
		t.Errorf("pid is %d, want %d", self.PID, os.Getpid())
	}
	if self != platform.Self() {
		t.Error("changes")
	}
	want := platform.Alive
	if self.Start == 0 && self.PIDFD == 0 {
		want = platform.Exists
	}
	if l := platform.Probe(self); l != want {
		t.Errorf("liveness is %d, want %d", l, want)
	}
}

func TestProbe_NotAPID(t *testing.T) {
	for _, pid := range []int{0, -1, -os.Getpid()} {
		if l := platform.Probe(platform.Process{PID: pid}); l != platform.Uncertain {
			t.Errorf("pid %d: %d, want Uncertain", pid, l)
		}
	}
}

func TestAwaitExit_GivesUp(t *testing.T) {
	self := platform.Self()
	promptly(t, "AwaitExit", func() {
		if l := platform.AwaitExit(context.Background(), self, time.Millisecond); l == platform.Gone {
			t.Error("this process is gone")
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if l := platform.AwaitExit(ended, self, 24*time.Hour); l == platform.Gone {
			t.Error("this process is gone")
		}
	})
}

func TestThisHost(t *testing.T) {
	host := platform.ThisHost()
	if name, err := os.Hostname(); err == nil && host.Name != name {
		t.Errorf("name is %q, want %q", host.Name, name)
	}
	if host != platform.ThisHost() {
		t.Error("changes")
	}
	if host.Booted.After(time.Now()) {
		t.Errorf("booted in the future, %s", host.Booted)
	}
}
