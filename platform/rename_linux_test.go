package platform_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

func init() {
	roles["open for writing"] = func() { openAndStay(os.O_WRONLY) }
	roles["open for reading"] = func() { openAndStay(os.O_RDONLY) }
	roles["map"] = mapAndStay
}

// pathVar tells a child which file is meant.
const pathVar = "HOLDFAST_PLATFORM_PATH"

func openAndStay(flag int) {
	f, err := os.OpenFile(os.Getenv(pathVar), flag, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sayAndWait("open")
	f.Close()
}

// mapAndStay has the file in memory, to be written to, and not open any more.
func mapAndStay() {
	f, err := os.OpenFile(os.Getenv(pathVar), os.O_RDWR, 0)
	if err == nil {
		_, err = syscall.Mmap(int(f.Fd()), 0, 1, syscall.PROT_WRITE, syscall.MAP_SHARED)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sayAndWait("mapped")
}

func beingWritten(path string) (bool, error) {
	f, err := platform.Open(path, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return f.BeingWritten()
}

func wantBeingWritten(t *testing.T, when, path string, want bool) {
	t.Helper()
	promptly(t, "BeingWritten", func() {
		equal(t, must(beingWritten(path))(t), want, when)
	})
}

// filesystems are folders on filesystems of different kinds.
func filesystems(t *testing.T) map[string]string {
	t.Helper()
	memory := must(os.MkdirTemp("/dev/shm", "holdfast"))(t)
	t.Cleanup(func() { os.RemoveAll(memory) })
	dirs := map[string]string{}
	for _, dir := range []string{t.TempDir(), memory} {
		fsys := must(platform.FilesystemOf(dir))(t)
		dirs[fsys.Kind] = dir
	}
	return dirs
}

// TestBeingWritten: only who has the file open for writing counts, in whatever
// process, and only as long.
func TestBeingWritten(t *testing.T) {
	testkit.NeedsLeases(t)
	for kind, dir := range filesystems(t) {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(dir, "file")
			check(t, os.WriteFile(path, []byte("data"), 0o600))
			wantBeingWritten(t, "nobody", path, false)
			for flag, want := range map[int]bool{
				os.O_RDONLY: false, os.O_WRONLY: true, os.O_RDWR: true, os.O_WRONLY | os.O_APPEND: true,
			} {
				f := must(os.OpenFile(path, flag, 0))(t)
				wantBeingWritten(t, fmt.Sprintf("we, with flag %#x", flag), path, want)
				check(t, f.Close())
				wantBeingWritten(t, "we, closed again", path, false)
			}
			for role, want := range map[string]bool{"open for writing": true, "open for reading": false, "map": true} {
				t.Setenv(pathVar, path)
				var said string
				_, end := playRole(t, role, &said)
				wantBeingWritten(t, "another process: "+role, path, want)
				end()
				wantBeingWritten(t, "another process, ended: "+role, path, false)
			}
			equal(t, string(must(os.ReadFile(path))(t)), "data", "the file holds")
		})
	}
}

// TestBeingWritten_WriterKilled: what a process that was killed had open, is open no
// more.
func TestBeingWritten_WriterKilled(t *testing.T) {
	testkit.NeedsLeases(t)
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, nil, 0o600))
	t.Setenv(pathVar, path)
	var said string
	writer, _ := playRole(t, "open for writing", &said)
	wantBeingWritten(t, "the writer lives", path, true)
	writer.Process.Kill()
	writer.Wait()
	wantBeingWritten(t, "the writer was killed", path, false)
}

// TestBeingWritten_LeavesNothing: the question hinders nobody who opens the file
// afterwards, or meanwhile, and leaves nothing open.
func TestBeingWritten_LeavesNothing(t *testing.T) {
	testkit.NeedsLeases(t)
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, nil, 0o600))
	before := descriptors(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				noErr(t, errOf(beingWritten(path)))
			}
		})
	}
	for range 500 {
		f := must(os.OpenFile(path, os.O_WRONLY, 0))(t)
		check(t, f.Close())
	}
	all.Wait()
	// Fewer are no fault: what other tests have dropped is closed at some time.
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

// TestRenameNew: what is at the target stays, whatever it is, and so does the source.
func TestRenameNew(t *testing.T) {
	for kind, dir := range filesystems(t) {
		t.Run(kind, func(t *testing.T) {
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			check(t, os.WriteFile(from, []byte("new"), 0o600))
			before := must(platform.IdentifyFile(from))(t)
			for name, make := range map[string]func() error{
				"file":             func() error { return os.WriteFile(to, []byte("old"), 0o600) },
				"empty file":       func() error { return os.WriteFile(to, nil, 0o600) },
				"empty folder":     func() error { return os.Mkdir(to, 0o755) },
				"dangling symlink": func() error { return os.Symlink("nothing", to) },
				"symlink to it":    func() error { return os.Symlink(from, to) },
				"the same file":    func() error { return os.Link(from, to) },
				"FIFO":             func() error { return syscall.Mkfifo(to, 0o600) },
			} {
				check(t, make())
				there := must(platform.IdentifyFile(to))(t)
				wantErr(t, platform.RenameNew(from, to), fs.ErrExist, name)
				if now, err := platform.IdentifyFile(to); err != nil || now != there {
					t.Errorf("%s: it is now %v (%v), was %v", name, now, err, there)
				}
				if now, err := platform.IdentifyFile(from); err != nil || now != before {
					t.Errorf("%s: the source is now %v (%v), was %v", name, now, err, before)
				}
				check(t, os.Remove(to))
			}
			check(t, platform.RenameNew(from, to))
			if now, err := platform.IdentifyFile(to); err != nil || now != before {
				t.Errorf("renamed, it is %v (%v), want %v", now, err, before)
			}
			wantErr(t, errOf(os.Lstat(from)), fs.ErrNotExist, "the source")
			wantErr(t, platform.RenameNew(from, filepath.Join(dir, "other")), fs.ErrNotExist, "without a source")
		})
	}
}

// TestRenameNew_OneWins: of eight who rename to one path at once one succeeds, and it
// is that one's file which lies there.
func TestRenameNew_OneWins(t *testing.T) {
	const racers = 8
	dir := t.TempDir()
	to := filepath.Join(dir, "to")
	for round := range 200 {
		begin := make(chan struct{})
		errs := make([]error, racers)
		var all sync.WaitGroup
		for i := range racers {
			from := filepath.Join(dir, fmt.Sprint(i))
			check(t, os.WriteFile(from, []byte{byte(i)}, 0o600))
			all.Go(func() {
				<-begin
				errs[i] = platform.RenameNew(from, to)
			})
		}
		close(begin)
		all.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won >= 0:
				t.Fatalf("round %d: %d and %d have won", round, won, i)
			case err == nil:
				won = i
			case !errors.Is(err, fs.ErrExist):
				t.Errorf("round %d: %v", round, err)
			}
		}
		if got, err := os.ReadFile(to); err != nil || won < 0 || !bytes.Equal(got, []byte{byte(won)}) {
			t.Fatalf("round %d: %d has won, %v lies there (%v)", round, won, got, err)
		}
		check(t, os.Remove(to))
	}
}
