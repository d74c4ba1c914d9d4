package platform_test

import (
	"context"
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
	check    = testkit.Check
	that     = testkit.That
	notYet   = testkit.NotYet
	errOf    = testkit.ErrOf
	noErr    = testkit.NoErr
	wantErr  = testkit.WantErr
	contains = testkit.Contains
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

var (
	promptly         = testkit.Promptly
	needsKernelLocks = testkit.NeedsKernelLocks
)

// open opens a file, or makes it, for the time of the test.
func open(t *testing.T, path string) *platform.File {
	t.Helper()
	f := must(platform.Open(path, os.O_RDWR|os.O_CREATE))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// locked is open, with the kernel lock.
func locked(t *testing.T, path string, mode platform.Mode) *platform.File {
	t.Helper()
	f := open(t, path)
	check(t, f.TryLock(mode))
	return f
}

func closed(t *testing.T, f *platform.File) {
	t.Helper()
	check(t, f.Close())
}

// wantLock tries for the kernel lock of a file as another open file of it.
func wantLock(t *testing.T, when, path string, mode platform.Mode, want error) {
	t.Helper()
	f := open(t, path)
	defer f.Close()
	equal(t, f.TryLock(mode), want, when)
}

func TestFilesystemOf_Absent(t *testing.T) {
	dir := t.TempDir()
	there := must(platform.FilesystemOf(dir))(t)
	that(t, there.Kind != "", "the kind is empty")
	wantErr(t, errOf(platform.FilesystemOf(filepath.Join(dir, "absent"))), fs.ErrNotExist, "of what does not exist")
}

// Processes and hosts.

func TestSelf(t *testing.T) {
	self := platform.Self()
	equal(t, self.PID, os.Getpid(), "pid")
	equal(t, self, platform.Self(), "changes")
	want := platform.Alive
	if self.Start == 0 && self.PIDFD == 0 {
		want = platform.Exists
	}
	equal(t, platform.Probe(self), want, "liveness")
}

func TestProbe_NotAPID(t *testing.T) {
	for _, pid := range []int{0, -1, -os.Getpid()} {
		equal(t, platform.Probe(platform.Process{PID: pid}), platform.Uncertain, "pid", pid)
	}
}

func TestAwaitExit_GivesUp(t *testing.T) {
	self := platform.Self()
	promptly(t, "AwaitExit", func() {
		that(t, platform.AwaitExit(context.Background(), self, time.Millisecond) != platform.Gone, "this process is gone")
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		that(t, platform.AwaitExit(ended, self, 24*time.Hour) != platform.Gone, "this process is gone")
	})
}

func TestThisHost(t *testing.T) {
	host := platform.ThisHost()
	if name, err := os.Hostname(); err == nil && host.Name != name {
		t.Errorf("name is %q, want %q", host.Name, name)
	}
	equal(t, host, platform.ThisHost(), "changes")
}
