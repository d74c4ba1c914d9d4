package platform_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/platform"
)

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
