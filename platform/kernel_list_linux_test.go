package platform_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
)

// listedDir is a folder whose files /proc/locks names as stat does.
func listedDir(t *testing.T) string {
	t.Helper()
	if _, err := platform.ListKernelLocks(); err != nil {
		t.Skip("needs a list of the kernel's locks: ", err)
	}
	for _, dir := range []string{t.TempDir(), "/dev/shm"} {
		fsys, err := platform.FilesystemOf(dir)
		if err != nil {
			continue
		}
		switch fsys.Kind {
		case "ext4", "xfs", "tmpfs":
			sub := must(os.MkdirTemp(dir, "holdfast-test"))(t)
			t.Cleanup(func() { os.RemoveAll(sub) })
			return sub
		}
	}
	t.Skip("needs ext4, xfs or tmpfs at the temporary folder or at /dev/shm")
	return ""
}

func TestListKernelLocks(t *testing.T) {
	path := filepath.Join(listedDir(t), "sibling")
	held := func() bool {
		t.Helper()
		locks := must(platform.ListKernelLocks())(t)
		id := must(platform.IdentifyFile(path))(t)
		return locks.Held(id)
	}
	for _, mode := range []platform.Mode{platform.Exclusive, platform.Shared} {
		k := locked(t, path, mode)
		that(t, held(), "held in mode %v, and not in the list", mode)
		locks, _ := platform.ListKernelLocks()
		id, _ := platform.IdentifyFile(path)
		// On a busy machine the list may have a reader twice: see listKernelLocks.
		if got := slices.Compact(locks.Holders(id)); len(got) != 1 || got[0] != os.Getpid() {
			t.Errorf("held by %v, want this process", got)
		}
		closed(t, k)
		that(t, !held(), "in the list after it was dropped")
	}
	// Locks of other kinds are not ours.
	f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	check(t, syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}))
	that(t, !held(), "a lock of fcntl(2) passes for one of flock(2)")
	that(t, !(platform.KernelLocks{}).Held(platform.FileID{}), "the zero value knows of a lock")
}
