package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// TestTellWait_NotItself: who has got the lock between two looks is not told that they are
// in their own way.
func TestTellWait_NotItself(t *testing.T) {
	file := lock.File{Path: filepath.Join(t.TempDir(), "a.lock")}
	held, err := file.TryAcquire(t.Context())
	testkit.Check(t, err)
	var said strings.Builder
	a := &app{stderr: &said}
	a.tellWait(t.Context(), &waitNotice{at: files{}, name: file.Path})
	if err := os.Remove(file.Path); err != nil { // then the kernel's list tells, where it can
		t.Fatal(err)
	}
	if s, err := file.Inspect(t.Context()); err == nil && len(s.Processes) > 0 {
		a.tellWait(t.Context(), &waitNotice{at: files{}, name: file.Path})
	}
	if said.Len() > 0 {
		t.Errorf("said %q", said.String())
	}
	_ = held.Release()
}
