package platform_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
)

// inFolder lists a folder.
func inFolder(t *testing.T, dir string) string {
	t.Helper()
	entries := must(os.ReadDir(dir))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// alone checks a file's contents, and that nothing lies beside it.
func alone(t *testing.T, path, want string) {
	t.Helper()
	got := must(os.ReadFile(path))(t)
	equal(t, string(got), want, "contents")
	equal(t, inFolder(t, filepath.Dir(path)), filepath.Base(path), "in the folder")
}

func TestWriteDurably_CreatesAndReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, contents := range []string{"", "first", strings.Repeat("long ", 1<<20), "short", ""} {
		check(t, platform.WriteDurably(path, []byte(contents)))
		alone(t, path, contents)
	}
	// By a name relative to the working directory, too.
	t.Chdir(filepath.Dir(path))
	check(t, platform.WriteDurably("f", []byte("relative")))
	alone(t, path, "relative")
}

// TestWriteDurably_IsANewFile: whoever has the old one open goes on reading the
// old contents.
func TestWriteDurably_IsANewFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file may not be replaced there")
	}
	path := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(path, []byte("old"), 0o600))
	reader := must(os.Open(path))(t)
	defer reader.Close()
	check(t, platform.WriteDurably(path, []byte("new contents")))
	buf := make([]byte, 100)
	if n, _ := reader.Read(buf); string(buf[:n]) != "old" {
		t.Errorf("the open file has %q", buf[:n])
	}
	alone(t, path, "new contents")
}

func TestWriteDurably_Mode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a system with file modes")
	}
	dir := t.TempDir()
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o755, 0o666, 0o777, 0o400, 0o000, 0o200, 0o640 | fs.ModeSticky} {
		path := filepath.Join(dir, fmt.Sprintf("%o", uint32(mode)))
		check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, mode)))
		check(t, platform.WriteDurably(path, []byte("new")), mode)
		if info, err := os.Lstat(path); err != nil || info.Mode() != mode || info.Size() != 3 {
			t.Errorf("mode is %v (%v), want %v", info.Mode(), err, mode)
		}
	}
}

// TestWriteDurably_ReadersSeeOldOrNew has readers look while files of one letter,
// each of another length, replace one another.
func TestWriteDurably_ReadersSeeOldOrNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	contents := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%26)}, 1+i*7919%100_000) }
	check(t, platform.WriteDurably(path, contents(0)))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				got, err := os.ReadFile(path)
				if err != nil && runtime.GOOS != "windows" {
					t.Error("the file went away:", err)
					return
				}
				if err == nil && (len(got) == 0 || len(bytes.Trim(got, string(got[:1]))) != 0) {
					t.Errorf("torn: %d bytes", len(got))
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 200 {
		if err := platform.WriteDurably(path, contents(i)); err != nil && runtime.GOOS != "windows" {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
}

// TestWriteDurably_Temporary: what lies at the temporary name is replaced, not
// written to.
func TestWriteDurably_Temporary(t *testing.T) {
	elsewhere := t.TempDir()
	victim := filepath.Join(elsewhere, "victim")
	check(t, os.WriteFile(victim, []byte("precious"), 0o600))
	for name, plant := range map[string]func(temp string) error{
		"file":          func(temp string) error { return os.WriteFile(temp, []byte("of a dead writer, and long"), 0o777) },
		"link":          func(temp string) error { return os.Symlink(victim, temp) },
		"dangling link": func(temp string) error { return os.Symlink(filepath.Join(elsewhere, "made"), temp) },
		"hard link":     func(temp string) error { return os.Link(victim, temp) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := plant(filepath.Join(filepath.Dir(path), ".f.holdfast-tmp")); err != nil {
				t.Skip("needs symbolic links: ", err)
			}
			check(t, platform.WriteDurably(path, []byte("new")))
			alone(t, path, "new")
			alone(t, victim, "precious")
			if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || runtime.GOOS != "windows" && info.Mode()&0o111 != 0 {
				t.Errorf("file is %v (%v)", info.Mode(), err)
			}
		})
	}
}

// TestWriteDurably_Fails: nothing of a failure stays.
func TestWriteDurably_Fails(t *testing.T) {
	t.Run("no folder", func(t *testing.T) {
		dir := t.TempDir()
		err := platform.WriteDurably(filepath.Join(dir, "gone", "f"), []byte("new"))
		if !errors.Is(err, fs.ErrNotExist) || inFolder(t, dir) != "" {
			t.Errorf("%v; left %q", err, inFolder(t, dir))
		}
	})
	t.Run("onto a folder", func(t *testing.T) {
		dir := t.TempDir()
		check(t, os.MkdirAll(filepath.Join(dir, "f", "full"), 0o755))
		that(t, platform.WriteDurably(filepath.Join(dir, "f"), []byte("new")) != nil, "no error")
		if got := inFolder(t, dir); got != "f" || inFolder(t, filepath.Join(dir, "f")) != "full" {
			t.Errorf("left %q", got)
		}
	})
	t.Run("temporary name is a folder", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		check(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Mkdir(filepath.Join(dir, ".f.holdfast-tmp"), 0o755)))
		that(t, platform.WriteDurably(path, []byte("new")) != nil, "no error")
		if got, _ := os.ReadFile(path); string(got) != "old" || inFolder(t, dir) != ".f.holdfast-tmp f" {
			t.Errorf("contents %q, in the folder %q", got, inFolder(t, dir))
		}
	})
}

func TestSyncFolder(t *testing.T) {
	dir := t.TempDir()
	noErr(t, platform.SyncFolder(dir))
	if err := platform.SyncFolder(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) && runtime.GOOS != "windows" {
		t.Errorf("a folder that is not there: %v", err)
	}
}
