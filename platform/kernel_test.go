package platform_test

import (
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/platform"
)

// Kernel locks.

func TestTryLock_Modes(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "file")
	for _, test := range []struct {
		first, second platform.Mode
		want          error
	}{
		{platform.Exclusive, platform.Exclusive, platform.ErrBusy},
		{platform.Exclusive, platform.Shared, platform.ErrBusy},
		{platform.Shared, platform.Exclusive, platform.ErrBusy},
		{platform.Shared, platform.Shared, nil},
	} {
		first := locked(t, path, test.first)
		wantLock(t, "beside it", path, test.second, test.want)
		closed(t, first)
		wantLock(t, "closed", path, test.second, nil)

		first = locked(t, path, test.first)
		noErr(t, first.Unlock())
		wantLock(t, "unlocked", path, test.second, nil)
		noErr(t, first.Unlock(), "unlocked again")
		closed(t, first)
		closed(t, first)
	}
}

// TestTryLock_Converts: a lock in another mode is let go of first, and gone if the new one
// is not to be had.
func TestTryLock_Converts(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "file")
	one, two := locked(t, path, platform.Shared), locked(t, path, platform.Shared)
	equal(t, one.TryLock(platform.Exclusive), platform.ErrBusy, "exclusive beside another reader")
	noErr(t, two.TryLock(platform.Exclusive), "exclusive, alone")
	wantLock(t, "exclusive now", path, platform.Shared, platform.ErrBusy)
	noErr(t, two.TryLock(platform.Shared), "shared again")
	wantLock(t, "shared now", path, platform.Shared, nil)
}

func TestWaitLock(t *testing.T) {
	needsKernelLocks(t)
	path := filepath.Join(t.TempDir(), "file")
	holder, next := locked(t, path, platform.Exclusive), open(t, path)
	var dropped atomic.Bool
	done := make(chan error, 1)
	go func() {
		err := next.WaitLock(platform.Exclusive)
		that(t, dropped.Load(), "granted while it was held")
		done <- err
	}()
	dropped.Store(true)
	closed(t, holder)
	promptly(t, "WaitLock", func() {
		noErr(t, <-done)
	})
	wantLock(t, "waited for", path, platform.Exclusive, platform.ErrBusy)
}

// TestTryLock_FollowsTheFile: a lock is the file's, whatever becomes of its path.
func TestTryLock_FollowsTheFile(t *testing.T) {
	needsKernelLocks(t)
	if runtime.GOOS == "windows" {
		t.Skip("an open file stays where it is")
	}
	path := filepath.Join(t.TempDir(), "file")
	f := locked(t, path, platform.Exclusive)
	rename(t, path, path+".moved")
	wantLock(t, "another file", path, platform.Exclusive, nil)
	wantLock(t, "moved", path+".moved", platform.Exclusive, platform.ErrBusy)
	closed(t, f)
	wantLock(t, "moved, and closed", path+".moved", platform.Exclusive, nil)
}
