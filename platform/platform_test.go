package platform_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

// roles are filled by the files per system.
var roles = map[string]func(){}

func TestMain(m *testing.M) {
	testkit.Main(m, func(role string, _ []string) { roles[role]() })
}

var (
	promptly         = testkit.Promptly
	needsKernelLocks = testkit.NeedsKernelLocks
)

// open opens a file, or makes it, for the time of the test.
func open(t *testing.T, path string) *platform.File {
	t.Helper()
	f, err := platform.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// locked is open, with the kernel lock.
func locked(t *testing.T, path string, mode platform.Mode) *platform.File {
	t.Helper()
	f := open(t, path)
	if err := f.TryLock(mode); err != nil {
		t.Fatal(err)
	}
	return f
}

func closed(t *testing.T, f *platform.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// wantLock tries for the kernel lock of a file as another open file of it.
func wantLock(t *testing.T, when, path string, mode platform.Mode, want error) {
	t.Helper()
	f := open(t, path)
	defer f.Close()
	if err := f.TryLock(mode); err != want {
		t.Errorf("%s: %v, want %v", when, err, want)
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
}
