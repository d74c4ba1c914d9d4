package lock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
)

// What not every system has, and some tests are about.

func needsTurnstile(t *testing.T) {
	t.Helper()
	if !platform.HasTurnstile() {
		t.Skip("needs a system with turnstiles, to have newcomers wait behind who waits")
	}
}

func needsMarks(t *testing.T) {
	t.Helper()
	if !platform.KeepsMarks {
		t.Skip("needs a system where files can be marked, to have a claim written into a file that is at its path")
	}
}

func needsKernelList(t *testing.T) {
	t.Helper()
	if _, err := platform.ListKernelLocks(); err != nil {
		t.Skip("needs a list of the kernel's locks, to see who has and who waits: ", err)
	}
}

// needsLeases skips where nobody can tell whether a file is open.
func needsLeases(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := platform.Open(path, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.BeingWritten(); err != nil {
		t.Skip("needs leases, to tell whether somebody has a file open: ", err)
	}
}
