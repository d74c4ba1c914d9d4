package platform_test

import (
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

// TestFilesystemOf_Mounts: what is remembered of a mount is not said of the next one at the
// same path.
func TestFilesystemOf_Mounts(t *testing.T) {
	if !testkit.WithMounts(t) {
		return
	}
	dir := t.TempDir()
	is := func(want string) {
		t.Helper()
		for range 2 {
			if got, err := platform.FilesystemOf(dir); err != nil || got.Kind != want {
				t.Errorf("%+v, %v; want %s", got, err, want)
			}
		}
	}
	below, err := platform.FilesystemOf(dir)
	testkit.Check(t, err)
	is(below.Kind)
	for _, kind := range []string{"tmpfs", "ramfs", "tmpfs"} {
		testkit.Check(t, syscall.Mount("none", dir, kind, 0, ""))
		is(kind)
		testkit.Check(t, syscall.Unmount(dir, 0))
		is(below.Kind)
	}
}
