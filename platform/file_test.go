package platform_test

import (
	"bytes"
	"errors"
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
		check(t, os.WriteFile(path, want, 0o600))
		data, err := platform.ReadRegular(path, limit)
		if size <= limit && (err != nil || !bytes.Equal(data, want)) {
			t.Errorf("size %d: %d bytes, %v", size, len(data), err)
		}
		if size > limit && (!errors.Is(err, platform.ErrTooLarge) || data != nil) {
			t.Errorf("size %d: %d bytes, %v; want ErrTooLarge", size, len(data), err)
		}
	}
	wantErr(t, errOf(platform.ReadRegular(path+".absent", limit)), fs.ErrNotExist, "absent")
}

func TestReadRegular_ReadsNoMoreThanItMust(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge")
	check(t, os.WriteFile(path, nil, 0o600))
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Skip("needs a filesystem with sparse files:", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	wantErr(t, errOf(platform.ReadRegular(path, 64<<10)), platform.ErrTooLarge)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("allocated %d bytes", n)
	}
}

func TestReadRegular_NotRegular(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	check(t, os.WriteFile(target, []byte("secret"), 0o600))
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.Symlink(target, link), os.Symlink(target+".absent", dangling)); err != nil {
		t.Skip("needs symbolic links:", err)
	}
	for _, path := range []string{link, dangling, dir} {
		data, err := platform.ReadRegular(path, 100)
		that(t, errors.Is(err, platform.ErrNotRegular) && data == nil, "%s: %q, %v; want ErrNotRegular", path, data, err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	wantErr(t, errOf(platform.Open(path, os.O_RDWR)), fs.ErrNotExist, "absent")
	f := open(t, path)
	noErr(t, f.WriteAt([]byte("x"), 5))
	if info, err := os.Lstat(path); err != nil || info.Size() != 6 || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	wantErr(t, errOf(platform.Open(dir, os.O_RDONLY)), platform.ErrNotRegular, "directory")
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.Symlink(path, link), os.Symlink(path+".absent", dangling)); err != nil {
		t.Skip("needs symbolic links:", err)
	}
	for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		for _, path := range []string{link, dangling} {
			if f, err := platform.Open(path, flag); err == nil {
				t.Errorf("followed %s with %#x", path, flag)
				f.Close()
			}
		}
	}
	wantErr(t, errOf(os.Lstat(path+".absent")), fs.ErrNotExist, "created what a dangling link names")
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, mark := range []bool{false, true} {
		os.Remove(path)
		f := must(platform.Create(path, mark))(t)
		defer f.Close()
		marked := func(want bool, when string) {
			t.Helper()
			if info, err := f.Stat(); err != nil || info.Marked() != want && platform.KeepsMarks {
				t.Errorf("%s: %v, %v; marked should be %v", when, info, err, want)
			}
		}
		marked(mark, "created")
		check(t, f.WriteAt([]byte("content"), 0))
		marked(mark, "written")
		if info, err := os.Lstat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("mode is %v, want 0600", info.Mode())
		}
		if err := f.Unmark(); errors.Is(err, errors.ErrUnsupported) && (!platform.KeepsMarks || runtime.GOOS == "windows") {
			closed(t, f) // so that its name is free
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		marked(false, "not any more")
		equal(t, string(must(os.ReadFile(path))(t)), "content", "content")
	}
	for _, there := range []string{"file", "directory", "link", "dangling"} {
		at := filepath.Join(dir, there)
		var err error
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
		wantErr(t, errOf(platform.Create(at, true)), fs.ErrExist, "where there is a", there)
	}
	wantErr(t, errOf(os.Lstat(path+".absent")), fs.ErrNotExist, "created what a dangling link names")
	wantErr(t, errOf(platform.Create(filepath.Join(dir, "absent", "file"), false)), fs.ErrNotExist, "without its folder")
}

func TestFile_Contents(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "file"))
	holds := func(want string) {
		t.Helper()
		if is, err := f.Begins([]byte(want)); err != nil || !is {
			t.Errorf("does not hold %.20q (%v)", want, err)
		}
		for _, other := range []string{want + "x", "x" + want, strings.Repeat("y", len(want)+1)} {
			if is, err := f.Begins([]byte(other)); err != nil || is {
				t.Errorf("holds %.20q (%v)", other, err)
			}
		}
		equal(t, string(must(f.Read(len(want)))(t)), want, "read")
	}
	holds("")
	long := strings.Repeat("0123456789", 100_000)
	write := func(text string, at int64) {
		t.Helper()
		check(t, f.WriteAt([]byte(text), at))
	}
	write(long, 0)
	holds(long)
	write("ABC", 5)
	holds("01234ABC" + long[8:])
	if data, err := f.Read(5); !errors.Is(err, platform.ErrTooLarge) || data != nil {
		t.Errorf("read %q, %v; want ErrTooLarge", data, err)
	}
	noErr(t, f.Sync())
	closed(t, f)
	closed(t, f)
	that(t, f.WriteAt([]byte("late"), 0) != nil, "written to after Close")
}

