package tests

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// throughFUSE gives a further way to a folder: a FUSE filesystem that passes everything on
// to it but locks, which the kernel then keeps for this mount alone. So do many that are in
// use; NFS, or a virtual machine's shared folder, look much the same from the other side.
// For so long the kernel remembers what it was told of names and files; libfuse has it
// do so for a second.
func throughFUSE(t *testing.T, dir string, remember time.Duration) string {
	t.Helper()
	testkit.NeedsRoot(t, "mount a filesystem")
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs FUSE: ", err)
	}
	root := must(fs.NewLoopbackRoot(dir))(t)
	at := t.TempDir()
	server, err := fs.Mount(at, root, &fs.Options{EntryTimeout: &remember, AttrTimeout: &remember, MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "holdfast-test", Name: "holdfast",
	}})
	if err != nil {
		t.Skip("needs the right to mount FUSE: ", err)
	}
	t.Cleanup(func() {
		noErr(t, server.Unmount(), "unmounting")
	})
	return at
}

// TestFUSE_ReleaseLeavesOthers: the lock file of a holder is removed on one way to the
// folder, and made again there by somebody else. On the other, the filesystem remembers
// that it was the first one's; Release does not go by that.
func TestFUSE_ReleaseLeavesOthers(t *testing.T) { // guards: T3
	for _, remember := range []time.Duration{0, time.Minute} {
		t.Run(remember.String(), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, ".lock")
			first := must(lock.File{Path: filepath.Join(throughFUSE(t, dir, remember), ".lock")}.TryAcquire(t.Context()))(t)
			check(t, os.Remove(path))
			second := must(lock.File{Path: path}.TryAcquire(t.Context()))(t)
			wantErr(t, first.Release(), lock.ErrLost, "release of the first")
			noErr(t, second.Release(), "release of the second")
		})
	}
}
