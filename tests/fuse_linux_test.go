package tests

import (
	"os"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// throughFUSE gives a further way to a folder: a FUSE filesystem that passes everything on
// to it but locks, which the kernel then keeps for this mount alone. So do many that are in
// use; NFS, or a virtual machine's shared folder, look much the same from the other side.
func throughFUSE(t *testing.T, dir string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a filesystem")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs FUSE: ", err)
	}
	root, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	server, err := fs.Mount(at, root, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "holdfast-test", Name: "holdfast",
	}})
	if err != nil {
		t.Skip("needs the right to mount FUSE: ", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error("unmounting: ", err)
		}
	})
	return at
}