func TestInfo_OnlyTheMark(t *testing.T) {
	if !platform.KeepsMarks || runtime.GOOS == "windows" {
		t.Skip("needs a system whose marks are in the mode")
	}
	path := filepath.Join(t.TempDir(), "file")
	f := open(t, path)
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o200, 0o700, 0o700 | fs.ModeSetuid, 0o710 | fs.ModeSetgid} {
		check(t, os.Chmod(path, mode))
		if info, err := f.Stat(); err != nil || info.Marked() {
			t.Errorf("mode %v passes for the mark (%v)", mode, err)
		}
	}
	for _, mode := range []fs.FileMode{0o600, 0o644, 0} {
		check(t, os.Chmod(path, mode|fs.ModeSticky))
		if info, err := f.Stat(); err != nil || !info.Marked() {
			t.Errorf("mode %v hides the mark (%v)", mode, err)
		}
	}
}

// TestIsAt: whether a path leads to this very file, which is open, whatever has its name
// and inode otherwise.
func TestIsAt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := must(platform.Create(path, true))(t)
	defer f.Close()
	at := func(when, path string, want bool) {
		t.Helper()
		equal(t, must(f.IsAt(path))(t), want, when)
	}
	links := func(want uint64) {
		t.Helper()
		if info, err := f.Stat(); err != nil || info.Links != want && runtime.GOOS != "windows" {
			t.Errorf("%d links, want %d (%v)", info.Links, want, err)
		}
	}
	at("there", path, true)
	links(1)
	if err := os.Link(path, path+".link"); err != nil {
		t.Skip("needs hard links: ", err)
	}
	at("under another name", path+".link", true)
	links(2)
	if runtime.GOOS == "windows" {
		return // an open file stays where it is
	}
	rename(t, path, path+".moved")
	at("moved away", path, false)
	at("moved", path+".moved", true)
	for range 3 { // it has its inode as long as it is open
		check(t, os.WriteFile(path, nil, 0o600))
		at("another file", path, false)
		check(t, os.Remove(path))
	}
	for _, name := range []string{path + ".moved", path + ".link"} {
		check(t, os.Remove(name))
	}
	links(0)
	for range 100 {
		check(t, os.WriteFile(path, nil, 0o600))
		at("removed, and another made", path, false)
		check(t, os.Remove(path))
	}
	if err := os.Symlink(path+".absent", path); err == nil {
		at("a link to nothing", path, false)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	check(t, os.Rename(from, to))
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	wantErr(t, platform.Remove(path), fs.ErrNotExist, "absent")
	empty := filepath.Join(dir, "empty")
	check(t, os.Mkdir(empty, 0o700))
	that(t, platform.Remove(empty) != nil, "removed a directory")
	noErr(t, errOf(os.Lstat(empty)))
	check(t, os.WriteFile(path, nil, 0o600))
	if err := os.Chmod(path, 0o400); err != nil { // as one that is left of Update may have it
		t.Fatal(err)
	}
	noErr(t, platform.Remove(path), "read-only")
	check(t, os.WriteFile(path, nil, 0o600))
	// A lock file is judged, and then removed, while it is open.
	f := must(platform.Open(path, os.O_RDWR))(t)
	defer f.Close()
	noErr(t, platform.Remove(path))
}

func TestIdentifyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	wantErr(t, errOf(platform.IdentifyFile(path)), fs.ErrNotExist, "absent")
	write := func(name string) platform.FileID {
		t.Helper()
		check(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
		return must(platform.IdentifyFile(filepath.Join(dir, name)))(t)
	}
	first := write("file")
	if again := write("file"); again != first {
		t.Errorf("written to, %v became %v", first, again)
	}
	that(t, write("other") != first, "two files are %v", first)
	check(t, os.Rename(path, filepath.Join(dir, "moved")))
	if moved := write("moved"); moved != first {
		t.Errorf("moved, %v became %v", first, moved)
	}
}

// TestInfo_Changes: two looks are the same as long as nobody has touched the file.
func TestInfo_Changes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := open(t, path)
	look := func() platform.Info {
		t.Helper()
		return must(f.Stat())(t)
	}
	write := func(content string) {
		t.Helper()
		check(t, os.WriteFile(path, []byte(content), 0o600))
	}
	write("content")
	first := look()
	check(t, errOf(os.ReadFile(path)))
	equal(t, look(), first, "changed by being read")
	modified := first.Modified
	for what, change := range map[string]func() error{
		"longer":    func() error { return os.WriteFile(path, []byte("content, more of it"), 0o600) },
		"time set":  func() error { return os.Chtimes(path, modified, modified.Add(-time.Hour)) },
		"time back": func() error { return os.Chtimes(path, modified, modified.Add(time.Hour)) },
		"mode":      func() error { return os.Chmod(path, 0o640) },
	} {
		if what == "mode" && runtime.GOOS == "windows" {
			continue // has none but read-only
		}
		write("content")
		check(t, errors.Join(os.Chmod(path, 0o600), os.Chtimes(path, modified, modified)))
		before := look()
		check(t, change())
		that(t, look() != before, "%s: passes for unchanged", what)
	}
}
