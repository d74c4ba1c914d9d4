package testkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
)

// What not every system, user or filesystem has, and some tests are about.

// NeedsRoot skips for an ordinary user: it needs root, to do that.
func NeedsRoot(t testing.TB, to string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to ", to)
	}
}

// NeedsKernelLocks skips where there are none.
func NeedsKernelLocks(t testing.TB) {
	t.Helper()
	f := probe(t, os.O_RDWR)
	if err := f.TryLock(platform.Exclusive); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("needs a system with kernel locks")
	}
}

// NeedsTurnstile skips where newcomers can't be told from waiters.
func NeedsTurnstile(t testing.TB) {
	t.Helper()
	if !platform.HasTurnstile() {
		t.Skip("needs a system with turnstiles, to have newcomers wait behind who waits")
	}
}

// NeedsMarks skips where a lock file appears only with its claim, or does not keep its mark
// (Wine).
func NeedsMarks(t testing.TB) {
	t.Helper()
	f, err := platform.Create(filepath.Join(t.TempDir(), "marked"), true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		t.Fatal(err)
	} else if !info.Marked() {
		t.Skip("needs a system where files can be marked, to have a claim written into a file that is at its path")
	}
}

// NeedsKernelList skips where the kernel does not list its locks.
func NeedsKernelList(t testing.TB) {
	t.Helper()
	if _, err := platform.ListKernelLocks(); err != nil {
		t.Skip("needs a list of the kernel's locks, to see who has and who waits: ", err)
	}
}

// NeedsLeases skips where the system can't tell whether a file is open.
func NeedsLeases(t testing.TB) {
	t.Helper()
	switch _, err := probe(t, os.O_RDONLY).BeingWritten(); {
	case errors.Is(err, errors.ErrUnsupported):
		t.Skip("needs leases, to tell whether somebody has a file open: ", err)
	case err != nil:
		t.Fatal(err)
	}
}

// probe is a file to try things with.
func probe(t testing.TB, flag int) *platform.File {
	t.Helper()
	f, err := platform.Open(filepath.Join(t.TempDir(), "probe"), flag|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
